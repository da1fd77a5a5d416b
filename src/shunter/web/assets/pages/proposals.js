// Proposals: reasons, cost, brokers before and after; approve or decline with a comment.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { order, place, show, useView, useWatched } from "../store.js";
import { Chip, Drawer, Empty, Figure, Link, LongTable, Moment, Name, Order, Said, Shown } from "../parts.js";
import { Chart, axis, colour } from "../charts.js";
import { taken } from "../situation.js";
import uPlot from "../vendor/uPlot.esm.js";
import { bytes, capital, count, duration, number, words } from "../words.js";

const STATES = { waiting: "watch", approved: "busy", starting: "busy", running: "busy", "carried-out": "busy", done: "good", partly: "watch", turned: "watch", declined: "still", stale: "still", refused: "bad" };
const CARRIED_OUT = new Set(["running", "carried-out", "done", "partly", "turned"]);
const FIGURES = ["Bytes of replicas", "Replicas", "Preferred leader of"];

export function BeforeAfter({ brokers, id }) {
  const [figure, setFigure] = useState(0);
  const data = useMemo(() => [brokers.map((_, index) => index), brokers.map((each) => each.before[figure]), brokers.map((each) => each.after[figure])], [id, figure]);
  const told = figure ? number : bytes;
  const bars = (share, most) => uPlot.paths.bars({ size: [share, most], align: 0 });
  const options = () => ({
    scales: { x: { time: false, range: [-0.7, brokers.length - 0.3] }, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.08] } },
    axes: [axis({ values: (_plot, at) => at.map((each) => (Number.isInteger(each) && brokers[each] ? brokers[each].broker : "")), incrs: [1, 2, 5, 10, 20, 50], space: 36 }), axis({ size: 72, values: (_plot, values) => values.map(told) })],
    series: [{ label: "Broker", value: (_plot, at) => (at === null ? "–" : brokers[at]?.broker) },
      { label: "before", fill: () => colour("before"), stroke: () => colour("before"), paths: bars(0.9, 64), points: { show: false }, value: (_plot, value) => told(value) },
      { label: "after", fill: () => colour("busy"), stroke: () => colour("busy"), paths: bars(0.45, 32), points: { show: false }, value: (_plot, value) => told(value) }],
  });
  // A broker that the plan empties is not one to be compared with afterwards.
  const spread = (side) => { const all = brokers.map((each) => each[side][figure]).filter((each, index) => each > 0 || brokers[index].after[1] > 0); return Math.max(...all) - Math.min(...all); };
  return html`<div class="head"><span class="dim">Each broker before and after</span><div class="tabs" role="group" aria-label="What is compared">${FIGURES.map((label, index) => html`<button type="button" aria-pressed=${index === figure} onClick=${() => setFigure(index)}>${label}</button>`)}</div></div>
    <${Chart} key="${id}-${figure}-${brokers.length}" label="${FIGURES[figure]} of each broker, before and after" options=${options} data=${data} height=${200} />
    <p class="dim">Difference between the greatest and the least that holds anything: ${told(spread("before"))} before, ${told(spread("after"))} after. Drag to zoom, double click to see all.</p>`;
}

function Partitions({ name, id }) {
  const base = `/clusters/${encodeURIComponent(name)}/proposals/${encodeURIComponent(id)}/changes`;
  const [search, setSearch] = useState("");
  return html`<label><span class="hidden">Search for a partition</span><input type="search" placeholder="Partition…" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label>
    <${LongTable} label="Changes" path=${base} query=${new URLSearchParams({ search })} widths="minmax(12rem, 2fr) 1fr 1fr" columns=${[{ label: "Partition" }, { label: "Replicas now" }, { label: "Replicas then" }]}
    row=${(each) => html`<td class="name"><${Name} name="${each.topic}-${each.partition}" /></td><td>${each.original.join(", ")}</td><td>${each.replicas.map((id, index) => html`${index ? ", " : ""}${each.original.includes(id) ? id : html`<b class="new">${id}</b>`}`)}${(each.log_dirs || []).map((dir) => html`<small class="dim"> · on ${dir.broker} from ${dir.original} to <b class="new">${dir.target}</b>, ${bytes(dir.bytes)}</small>`)}</td>`}
    empty=${html`<${Empty} title="No such partition">Nothing fits this search.</${Empty}>`} />`;
}

// The plan's bytes beside a lower bound, which the planner proves.
const besideTheBound = (each) => each.least_bytes === null || !each.bytes ? ""
  : each.bytes < each.least_bytes ? `; a plan that reaches every goal copies at least ${bytes(each.least_bytes)}` : `; no plan that reaches this copies less than ${bytes(each.least_bytes)}`;

export function Cost({ view }) {
  const { proposal: each } = view;
  return html`<dl class="figures small"><${Figure} label="To copy" value=${bytes(each.bytes)}>${count(each.moves, "replica")}${besideTheBound(each)}</${Figure}><${Figure} label="Least time" value=${view.least_ms === null ? "not known" : duration(view.least_ms)}>${view.least_ms === null ? "the policy has no throttle" : "at the policy's throttle"}</${Figure}>
      <${Figure} label="Leaders that change" value=${number(each.leader_changes)} /><${Figure} label="A rollback copies" value=${bytes(each.rollback_bytes)}>at most</${Figure}>
      ${view.wanted_votes > 1 && html`<${Figure} label="Approved by" value="${view.given_votes} of ${view.wanted_votes}" />`}</dl>`;
}

// Approve or decline a proposal that waits.
export function Decide({ name, view, situation, who }) {
  const { proposal: each } = view;
  const decides = (verb) => ({ ...taken(verb, situation, who), comment: true });
  return html`<${Order} label="Approve" kind="primary" title="Approve: ${words(each.scope)}" ...${decides("approve")} give=${(comment) => order(name, "approve", { proposal: each.id, comment })}>
      ${count(each.moves, "replica")}, ${bytes(each.bytes)}, are copied. The plan can be paused, stopped and rolled back at any moment.${view.wanted_votes > 1 ? ` ${view.wanted_votes} people have to approve it; ${view.given_votes} did.${view.unsure ? ` ${capital(view.unsure)}.` : ""}` : ""}</${Order}>
    <${Order} label="Decline" title="Decline: ${words(each.scope)}" ...${decides("decline")} give=${(comment) => order(name, "decline", { proposal: each.id, comment })}>${view.declined_minutes ? `Nothing is moved, and nothing of scope ${each.scope} begins by itself for ${duration(view.declined_minutes * 60_000)}, or until somebody lifts that hold.` : "Nothing is moved. It may be proposed again."}</${Order}>`;
}

function Proposal({ name, view, situation, who, opened, meant }) {
  const { proposal: each } = view;
  const box = useRef(null);
  useEffect(() => { if (meant) box.current.scrollIntoView({ block: "start" }); }, [meant]);
  return html`<article class="panel proposal" id=${each.id} ref=${box}><div class="head"><h2>${words(each.scope)} <small>${each.id}</small></h2><${Chip} kind=${STATES[each.state]}>${words(each.state)}</${Chip}>
      <span class="dim">by the observation of <${Moment} at=${each.made_at_ms} /></span><span class="spring"></span>
      ${CARRIED_OUT.has(each.state) && html`<${Link} to="/clusters/${encodeURIComponent(name)}/moves?plan=${encodeURIComponent(each.id)}">Its moves</${Link}>`}
      ${each.state === "waiting" && html`<${Decide} name=${name} view=${view} situation=${situation} who=${who} />`}</div>
    <ul class="reasons">${each.reasons.map((why) => html`<li><${Said} text=${why} /></li>`)}</ul>
    ${each.outcome && html`<p class="banner ${STATES[each.state]}"><${Said} text=${each.outcome} /></p>`}
    <${Cost} view=${view} />
    ${each.held_back.length > 0 && each.state !== "done" && html`<p class="banner watch">Blocked: <${Said} text=${each.held_back.join("; ")} /></p>`}
    ${each.votes.length > 0 && html`<ul class="approvals">${each.votes.map((vote) => html`<li>${vote.approves ? "approved" : "declined"} by <strong>${vote.who}</strong> <${Moment} at=${vote.at_ms} />${vote.comment && html`: “${vote.comment}”`}</li>`)}</ul>`}
    ${each.undone.length > 0 && html`<details><summary>What the plan leaves undone, as of when it was made (${each.undone.length})</summary><ul>${each.undone.map((why) => html`<li><${Said} text=${why} /></li>`)}</ul></details>`}
    ${each.brokers.length > 0 && html`<${Drawer} kind="" title="Before and after" open=${opened}>${() => html`<${BeforeAfter} brokers=${each.brokers} id=${each.id} />`}</${Drawer}>`}
    <${Drawer} kind="" title="Partitions that change">${() => html`<${Partitions} name=${name} id=${each.id} />`}</${Drawer}></article>`;
}

export function Proposals({ name, situation, who }) {
  const here = useWatched(place);
  const ended = here.searchParams.has("ended");
  const meant = decodeURIComponent(here.hash.slice(1));
  const view = useView(`/clusters/${encodeURIComponent(name)}/proposals${ended ? "?ended=true" : ""}`, name);
  return html`<div class="title"><h1>Proposals</h1><div class="tabs" role="group" aria-label="Which proposals"><button type="button" aria-pressed=${!ended} onClick=${() => show({ ended: "" })}>Open</button><button type="button" aria-pressed=${ended} onClick=${() => show({ ended: 1 })}>All</button></div></div>
    <${Shown} view=${view} what="the proposals of ${name}">${({ proposals }) => proposals.length
      ? proposals.map((each, index) => html`<${Proposal} key=${each.proposal.id} name=${name} view=${each} situation=${situation} who=${who} opened=${meant ? each.proposal.id === meant : index === 0} meant=${each.proposal.id === meant} />`)
      : html`<section class="panel"><${Empty} title="Nothing is proposed">${ended ? "Nothing was proposed yet." : "No proposal is open."} The conditions that hold are under <${Link} to="/clusters/${encodeURIComponent(name)}">Now</${Link}>; <${Link} to="/clusters/${encodeURIComponent(name)}/plan">plan something</${Link}> yourself.</${Empty}></section>`}</${Shown}>`;
}
