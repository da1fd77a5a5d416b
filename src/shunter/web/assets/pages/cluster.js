// One cluster now: how it stands and what to do, the brokers by rack with what flows between them, conditions in groups.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { order, place, show, useView, useWatched } from "../store.js";
import { Controllers } from "./controllers.js";
import { BrokerIntents, Intents, Unhold } from "./intents.js";
import { Turns } from "./moves.js";
import { Decide } from "./proposals.js";
import { Ago, Chip, Drawer, Empty, Figure, Link, Meter, Moment, Name, Order, Said, Shown, Side, SortedTable, memo } from "../parts.js";
import { KillSwitch } from "../kill.js";
import { bytes, capital, count, days, duration, few, number, percent, rate, words } from "../words.js";
import { Aged, Headline, KIND, faded, rank, taken } from "../situation.js";

const MEASURES = {
  disk: { label: "Disk in use", of: (each) => (each.disk_total ? 1 - each.disk_usable / each.disk_total : null), whole: 1, told: (value) => percent(value) },
  traffic: { label: "Traffic", of: (each) => (each.bytes_in === null ? null : each.bytes_in + (each.bytes_out ?? 0)), told: rate },
  bytes: { label: "Bytes", of: (each) => each.replica_bytes, told: bytes },
  leaders: { label: "Leaders", of: (each) => each.leaders, told: number },
  replicas: { label: "Replicas", of: (each) => each.replicas, told: number },
};

function stateOf(broker) {
  if (!broker.live) return { kind: "bad", told: broker.barred === "is fenced" ? "fenced" : "down" };
  if (broker.offline) return { kind: "bad", told: `${count(broker.offline, "replica")} offline` };
  if (broker.safe_to_remove) return { kind: "good", told: "empty: safe to remove" };
  if (broker.drained) return { kind: "watch", told: "being drained" };
  if (broker.replaced_by !== null) return { kind: "watch", told: `being replaced by ${broker.replaced_by}` };
  if (broker.frozen) return { kind: "still", told: "frozen" };
  if (broker.barred) return { kind: "watch", told: broker.barred.replace(/^is /, "") };
  if (broker.demoted) return { kind: "still", told: "demoted" };
  if (broker.added) return { kind: "good", told: "live, added" };
  return { kind: "good", told: "live" };
}

const choose = (id, chosen) => show({ broker: chosen ? "" : id });

const ROOMY = 16;
const MANY = 80;

const Wagon = memo(({ broker, measure, most, chosen, roomy }) => {
  const state = stateOf(broker);
  const value = measure.of(broker);
  const share = value === null ? 0 : value / (measure.whole || most || 1);
  const full = measure.whole && share >= 0.9 ? "full" : measure.whole && share >= 0.8 ? "filling" : "";
  const flags = [broker.receives && `${broker.receives} coming`, broker.gives && `${broker.gives} leaving`].filter(Boolean).join(", ");
  const told = value === null ? "not known" : measure.told(value);
  return html`<button type="button" data-broker=${broker.id} class="wagon ${state.kind} ${full} ${broker.live ? "" : "down"} ${broker.drained || broker.replaced_by !== null ? "drained" : ""}" aria-pressed=${chosen} onClick=${() => choose(broker.id, chosen)}
    title="broker ${broker.id}: ${state.told}; ${measure.label.toLowerCase()} ${told}${flags && `; ${flags}`}">
    <span class="load" style=${{ transform: `scaleY(${Math.min(1, share)})` }}></span>
    <span class="id">${broker.id}</span>
    ${roomy && html`<span class="more"><b>${broker.live && !broker.safe_to_remove ? told : state.told}</b>${measure === MEASURES.disk && broker.bytes_in !== null && html`<small>${rate(broker.bytes_in)} in, ${rate(broker.bytes_out)} out</small>`}<small>${broker.live ? `${number(broker.replicas)} replicas, leads ${number(broker.leaders)}` : `${number(broker.replicas)} replicas`}</small></span>`}
    <span class="hidden">${state.told}, ${measure.label} ${told}, ${flags}</span>
    <span class="flags" aria-hidden="true">${broker.receives ? `↓${roomy ? broker.receives : ""}` : ""}${broker.gives ? `↑${roomy ? broker.gives : ""}` : ""}${broker.live ? "" : "✕"}${broker.safe_to_remove ? "✓" : ""}</span></button>`;
});

// What moves between brokers: a line from where replicas go to where they come, thicker for more of them.
function Flows({ flows, box }) {
  const [drawn, setDrawn] = useState({ lines: [], wide: 0, high: 0 });
  useLayoutEffect(() => {
    const draw = () => {
      const frame = box.current.getBoundingClientRect();
      const at = (id) => box.current.querySelector(`[data-broker="${id}"]`)?.getBoundingClientRect();
      const most = Math.max(1, ...flows.map((each) => each.moves));
      const lines = flows.map((each) => [each, at(each.source), at(each.target)]).filter(([, from, to]) => from && to).map(([each, from, to]) => {
        // Where a broker has words, lines keep to its right.
        const part = from.width > 80 ? 0.88 : 0.5;
        const [x, y] = [from.left + from.width * part - frame.left, from.top + from.height / 2 - frame.top];
        const [u, v] = [to.left + to.width * part - frame.left, to.top + to.height / 2 - frame.top];
        // Bent to one side, so that two directions between the same brokers are two lines.
        const long = Math.hypot(u - x, v - y) || 1;
        const bend = Math.min(60, 16 + long / 8);
        return { key: `${each.source} ${each.target}`, path: `M${x},${y} Q${(x + u) / 2 + ((v - y) / long) * bend},${(y + v) / 2 - ((u - x) / long) * bend} ${u},${v}`, thick: 1.5 + 2.5 * (each.moves / most), moving: each.moving > 0 };
      });
      setDrawn({ lines, wide: frame.width, high: frame.height });
    };
    draw();
    const sized = new ResizeObserver(draw);
    sized.observe(box.current);
    return () => sized.disconnect();
  }, [flows]);
  return html`<svg class="flows" width=${drawn.wide} height=${drawn.high} aria-hidden="true"><defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z"></path></marker></defs>
    ${drawn.lines.map((each) => html`<path key=${each.key} d=${each.path} class=${each.moving ? "moving" : ""} stroke-width=${each.thick} marker-end="url(#tip)"></path>`)}</svg>`;
}

const Yard = memo(({ brokers, flows, chosen, measureName }) => {
  const box = useRef(null);
  const measure = MEASURES[measureName] || MEASURES.disk;
  const racks = useMemo(() => {
    const found = new Map();
    for (const broker of brokers) {
      // A dead broker's registration is gone, and its rack with it.
      const rack = broker.rack ?? (broker.live ? "no rack" : "down");
      found.set(rack, [...(found.get(rack) || []), broker]);
    }
    return [...found].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  }, [brokers]);
  const most = Math.max(1, ...brokers.map((each) => measure.of(each) ?? 0));
  const roomy = brokers.length <= ROOMY;
  const measures = Object.entries(MEASURES).filter(([name]) => name !== "traffic" || brokers.some((each) => each.bytes_in !== null));
  return html`<section class="panel yard ${roomy ? "roomy" : ""}"><div class="head"><h2>Brokers by rack</h2>
      <div class="tabs" role="group" aria-label="What the height of a broker shows">${measures.map(([name, each]) => html`<button type="button" aria-pressed=${each === measure}
        onClick=${() => show({ measure: name === "disk" ? "" : name })}>${each.label}</button>`)}</div></div>
    <div class="racks ${brokers.length > MANY ? "many" : ""}" ref=${box}>${racks.map(([rack, members]) => html`<div class="rack" key=${rack}><h3 title=${rack}><span>${rack}</span><small>${members.length}</small></h3>
      <div class="rail">${members.map((broker) => html`<${Wagon} key=${broker.id} broker=${broker} measure=${measure} most=${most} roomy=${roomy} chosen=${chosen === broker.id} />`)}</div></div>`)}
      ${flows.length > 0 && html`<${Flows} flows=${flows} box=${box} />`}</div>
    ${flows.length > 0 && html`<p class="flow-words"><strong>${flows.some((each) => each.moving) ? "Open moves:" : "Open moves, none runs now:"}</strong> ${few(flows.map((each) => `${each.source} → ${each.target}: ${count(each.moves, "replica")}, ${bytes(each.bytes_left)} left`), 4)}</p>`}
    <p class="legend dim"><span>height: ${measure.label.toLowerCase()}${measure.whole ? "" : ", the greatest is full height"}</span><span>↓ receives</span><span>↑ gives</span><span>✕ down</span><span>hatched: drained or replaced</span></p>
  </section>`;
});

function Broker({ name, broker, brokers, situation, who }) {
  const state = stateOf(broker);
  const old = brokers.filter((each) => each.replaced_by === broker.id).map((each) => each.id);
  const used = MEASURES.disk.of(broker);
  const base = `/clusters/${encodeURIComponent(name)}`;
  const close = () => show({ broker: "" });
  return html`<${Side} kind="broker" label="Broker ${broker.id}" at=${broker.id} close=${close}><div class="head"><h2>Broker ${broker.id} <small>${broker.rack ?? "no rack"}</small></h2><${Chip} kind=${state.kind}>${state.told}</${Chip}>
      <button type="button" class="quiet close" aria-label="Close" onClick=${close}>×</button></div>
    <dl class="figures small">
      <${Figure} label="Replicas" value=${number(broker.replicas)}>${bytes(broker.replica_bytes)}</${Figure}>
      <${Figure} label="Leads" value=${number(broker.leaders)}>preferred for ${number(broker.preferred)}</${Figure}>
      <${Figure} label="Disk" value=${percent(used)}>${broker.disk_total ? `${bytes(broker.disk_usable)} free of ${bytes(broker.disk_total)}` : "not reported by this broker"}</${Figure}>
      ${broker.bytes_in !== null && html`<${Figure} label="Traffic in" value=${rate(broker.bytes_in)}>${rate(broker.bytes_out)} out</${Figure}>`}
      <${Figure} label="Moves" value="↓ ${broker.receives}  ↑ ${broker.gives}" /></dl>
    ${used !== null && html`<${Meter} share=${used} kind=${used >= 0.9 ? "bad" : used >= 0.8 ? "watch" : "plain"} label="Disk of broker ${broker.id}" />`}
    ${old.length > 0 && html`<p class="dim">It takes the place of broker ${old.join(", ")}.</p>`}
    <p><${Link} to="${base}/topics?view=partitions&broker=${broker.id}">Its partitions →</${Link}></p>
    <${BrokerIntents} name=${name} broker=${broker} brokers=${brokers} situation=${situation} who=${who} /></${Side}>`;
}

// ---- now: what is being done, and what to do next

function NextProposal({ name, situation, who }) {
  const view = useView(`/clusters/${encodeURIComponent(name)}/proposals`, name);
  const waiting = view.data?.proposals.filter((each) => each.proposal.state === "waiting") ?? [];
  // Where another service drives, the decision is made there.
  if (!waiting.length || !situation.orders.includes("approve")) return null;
  const { proposal: each, least_ms: least } = waiting[0];
  return html`<div class="next"><p><strong>To do:</strong> decide on <${Link} to="/clusters/${encodeURIComponent(name)}/proposals#${each.id}">${words(each.scope)}</${Link}>: ${each.moves ? `${count(each.moves, "replica")} to copy, ${bytes(each.bytes)}${least ? `, at least ${duration(least)}` : ""}` : `${count(each.leader_changes, "preferred leader")} to change, nothing is copied`}.${waiting.length > 1 ? ` ${count(waiting.length - 1, "other proposal")} ${waiting.length === 2 ? "waits" : "wait"} too.` : ""}</p>
    <div class="actions"><${Decide} name=${name} view=${waiting[0]} situation=${situation} who=${who} /></div></div>`;
}

function Now({ name, page, who }) {
  const { row } = page;
  const { situation } = row;
  const { doing, notes, severity } = situation;
  const open = row.moves_open > 0;
  const head = notes.slice(0, 3);
  const clear = page.throttles_left.length > 0 && !open && situation.figures === "current";
  const dead = page.conditions.filter((each) => each.condition.condition === "broker-dead");
  return html`<section class="panel standing ${KIND[severity]}" aria-label="How it stands"><p><strong>Now:</strong> <${Said} text=${doing} />.${open && html` <${Link} to="/clusters/${encodeURIComponent(name)}/moves">See the moves →</${Link}>`}</p>
    ${situation.orders.includes("withdraw") && page.intents.filter((each) => each.kind === "hold").map((each) => html`<div class="next" key=${each.about}><p><strong>To do:</strong> plans of scope <code>${each.about}</code> are held: ${each.comment || "held"}, by ${each.who} since <${Moment} at=${each.at_ms} />. Nothing of this scope begins by itself.</p><div class="actions"><${Unhold} name=${name} hold=${each} situation=${situation} who=${who} label="Lift the hold" kind="primary" /></div></div>`)}
    ${dead.length > 0 && !open && situation.figures === "current" && html`<div class="next"><p><strong>To do:</strong> start ${few(dead.map((each) => each.condition.about))}, or let the replicas there go elsewhere.</p></div>`}
    ${row.proposals_waiting > 0 && html`<${NextProposal} name=${name} situation=${situation} who=${who} />`}
    ${clear && html`<div class="next"><p><strong>To do:</strong> ${count(page.throttles_left.length, "throttle")} left behind that no execution restores: they slow down replication.</p><div class="actions"><${Order} label="Remove them" kind="primary" title="Remove throttles that no execution restores" ...${taken("clear-throttles", situation, who)}
      give=${(comment) => order(name, "clear-throttles", { comment })}><p>They are removed only while nothing is being moved.</p><ul>${page.throttles_left.map((each) => html`<li><code>${each}</code></li>`)}</ul></${Order}></div></div>`}
    ${notes.length > 0 && html`<ul>${head.map((note) => html`<li><${Said} text=${note} /></li>`)}</ul>`}
    ${notes.length > 3 && html`<details><summary class="dim">and ${count(notes.length - 3, "other finding")}</summary><ul>${notes.slice(3).map((note) => html`<li><${Said} text=${note} /></li>`)}</ul></details>`}
    ${open && html`<${Turns} name=${name} who=${who} situation=${situation} partitions=${[]} what="all moves of this service in ${name}" />`}</section>`;
}

// ---- conditions: one line for each kind, one reason for all that share it, details folded

// By the policy alone: what is being done is told below.
const MODES = { act: "policy: acts by itself", propose: "policy: proposes", notify: "policy: only reports", off: "policy: off" };
const DETAILS = 200;

// "1, 2 above; 3, 4 below", or the things that the conditions are about.
function places(held) {
  const about = ({ condition: each }) => each.about.replace(/^(broker|topic) /, "");
  const sides = ["above", "below", ""].map((side) => [side, held.filter((each) => each.condition.side === side && each.condition.about).map(about)]);
  return sides.filter(([, names]) => names.length).map(([side, names]) => `${few(names)} ${side}`.trim()).join("; ");
}

function grouped(conditions) {
  const reasons = new Map();
  for (const each of conditions) {
    const kinds = reasons.get(each.doing) || reasons.set(each.doing, new Map()).get(each.doing);
    kinds.set(each.condition.condition, [...(kinds.get(each.condition.condition) || []), each]);
  }
  const worst = (held) => Math.min(...held.map((each) => rank(each)));
  const sorted = [...reasons].map(([doing, kinds]) => ({ doing, kinds: [...kinds.values()].sort((a, b) => worst(a) - worst(b)) }));
  return sorted.sort((a, b) => worst(a.kinds[0]) - worst(b.kinds[0]));
}

function Kind({ held }) {
  const [{ condition: first, mode, severity }] = held;
  const since = Math.min(...held.map((each) => each.condition.since_ms ?? Infinity));
  const lasts = held.length === 1 && first.minutes < first.wanted_minutes ? `, ${first.minutes} of ${first.wanted_minutes} minutes` : "";
  return html`<li><div><${Chip} kind=${KIND[severity]}>${severity}</${Chip}> <strong>${first.label || words(first.condition)}</strong>${held.length > 1 && html`<span>${places(held)}</span>`}
      <span class="dim">${since < Infinity ? html`since <${Moment} at=${since} />` : "first seen now"}${lasts}; ${MODES[mode] ?? mode}</span></div>
    ${held.length === 1 ? html`<p><${Said} text=${first.text} /></p>` : html`<${Drawer} kind="" title=${html`<span class="dim">${count(held.length, "detail")}</span>`}>${() => html`<ul>${held.slice(0, DETAILS).map(({ condition: each }) => html`<li key=${each.about}><${Said} text=${each.text} /></li>`)}${held.length > DETAILS && html`<li>and ${number(held.length - DETAILS)} more</li>`}</ul>`}</${Drawer}>`}</li>`;
}

function Prospects({ prospects }) {
  if (!prospects.length) return null;
  const reasons = new Map();
  for (const each of prospects) { const why = each.held_back.join("; "); reasons.set(why, [...(reasons.get(why) || []), each]); }
  const told = (each) => (each.partitions ? `${count(each.moves, "replica")} to copy, ${bytes(each.bytes)}; ${count(each.leader_changes, "partition")} with another preferred leader` : each.behind ? `planned after: ${words(each.behind)}` : each.held_back.length ? "no plan now" : "the planner finds no plan");
  return html`<${Drawer} kind="" title=${html`<strong>Plans</strong> <span class="dim">${prospects.map((each) => words(each.scope)).join(", ")}</span>`}>${() => [...reasons].map(([why, each]) => html`<ul class="conditions">${each.map((one) => html`<li><div><strong>${words(one.scope)}</strong> <span class="dim">${told(one)}</span></div>
      ${one.undone.slice(0, 3).map((left) => html`<p class="dim">Not done: <${Said} text=${left} /></p>`)}</li>`)}</ul>${why && html`<p class="because">Blocked: <${Said} text=${why} /></p>`}`)}</${Drawer}>`;
}

function Conditions({ view, name }) {
  const { conditions, prospects } = view;
  const { figures } = view.row.situation;
  if (figures === "unknown") return html`<section class="panel"><h2>Conditions</h2><${Empty} title="Not known">${name} was not observed yet.</${Empty}></section>`;
  if (!conditions.length && !prospects.length) return html`<section class="panel"><h2>Conditions</h2><${Empty} title="Healthy">No condition of the policy ${figures === "current" ? "holds" : "held when the cluster was last observed"}.</${Empty}></section>`;
  return html`<section class="panel"><h2>Conditions <small>${number(conditions.length)}</small></h2>${grouped(conditions).map(({ doing, kinds }) => html`<div class="reason" key=${doing}><ul class="conditions">${kinds.map((held) => html`<${Kind} key=${held[0].condition.condition} held=${held} />`)}</ul>
      ${doing && html`<p class="because"><${Said} text=${/^\S+-\d+ /.test(doing) ? doing : capital(doing)} /></p>`}</div>`)}
    <${Prospects} prospects=${prospects} /></section>`;
}

// Partitions that are not well: the first of them by name, all of them behind the link.
function Unwell({ name, page, old }) {
  const { row } = page;
  const kinds = [["offline", "Offline", page.offline, row.offline, "bad"], ["under min ISR", "Under min ISR", page.under_min_isr, row.under_min_isr, "bad"], ["under-replicated", "Under-replicated", page.under_replicated, row.under_replicated, "watch"]].filter(([, , , all]) => all);
  if (!kinds.length) return null;
  const to = (state) => `/clusters/${encodeURIComponent(name)}/topics?view=partitions&pstate=${encodeURIComponent(state)}`;
  return html`<section class="panel ${kinds[0][4]} ${old}" aria-label="Unhealthy partitions"><h2>Unhealthy partitions</h2><ul class="conditions">${kinds.map(([state, label, names, all]) => html`<li key=${state}><div><strong>${label}</strong> <span>${number(all)}</span> <${Link} to=${to(state)}>see them →</${Link}></div>
    <p class="names">${names.slice(0, 6).map((each) => html`<code><${Name} name=${each} /></code> `)}${all > 6 && html`<span class="dim">and ${number(all - 6)} more</span>`}</p></li>`)}</ul></section>`;
}

const BROKERS = [
  { label: "Broker", kind: "number", value: (each) => each.id, show: (each) => html`<button type="button" class="link" onClick=${() => choose(each.id, false)}>${each.id}</button>` },
  { label: "Rack", value: (each) => each.rack ?? "" },
  { label: "State", value: (each) => stateOf(each).told, show: (each) => html`<${Chip} kind=${stateOf(each).kind}>${stateOf(each).told}</${Chip}>` },
  { label: "Disk", kind: "number", value: MEASURES.disk.of, show: (each) => percent(MEASURES.disk.of(each)) },
  { label: "Bytes", kind: "number", value: (each) => each.replica_bytes, show: (each) => bytes(each.replica_bytes) },
  { label: "Replicas", kind: "number", value: (each) => each.replicas, show: (each) => number(each.replicas) },
  { label: "Leads", kind: "number", value: (each) => each.leaders, show: (each) => number(each.leaders) },
  { label: "Receives", kind: "number", value: (each) => each.receives },
  { label: "Gives", kind: "number", value: (each) => each.gives },
];
export function Cluster({ name, who }) {
  const view = useView(`/clusters/${encodeURIComponent(name)}`, name);
  const query = useWatched(place).searchParams;
  const chosen = query.has("broker") ? Number(query.get("broker")) : null;
  return html`<${Shown} view=${view} what=${name}>${(page) => {
    const { row } = page;
    const { situation } = row;
    const old = faded(situation.figures);
    const broker = page.brokers.find((each) => each.id === chosen);
    return html`<div class="title"><h1><${Name} name=${name} /></h1><${Headline} situation=${situation} /><span class="spring"></span><${KillSwitch} cluster=${name} situation=${situation} paused=${row.paused} who=${who} /></div>
      <${Now} name=${name} page=${page} who=${who} />
      ${situation.figures === "current" ? html`<p class="dim">Observed <${Ago} at=${situation.observed_at_ms} /> ago.</p>` : html`<${Aged} age=${situation.figures} at=${situation.observed_at_ms} />`}
      <dl class="figures ${old}"><${Figure} label="Brokers" value=${number(row.brokers)}>${row.brokers_down.length ? `${row.brokers_down.length} down` : row.brokers && !old ? "all live" : ""}</${Figure}>
        <${Figure} label="Partitions" value=${number(row.partitions)}>${situation.figures === "unknown" ? "" : count(page.topics_in_all, "topic")}</${Figure}>
        <${Figure} label="Fullest disk" value=${percent(row.disk_used)}>${row.runway_days === null ? "" : `full in ${days(row.runway_days)}`}</${Figure}>
        <${Figure} label="Imbalance" value=${percent(row.balance)}>${row.balance_of}</${Figure}>
        <${Figure} label="Under-replicated" value=${number(row.under_replicated)} kind=${row.under_replicated ? "watch" : ""} />
        <${Figure} label="Offline" value=${number(row.offline)} kind=${row.offline ? "bad" : ""} /></dl>
      ${page.brokers.length > 0 && html`<div class=${old}><${Yard} brokers=${page.brokers} flows=${page.flows} chosen=${chosen} measureName=${query.get("measure") || "disk"} /></div>`}
      ${broker && html`<${Broker} name=${name} broker=${broker} brokers=${page.brokers} situation=${situation} who=${who} />`}
      ${chosen !== null && !broker && page.brokers.length > 0 && html`<p class="banner watch" role="status">There is no broker ${query.get("broker")} in ${name}.</p>`}
      <${Conditions} view=${page} name=${name} />
      <${Unwell} name=${name} page=${page} old=${old} />
      ${page.policy?.controllers?.length > 0 && html`<${Controllers} name=${name} />`}
      ${page.brokers.length > 0 && html`<${Drawer} title=${html`<strong>Brokers as a table</strong>`}>${() => html`<${SortedTable} caption="Brokers" search=${page.brokers.length > 12 && "Broker, rack or state"} columns=${BROKERS} rows=${page.brokers} initial=${{ label: "Broker", down: false }} keyOf=${(each) => each.id} />`}</${Drawer}>`}
      <${Intents} view=${page} name=${name} who=${who} />`;
  }}</${Shown}>`;
}
