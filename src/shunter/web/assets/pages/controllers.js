// Shunter's controllers of a cluster: the leader, its epoch, its queue, the delay of its event loop, and its moves.
import { html } from "../vendor/htm-preact.js";
import { usePolled } from "../store.js";
import { Chip, Figure, Link, Shown } from "../parts.js";
import { count, lag, number } from "../words.js";

// The leading controller, in a sentence. If none leads, a controller that does not answer might; that case is separate.
function leadership(controllers) {
  const leading = controllers.filter((each) => each.status?.active);
  const silent = controllers.filter((each) => !each.status);
  if (leading.length > 1) return { kind: "bad", told: `${leading.length} say that they lead`, why: "Only one of them can be right: brokers obey the one with the greatest epoch." };
  if (leading.length) return { kind: "good", told: `${leading[0].status.broker_id} leads`, leader: leading[0].status };
  if (silent.length) return { kind: "watch", told: "who leads is not known", why: `${count(silent.length, "controller")} of ${controllers.length} ${silent.length === 1 ? "does" : "do"} not answer, and none of the others leads.` };
  return { kind: "bad", told: "none of them leads", why: "An Apache broker may be the controller, or the cluster has no controller." };
}

function Standing({ view }) {
  const { status, trouble } = view;
  if (!status) return html`<${Chip} kind="watch">not known</${Chip}> <span class="dim">${trouble}</span>`;
  const [kind, told] = status.active ? ["good", "leads"] : status.ready ? ["still", "stands by"] : ["watch", "not ready"];
  return html`<${Chip} kind=${kind}>${told}</${Chip}> <span class="dim">${status.told.join("; ")}</span>`;
}

function Figures({ name, leader }) {
  // A move in phase `dropping` has ended and is in no list: brokers have yet to confirm that they deleted replicas.
  const phases = Object.entries(leader.moves).sort();
  const all = phases.reduce((sum, [phase, many]) => sum + (phase === "dropping" ? 0 : many), 0);
  return html`<dl class="figures small"><${Figure} label="Epoch" value=${number(leader.controller_epoch)} />
    <${Figure} label="Queue" value=${count(leader.events_waiting, "event")}>${leader.events_waiting ? `the oldest for ${lag(leader.oldest_event_s)}; ` : ""}${count(leader.decisions_waiting, "decision")} behind them</${Figure}>
    <${Figure} label="Lag of its loop" value=${lag(leader.lag_s)}>${lag(leader.worst_lag_s)} at the worst within the last minute</${Figure}>
    <${Figure} label="Moves" value=${number(all)}>${phases.map(([phase, many]) => `${number(many)} ${phase.replaceAll("_", " ")}`).join(", ") || "none"}${all > 0 && html` · <${Link} to="/clusters/${encodeURIComponent(name)}/moves">see them</${Link}>`}</${Figure}>
    <${Figure} label="Brokers" value=${number(leader.brokers)} kind=${leader.unreachable_brokers ? "bad" : ""}>${leader.unreachable_brokers ? `${number(leader.unreachable_brokers)} without a connection` : "all connected"}</${Figure}></dl>`;
}

export function Controllers({ name }) {
  const view = usePolled(`/clusters/${encodeURIComponent(name)}/controllers`);
  return html`<${Shown} view=${view} what="the controllers of ${name}">${({ controllers }) => {
    if (!controllers.length) return null;
    const stand = leadership(controllers);
    return html`<section class="panel ${stand.kind === "good" ? "" : stand.kind}" aria-label="Shunter's controllers"><div class="head"><h2>Shunter's controllers</h2><${Chip} kind=${stand.kind}>${stand.told}</${Chip}></div>
      ${stand.why && html`<p>${stand.why}</p>`}${stand.leader && html`<${Figures} name=${name} leader=${stand.leader} />`}
      <ul class="conditions">${controllers.map((each) => html`<li key=${each.url}><div>${each.status ? html`<strong>Id ${each.status.broker_id}</strong>` : html`<code>${each.url}</code>`} <${Standing} view=${each} /></div></li>`)}</ul></section>`;
  }}</${Shown}>`;
}
