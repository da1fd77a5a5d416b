// The story of one move: each step, past and planned, with its replicas; other events, as a chart and as a list.
import { html, useState } from "../vendor/htm-preact.js";
import { show, useView } from "../store.js";
import { Chip, Figure, Link, Moment, Name, Said, Shown, Side, memo } from "../parts.js";
import { Lanes } from "./timeline.js";
import { bytes, duration, words } from "../words.js";

export const KINDS = { moving: "busy", pending: "still", paused: "watch", done: "good", "rolled-back": "watch", stopped: "watch", left: "watch", gone: "still", refused: "bad", superseded: "watch", foreign: "still", open: "busy" };
const STEP_KINDS = { done: "good", "under way": "busy", "asked for": "busy", dropped: "watch", "to come": "still" };
const TOLD = { later: "will come", gone: "was dropped", stays: "in sync", comes: "added, not in sync yet", behind: "out of sync", goes: "will go", here: "assigned" };

// Shown by marks and words, not by colour alone.
export const Replica = ({ id, kind }) => html`<span class="replica ${kind}" title="broker ${id}: ${TOLD[kind]}"><span class="hidden">broker </span>${id}<span class="hidden"> ${TOLD[kind]}</span></span>`;

// The replicas at a step: those that it adds and drops, beside those that stay.
function AtStep({ step }) {
  const over = step.state === "done";
  const kindOf = (id) => {
    if (!step.after.includes(id)) return over ? "gone" : "goes";
    if (over) return step.isr.length === 0 || step.isr.includes(id) ? "stays" : "here";
    if (step.before.includes(id)) return "stays";
    return step.state === "to come" || step.state === "dropped" ? "later" : "comes";
  };
  const every = [...step.after, ...step.before.filter((id) => !step.after.includes(id))];
  return html`<span class="replicas">${every.map((id) => html`<${Replica} key=${id} id=${id} kind=${kindOf(id)} />`)}</span>`;
}

function change(step) {
  const added = step.after.filter((id) => !step.before.includes(id)).map((id) => `+${id}`);
  const dropped = step.before.filter((id) => !step.after.includes(id)).map((id) => `−${id}`);
  if (added.length + dropped.length) return [...added, ...dropped].join(" ");
  return step.before.join() === step.after.join() ? "back" : "order";
}

const Steps = memo(({ story }) => html`<div class="scroll" tabindex="0" role="region" aria-label="Steps of ${story.partition}"><table class="plain steps"><caption class="hidden">Steps of ${story.partition}</caption>
  <thead><tr><th scope="col" class="number">Step</th><th scope="col">State</th><th scope="col">Change</th><th scope="col">Replicas</th><th scope="col">Began</th><th scope="col" class="number">Took</th><th scope="col" class="number">Copied</th><th scope="col" class="number" title="Bytes that a rollback from the end of this step copies">Rollback copies</th></tr></thead>
  <tbody><tr><td class="number">0</td><td><${Chip} kind="still">start</${Chip}></td><td></td><td><span class="replicas">${story.original.map((id) => html`<${Replica} key=${id} id=${id} kind="stays" />`)}</span></td><td><${Moment} at=${story.accepted_at_ms} /></td><td></td><td></td><td class="number">nothing</td></tr>
  ${story.steps.map((step) => html`<tr key=${step.number} class=${step.state === "to come" ? "dim" : ""}><td class="number">${step.number}</td><td><${Chip} kind=${STEP_KINDS[step.state]} title=${step.reason}>${step.state}</${Chip}></td><td>${change(step)}</td><td><${AtStep} step=${step} /></td>
    <td>${step.begun_at_ms ? html`<${Moment} at=${step.begun_at_ms} />` : ""}</td><td class="number">${step.ended_at_ms ? duration(step.ended_at_ms - step.begun_at_ms) : ""}</td>
    <td class="number">${step.copied_bytes === null ? "" : bytes(step.copied_bytes)}</td><td class="number">${step.rollback_bytes ? bytes(step.rollback_bytes) : "nothing"}</td></tr>`)}
  </tbody></table></div>`);

const Happened = memo(({ event, chosen }) => html`<li id="story-${event.number}" class=${chosen ? "chosen" : ""}><div class="when"><${Moment} at=${event.at_ms} />${event.until_ms ? html`<small>for ${duration(event.until_ms - event.at_ms)}</small>` : ""}</div>
  <div class="what"><div><strong>${words(event.kind)}</strong> <${Said} text=${event.text} /></div>${event.cause && html`<p class="dim">Because: <${Said} text=${event.cause} /></p>`}</div></li>`);

function Past({ story }) {
  const last = story.ended_at_ms ?? Math.max(story.accepted_at_ms, ...story.events.map((each) => each.until_ms ?? each.at_ms));
  const room = Math.max(1000, (last - story.accepted_at_ms) * 0.03);
  const whole = [story.accepted_at_ms - room, last + room];
  const [range, setRange] = useState(null);
  const [chosen, setChosen] = useState(null);
  const pick = (number) => { setChosen(number); document.getElementById(`story-${number}`)?.scrollIntoView({ block: "nearest" }); };
  return html`<div class="head"><h3>What happened</h3><span class="spring"></span>${range && html`<button type="button" class="quiet" onClick=${() => setRange(null)}>Show it whole</button>`}</div>
    <${Lanes} events=${story.events} range=${range || whole} onRange=${(from, to) => setRange([from, to])} onPick=${pick} chosen=${chosen} />
    <ol class="events inner">${story.events.map((event) => html`<${Happened} key=${event.number} event=${event} chosen=${event.number === chosen} />`)}</ol>`;
}

function Told({ name, story }) {
  const took = story.ended_at_ms ? story.ended_at_ms - story.accepted_at_ms : null;
  const to = (number) => `/clusters/${encodeURIComponent(name)}/moves?execution=${number}&move=${encodeURIComponent(story.partition)}`;
  const now = story.steps.filter((step) => step.state === "done").at(-1);
  const last = (story.ended_at_ms ?? Math.max(...story.events.map((each) => each.until_ms ?? each.at_ms))) + 60_000;
  return html`<p class="dim">${story.adopted ? "Another tool began this move, and Shunter took it over. " : ""}Execution ${story.execution}${story.plan && html`, plan <${Link} to="/clusters/${encodeURIComponent(name)}/proposals?ended=1#${story.plan}">${story.plan}</${Link}>`}, ${words(story.strategy)}.
      ${story.executions.length > 1 && html` The partition was moved by ${story.executions.map((number, index) => html`${index ? ", " : ""}${number === story.execution ? `execution ${number}` : html`<${Link} to=${to(number)}>execution ${number}</${Link}>`}`)}.`}
      ${" "}<${Link} to="/clusters/${encodeURIComponent(name)}/timeline?from=${story.accepted_at_ms - 60_000}&to=${last}">The cluster's timeline of this time</${Link}>.</p>
    <dl class="figures small"><${Figure} label="From" value=${story.original.join(", ")} /><${Figure} label=${story.direction === "back" ? "Was to go to" : "To"} value=${story.target.join(", ")} />
      <${Figure} label="Copied" value=${bytes(story.copied_bytes)}>of replicas of ${bytes(story.size_bytes)} each</${Figure}>
      <${Figure} label=${took === null ? "Open since" : "Took"} value=${took === null ? html`<${Moment} at=${story.accepted_at_ms} />` : duration(took)}>${story.reason}</${Figure}>
      ${took === null && html`<${Figure} label="A rollback copies" value=${now?.rollback_bytes ? bytes(now.rollback_bytes) : "nothing"}>from the last step that is done</${Figure}>`}</dl>
    <${Steps} story=${story} />
    ${story.waits && html`<p class="banner watch">After these steps it <${Said} text=${story.waits.startsWith("waits") ? story.waits : `waits: ${story.waits}`} /></p>`}
    <${Past} story=${story} key=${`${story.partition} ${story.execution}`} />`;
}

// `still`: the execution has ended, so the story no longer changes.
export function Story({ name, partition, execution, still = false }) {
  const view = useView(`/clusters/${encodeURIComponent(name)}/moves/${encodeURIComponent(partition)}${execution ? `?execution=${execution}` : ""}`, name, still);
  const state = view.data?.state;
  const close = () => show({ move: "" });
  return html`<${Side} kind="story" label="Move of ${partition}" at=${partition} close=${close}><div class="head"><h2><${Name} name=${partition} /></h2>${state && html`<${Chip} kind=${KINDS[state] || "still"}>${words(state)}</${Chip}>`}
      <button type="button" class="quiet close" aria-label="Close ${partition}" onClick=${close}>×</button></div>
    <${Shown} view=${view} what="the move of ${partition}">${(story) => html`<${Told} name=${name} story=${story} />`}</${Shown}></${Side}>`;
}
