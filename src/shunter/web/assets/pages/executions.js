// Each execution of the journal, its outcome and its moves, and the story of each move.
import { html, useRef } from "../vendor/htm-preact.js";
import { show, useView } from "../store.js";
import { Chip, Empty, Figure, Link, LongTable, Moment, Name, Shown, SortedTable, memo } from "../parts.js";
import { KINDS, Replica, Story } from "./story.js";
import { bytes, count, duration, number, rate, words } from "../words.js";

const took = (each) => (each.ended_at_ms === null ? null : each.ended_at_ms - each.began_at_ms);
const all = (counts) => Object.values(counts).reduce((sum, each) => sum + each, 0);
const Counts = ({ counts }) => html`<span class="chips">${Object.entries(counts).map(([state, many]) => html`<${Chip} key=${state} kind=${KINDS[state] || "still"}>${number(many)} ${words(state)}</${Chip}>`)}</span>`;

const COLUMNS = [
  { label: "Execution", kind: "number", value: (each) => each.number, show: (each) => html`<button type="button" class="link" onClick=${() => show({ past: "", execution: each.number })}>${each.number}</button>` },
  { label: "Outcome", value: (each) => JSON.stringify(each.counts), show: (each) => html`<${Counts} counts=${each.counts} />` },
  { label: "Began", value: (each) => each.began_at_ms, show: (each) => html`<${Moment} at=${each.began_at_ms} />` },
  { label: "Took", kind: "number", value: took, show: (each) => (took(each) === null ? "goes on" : duration(took(each))) },
  { label: "Moves", kind: "number", value: (each) => all(each.counts), show: (each) => number(all(each.counts)) },
  { label: "Copied", kind: "number", value: (each) => each.copied_bytes, show: (each) => bytes(each.copied_bytes) },
  { label: "Plan", value: (each) => each.plans.join(), show: (each) => each.plans.join(", ") },
  { label: "Stopped or rolled back by", value: (each) => each.turned.join(), show: (each) => each.turned.join("; ") },
];

const MOVES = [{ label: "Partition" }, { label: "Outcome" }, { label: "From", kind: "wide" }, { label: "At", kind: "wide" }, { label: "Steps", kind: "number" }, { label: "Copied", kind: "number" }, { label: "Took", kind: "number" }, { label: "Why", kind: "wide" }];
const Ids = ({ ids, kind }) => html`<span class="replicas">${ids.map((id) => html`<${Replica} key=${id} id=${id} kind=${kind} />`)}</span>`;

const Row = memo(({ move, opened }) => html`<td class="name" title=${move.partition}><button type="button" class="link" aria-expanded=${opened} onClick=${() => show({ move: opened ? "" : move.partition })}><${Name} name=${move.partition} /></button></td>
  <td><${Chip} kind=${KINDS[move.state] || "still"}>${words(move.state)}</${Chip}></td><td class="wide"><${Ids} ids=${move.original} kind="here" /></td><td class="wide"><${Ids} ids=${move.replicas} kind="here" /></td>
  <td class="number">${move.steps}</td><td class="number">${bytes(move.copied_bytes)}</td><td class="number">${move.ended_at_ms === null ? "goes on" : duration(move.ended_at_ms - move.accepted_at_ms)}</td><td class="wide dim" title=${move.reason}>${move.reason}</td>`);

function Execution({ name, execution, query, at }) {
  const base = `/clusters/${encodeURIComponent(name)}/executions/${execution.number}/moves`;
  const search = query.get("search") || "";
  const state = query.get("state") || "";
  const opened = query.get("move") || "";
  const plans = execution.plans.map((plan, index) => html`${index ? ", " : ""}<${Link} to="/clusters/${encodeURIComponent(name)}/proposals?ended=1#${plan}">${plan}</${Link}>`);
  return html`<section class="panel"><div class="head"><h2>Execution ${execution.number}</h2><${Counts} counts=${execution.counts} /><span class="spring"></span>
      <${Link} to="/clusters/${encodeURIComponent(name)}/timeline?from=${execution.began_at_ms - 60_000}&to=${(execution.ended_at_ms ?? Date.now()) + 60_000}">Timeline of this time</${Link}>
      <button type="button" onClick=${() => show({ past: "1", execution: "", plan: "", move: "", search: "", state: "" })}>All executions</button></div>
    <dl class="figures small"><${Figure} label="Began" value=${html`<${Moment} at=${execution.began_at_ms} />`} /><${Figure} label="Took" value=${took(execution) === null ? "goes on" : duration(took(execution))} />
      <${Figure} label="Copied" value=${bytes(execution.copied_bytes)} /><${Figure} label="Throttle at its beginning" value=${execution.throttle === null ? "none" : rate(execution.throttle)} /><${Figure} label="Plan" value=${plans} /></dl>
    ${execution.turned.length > 0 && html`<p class="banner watch">Stopped or rolled back on its way: ${execution.turned.join("; ")}.</p>`}</section>
    ${opened && html`<${Story} name=${name} partition=${opened} execution=${execution.number} still=${execution.ended_at_ms !== null} />`}
    <section class="panel"><div class="head filters"><label><span class="hidden">Search for a partition</span><input type="search" placeholder="Partition…" value=${search} onInput=${(event) => show({ search: event.target.value })} /></label></div>
    <${LongTable} label="Moves of execution ${execution.number}" kind="of-past" path=${base} query=${new URLSearchParams({ search, state })} version=${at} columns=${MOVES}
      row=${(move) => html`<${Row} move=${move} opened=${move.partition === opened} />`} empty=${html`<${Empty} title="No such move">Nothing fits this search.</${Empty}>`} /></section>`;
}

// A search for a partition's move, for readers who do not know in which execution it was moved.
function Find({ opened }) {
  const field = useRef(null);
  const find = (event) => { event.preventDefault(); show({ move: field.current.value.trim() }); };
  return html`<form class="panel find" onSubmit=${find}><label><span>Find the move of a partition</span> <input ref=${field} type="search" placeholder="orders-3" key=${opened} defaultValue=${opened} required /></label> <button>Show</button></form>`;
}

export function Executions({ name, query }) {
  const view = useView(`/clusters/${encodeURIComponent(name)}/executions`, name);
  const wanted = Number(query.get("execution"));
  const plan = query.get("plan") || "";
  const opened = query.get("move") || "";
  return html`<${Shown} view=${view} what="the executions of ${name}">${({ executions, journal }) => {
    const one = wanted ? executions.find((each) => each.number === wanted) : plan && executions.find((each) => each.plans.includes(plan));
    if (one) return html`<${Execution} name=${name} execution=${one} query=${query} at=${one.ended_at_ms === null ? view.at : one.ended_at_ms} />`;
    if (wanted || plan) return html`<section class="panel"><${Empty} title=${wanted ? `There is no execution ${wanted}` : `No execution carried out ${plan}`}>The journal has ${count(executions.length, "execution")}.</${Empty}></section>`;
    return html`<${Find} opened=${opened} />
      ${opened && html`<${Story} name=${name} partition=${opened} />`}
      <section class="panel">${executions.length ? html`<${SortedTable} caption="Executions" columns=${COLUMNS} rows=${executions} initial=${{ label: "Execution", down: true }} keyOf=${(each) => each.number} />`
      : html`<${Empty} title="Nothing was executed yet">The journal has each execution from its first step on, and keeps it.</${Empty}>`}
        ${journal && html`<p class="dim">${journal.startsWith("kafka:") ? `By the journal in the cluster, topic ${journal.slice(6)}: it has what every service did that uses it.` : html`By the journal at <${Name} name=${journal} />: it has what this host did, and not what other hosts did.`}</p>`}</section>`;
  }}</${Shown}>`;
}
