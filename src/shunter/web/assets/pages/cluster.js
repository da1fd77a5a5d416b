// One cluster: the keeper's conditions and why it acts or does not, brokers by rack, partitions that are not healthy.
import { html, useMemo } from "../vendor/htm-preact.js";
import { order, place, show, useView, useWatched } from "../store.js";
import { Controllers } from "./controllers.js";
import { BrokerIntents, Intents } from "./intents.js";
import { Chip, Drawer, Empty, Figure, Link, Meter, Moment, Order, Shown, SortedTable, memo } from "../parts.js";
import { KillSwitch } from "../kill.js";
import { bytes, count, days, number, percent, words } from "../words.js";
import { Aged, Headline, Standing, KIND, faded, taken } from "../situation.js";

const MEASURES = {
  disk: { label: "Disk in use", of: (each) => (each.disk_total ? 1 - each.disk_usable / each.disk_total : null), whole: 1, told: (value) => percent(value) },
  bytes: { label: "Bytes", of: (each) => each.replica_bytes, told: bytes },
  leaders: { label: "Leaders", of: (each) => each.leaders, told: number },
  replicas: { label: "Replicas", of: (each) => each.replicas, told: number },
};

function stateOf(broker) {
  if (!broker.live) return { kind: "bad", told: broker.barred === "is fenced" ? "fenced" : "down" };
  if (broker.offline) return { kind: "bad", told: `${count(broker.offline, "replica")} offline` };
  if (broker.safe_to_remove) return { kind: "good", told: "empty, safe to remove" };
  if (broker.drained) return { kind: "watch", told: "being drained" };
  if (broker.replaced_by !== null) return { kind: "watch", told: `being replaced by ${broker.replaced_by}` };
  if (broker.frozen) return { kind: "still", told: "frozen" };
  if (broker.barred) return { kind: "watch", told: broker.barred.replace(/^is /, "") };
  if (broker.demoted) return { kind: "still", told: "demoted" };
  if (broker.added) return { kind: "good", told: "live, added" };
  return { kind: "good", told: "live" };
}

const choose = (id, chosen) => show({ broker: chosen ? "" : id });

const Wagon = memo(({ broker, measure, most, chosen }) => {
  const state = stateOf(broker);
  const value = measure.of(broker);
  const share = value === null ? 0 : value / (measure.whole || most || 1);
  const full = measure.whole && share >= 0.9 ? "full" : measure.whole && share >= 0.8 ? "filling" : "";
  const flags = [broker.receives && `${broker.receives} coming`, broker.gives && `${broker.gives} leaving`].filter(Boolean).join(", ");
  return html`<button type="button" class="wagon ${state.kind} ${full} ${broker.live ? "" : "down"} ${broker.drained || broker.replaced_by !== null ? "drained" : ""}" aria-pressed=${chosen} onClick=${() => choose(broker.id, chosen)}
    title="broker ${broker.id}: ${state.told}; ${measure.label.toLowerCase()} ${value === null ? "not known" : measure.told(value)}${flags && `; ${flags}`}">
    <span class="load" style=${{ transform: `scaleY(${Math.min(1, share)})` }}></span>
    <span class="id">${broker.id}</span>
    <span class="hidden">${state.told}, ${measure.label} ${value === null ? "not known" : measure.told(value)}, ${flags}</span>
    <span class="flags" aria-hidden="true">${broker.receives ? "↓" : ""}${broker.gives ? "↑" : ""}${broker.live ? "" : "✕"}</span></button>`;
});

const Yard = memo(({ brokers, chosen, measureName }) => {
  const measure = MEASURES[measureName] || MEASURES.disk;
  const racks = useMemo(() => {
    const found = new Map();
    for (const broker of brokers) {
      const rack = broker.rack ?? "no rack";
      found.set(rack, [...(found.get(rack) || []), broker]);
    }
    return [...found].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  }, [brokers]);
  const most = Math.max(1, ...brokers.map((each) => measure.of(each) ?? 0));
  return html`<section class="panel yard"><div class="head"><h2>Brokers by rack</h2>
      <div class="tabs" role="group" aria-label="What the height of a broker shows">${Object.entries(MEASURES).map(([name, each]) => html`<button type="button" aria-pressed=${each === measure}
        onClick=${() => show({ measure: name === "disk" ? "" : name })}>${each.label}</button>`)}</div></div>
    ${racks.map(([rack, members]) => html`<div class="rack" key=${rack}><h3>${rack}<small>${members.length}</small></h3>
      <div class="rail">${members.map((broker) => html`<${Wagon} key=${broker.id} broker=${broker} measure=${measure} most=${most} chosen=${chosen === broker.id} />`)}</div></div>`)}
    <p class="legend dim"><span>height: ${measure.label.toLowerCase()}${measure.whole ? "" : ", the greatest is full height"}</span><span>↓ receives</span><span>↑ gives</span><span>✕ down</span><span>hatched: drained or replaced</span></p>
  </section>`;
});

function Broker({ name, broker, brokers, situation, who }) {
  const state = stateOf(broker);
  const old = brokers.filter((each) => each.replaced_by === broker.id).map((each) => each.id);
  const used = MEASURES.disk.of(broker);
  return html`<section class="panel broker" aria-label="Broker ${broker.id}"><div class="head"><h2>Broker ${broker.id} <small>${broker.rack ?? "no rack"}</small></h2><${Chip} kind=${state.kind}>${state.told}</${Chip}>
      <button type="button" class="quiet" aria-label="Close" onClick=${() => show({ broker: "" })}>×</button></div>
    <dl class="figures small">
      <${Figure} label="Replicas" value=${number(broker.replicas)}>${bytes(broker.replica_bytes)}</${Figure}>
      <${Figure} label="Leads" value=${number(broker.leaders)}>preferred for ${number(broker.preferred)}</${Figure}>
      <${Figure} label="Disk" value=${percent(used)}>${broker.disk_total ? `${bytes(broker.disk_usable)} free of ${bytes(broker.disk_total)}` : "not reported by this broker"}</${Figure}>
      <${Figure} label="Moves" value="↓ ${broker.receives}  ↑ ${broker.gives}" /></dl>
    ${used !== null && html`<${Meter} share=${used} kind=${used >= 0.9 ? "bad" : used >= 0.8 ? "watch" : "plain"} label="Disk of broker ${broker.id}" />`}
    ${old.length > 0 && html`<p class="dim">It takes the place of broker ${old.join(", ")}.</p>`}
    <${BrokerIntents} name=${name} broker=${broker} brokers=${brokers} situation=${situation} who=${who} /></section>`;
}

const MODES = { act: "good", propose: "busy", notify: "still", off: "still" };

function Keeper({ view, name }) {
  const { conditions, prospects } = view;
  if (view.row.situation.figures === "unknown") return html`<section class="panel"><h2>Conditions</h2><${Empty} title="Not known">${name} was not observed yet.</${Empty}></section>`;
  if (!conditions.length && !prospects.length) return html`<section class="panel"><h2>Conditions</h2><${Empty} title="No condition">No condition of the policy ${view.row.situation.figures === "current" ? "holds" : "held when the cluster was last observed"}.</${Empty}></section>`;
  return html`<section class="panel"><h2>Conditions</h2><ul class="conditions">${conditions.map(({ condition: each, mode, severity, doing }) => html`<li>
      <div><${Chip} kind=${KIND[severity]}>${severity}</${Chip}> <strong>${words(each.condition)}</strong> <${Chip} kind=${MODES[mode]} title="What the policy lets this condition do">${mode}</${Chip}>
        <span class="dim">${each.since_ms ? html` since <${Moment} at=${each.since_ms} />` : " first seen now"}${each.minutes < each.wanted_minutes ? `, ${each.minutes} of ${each.wanted_minutes} minutes` : ""}</span></div>
      <p>${each.text}</p><p class="dim">${doing}</p></li>`)}</ul>
    ${prospects.length > 0 && html`<h3>What it would do</h3><ul class="conditions">${prospects.map((each) => html`<li><div><strong>${words(each.scope)}</strong>${" "}
      <span class="dim">${each.partitions ? `${count(each.moves, "replica")} to copy, ${bytes(each.bytes)}; ${count(each.leader_changes, "partition")} with another preferred leader` : each.behind ? `planned once ${words(each.behind)} is done` : `the planner finds no plan that mends ${each.conditions.map(words).join(", ")}`}</span>
      ${each.ready && html` <${Chip} kind="busy">ready</${Chip}>`}</div>
      ${each.held_back.map((why) => html`<p class="dim">Held back: ${why}</p>`)}${each.undone.slice(0, 3).map((why) => html`<p class="dim">Not done: ${why}</p>`)}</li>`)}</ul>
      ${view.row.proposals_waiting > 0 && html`<p><${Link} to="/clusters/${encodeURIComponent(name)}/proposals">See the proposals that wait for approval →</${Link}></p>`}`}</section>`;
}

function Named({ title, names, all, kind }) {
  if (!all) return null;
  return html`<details class="panel ${kind}"><summary><strong>${title}</strong> ${number(all)}</summary><p class="names">${names.map((each) => html`<code>${each}</code> `)}${all > names.length && html`<span class="dim">and ${number(all - names.length)} more</span>`}</p></details>`;
}

function Throttles({ view, name, who }) {
  if (!view.throttles_left.length) return null;
  return html`<section class="panel watch"><div class="head"><h2>Throttles left behind</h2><${Order} label="Remove them" title="Remove throttles that no execution restores" ...${taken("clear-throttles", view.row.situation, who)}
    give=${(comment) => order(name, "clear-throttles", { comment })}>No execution restores these throttles. They slow down replication until they are removed. They are removed only while nothing is being moved.</${Order}></div>
    <ul>${view.throttles_left.map((each) => html`<li><code>${each}</code></li>`)}</ul></section>`;
}

const BROKERS = [
  { label: "Broker", kind: "number", value: (each) => each.id },
  { label: "Rack", value: (each) => each.rack ?? "" },
  { label: "State", value: (each) => stateOf(each).told, show: (each) => html`<${Chip} kind=${stateOf(each).kind}>${stateOf(each).told}</${Chip}>` },
  { label: "Disk", kind: "number", value: MEASURES.disk.of, show: (each) => percent(MEASURES.disk.of(each)) },
  { label: "Bytes", kind: "number", value: (each) => each.replica_bytes, show: (each) => bytes(each.replica_bytes) },
  { label: "Replicas", kind: "number", value: (each) => each.replicas, show: (each) => number(each.replicas) },
  { label: "Leads", kind: "number", value: (each) => each.leaders, show: (each) => number(each.leaders) },
  { label: "Receives", kind: "number", value: (each) => each.receives },
  { label: "Gives", kind: "number", value: (each) => each.gives },
];
const TOPICS = [
  { label: "Topic", value: (each) => each.name },
  { label: "Partitions", kind: "number", value: (each) => each.partitions, show: (each) => number(each.partitions) },
  { label: "Replicas", kind: "number", value: (each) => each.replication[0], show: (each) => each.replication.join(", ") },
  { label: "Bytes", kind: "number", value: (each) => each.bytes, show: (each) => bytes(each.bytes) },
  { label: "Under-replicated", kind: "number", value: (each) => each.under_replicated, show: (each) => number(each.under_replicated) },
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
    return html`<div class="title"><h1>${name}</h1><${Headline} situation=${situation} /><span class="spring"></span><${KillSwitch} cluster=${name} situation=${situation} who=${who} /></div>
      <${Standing} situation=${situation} />
      <${Aged} age=${situation.figures} at=${situation.observed_at_ms} />
      <dl class="figures ${old}"><${Figure} label="Brokers" value=${number(row.brokers)}>${row.brokers_down.length ? `${row.brokers_down.length} down` : row.brokers && !old ? "all live" : ""}</${Figure}>
        <${Figure} label="Partitions" value=${number(row.partitions)}>${situation.figures === "unknown" ? "" : count(page.topics_in_all, "topic")}</${Figure}>
        <${Figure} label="Fullest disk" value=${percent(row.disk_used)}>${row.runway_days === null ? "" : `full in ${days(row.runway_days)}`}</${Figure}>
        <${Figure} label="Imbalance" value=${percent(row.balance)}>from the mean</${Figure}>
        <${Figure} label="Under-replicated" value=${number(row.under_replicated)} kind=${row.under_replicated ? "watch" : ""} />
        <${Figure} label="Offline" value=${number(row.offline)} kind=${row.offline ? "bad" : ""} /></dl>
      <${Keeper} view=${page} name=${name} />
      ${page.policy?.controllers?.length > 0 && html`<${Controllers} name=${name} />`}
      <${Throttles} view=${page} name=${name} who=${who} />
      <${Named} title="Offline partitions" names=${page.offline} all=${row.offline} kind="bad ${old}" />
      <${Named} title="Partitions under min ISR" names=${page.under_min_isr} all=${row.under_min_isr} kind="bad ${old}" />
      <${Named} title="Under-replicated partitions" names=${page.under_replicated} all=${row.under_replicated} kind="watch ${old}" />
      ${page.brokers.length > 0 && html`<div class=${old}><${Yard} brokers=${page.brokers} chosen=${chosen} measureName=${query.get("measure") || "disk"} /></div>`}
      ${broker && html`<${Broker} name=${name} broker=${broker} brokers=${page.brokers} situation=${situation} who=${who} />`}
      <${Drawer} title=${html`<strong>Brokers as a table</strong>`}>${() => html`<${SortedTable} caption="Brokers" columns=${BROKERS} rows=${page.brokers} initial=${{ label: "Broker", down: false }} keyOf=${(each) => each.id} />`}</${Drawer}>
      <${Drawer} title=${html`<strong>Topics</strong> ${page.topics.length < page.topics_in_all ? `the ${page.topics.length} largest of ${number(page.topics_in_all)}` : number(page.topics_in_all)}`}>
        ${() => html`<${SortedTable} caption="Topics" columns=${TOPICS} rows=${page.topics} initial=${{ label: "Bytes", down: true }} keyOf=${(each) => each.name} />`}</${Drawer}>
      <${Intents} view=${page} name=${name} who=${who} />`;
  }}</${Shown}>`;
}
