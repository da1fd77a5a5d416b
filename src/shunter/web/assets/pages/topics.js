// All topics and partitions: searched, opened, and picked by hand for a plan.
import { html, useState } from "../vendor/htm-preact.js";
import { go, may, place, show, useView, useWatched } from "../store.js";
import { Chip, Empty, Link, LongTable, Name, Shown, Side, memo } from "../parts.js";
import { bytes, count, number } from "../words.js";

export const PARTITION = { offline: "bad", "under min ISR": "bad", "under-replicated": "watch", healthy: "good" };
const TOPICS = [{ label: "", kind: "check" }, { label: "Topic" }, { label: "Partitions", kind: "number" }, { label: "Replicas", kind: "number" }, { label: "Size", kind: "number" }, { label: "Under-replicated", kind: "number" }];
const PARTITIONS = [{ label: "", kind: "check" }, { label: "Partition" }, { label: "State" }, { label: "Replicas" }, { label: "Leader", kind: "number" }, { label: "Size", kind: "number" }, { label: "", kind: "check" }];
const ORDERS = [["bytes", "Size"], ["name", "Name"], ["partitions", "Partitions"], ["under_replicated", "Under-replicated"]];
const BACK = { search: "", topic: "", broker: "", pstate: "", partition: "" };

// Replicas of a partition in order; the leader is marked, and those that are not in sync.
export function Held({ row }) {
  const kind = (id) => (row.offline.includes(id) ? "gone" : row.isr.includes(id) ? "stays" : row.adding.includes(id) ? "comes" : "goes");
  const told = { gone: "offline", stays: "in sync", comes: "added, not in sync yet", goes: "out of sync" };
  return html`<span class="replicas">${row.replicas.map((id) => html`<span key=${id} class="replica ${kind(id)} ${id === row.leader ? "leads" : ""}" title="broker ${id}: ${told[kind(id)]}${id === row.leader ? ", leader" : ""}"><span class="hidden">broker </span>${id}<span class="hidden"> ${told[kind(id)]}${id === row.leader ? ", leader" : ""}</span></span>`)}</span>`;
}

// The form for a move by hand, with a partition and the brokers that hold it now.
const moveOf = (name, row) => `/clusters/${encodeURIComponent(name)}/plan?${new URLSearchParams({ goal: "move", pick: row.partition, to: row.replicas.join(",") })}`;

const Pick = ({ name, chosen, toggle }) => html`<input type="checkbox" checked=${chosen} aria-label="Choose ${name}" onChange=${() => toggle(name)} />`;

const TopicRow = memo(({ row, chosen, toggle }) => html`<td class="check"><${Pick} name=${row.name} chosen=${chosen} toggle=${toggle} /></td>
  <td class="name" title=${row.name}><button type="button" class="link" onClick=${() => show({ ...BACK, view: "partitions", topic: row.name })}><${Name} name=${row.name} /></button>${row.frozen && html` <${Chip} kind="still">frozen</${Chip}>`}</td>
  <td class="number">${number(row.partitions)}</td><td class="number">${row.replication.join(", ")}</td><td class="number">${bytes(row.bytes)}</td><td class="number ${row.under_replicated ? "bad" : ""}">${number(row.under_replicated)}</td>`);

const PartitionRow = memo(({ name, who, row, chosen, toggle, opened }) => html`<td class="check"><${Pick} name=${row.partition} chosen=${chosen} toggle=${toggle} /></td>
  <td class="name" title=${row.partition}><button type="button" class="link" aria-expanded=${opened} onClick=${() => show({ partition: opened ? "" : row.partition })}><${Name} name=${row.partition} /></button></td>
  <td><${Chip} kind=${PARTITION[row.state]}>${row.state}</${Chip}></td><td><${Held} row=${row} /></td><td class="number">${row.leader < 0 ? "none" : row.leader}</td><td class="number">${bytes(row.bytes)}</td>
  <td class="check">${may(who, "operate") && html`<button type="button" class="quiet" aria-label="Move ${row.partition}" onClick=${() => go(moveOf(name, row))}>Move…</button>`}</td>`);

function Partition({ name, partition }) {
  const base = `/clusters/${encodeURIComponent(name)}`;
  const topic = partition.slice(0, partition.lastIndexOf("-"));
  const view = useView(`${base}/partitions?${new URLSearchParams({ topic, search: partition, limit: 1000 })}`, name);
  const close = () => show({ partition: "" });
  return html`<${Side} kind="partition" label="Partition ${partition}" at=${partition} close=${close}><div class="head"><h2><${Name} name=${partition} /></h2><button type="button" class="quiet close" aria-label="Close" onClick=${close}>×</button></div>
    <${Shown} view=${view} what=${partition}>${({ rows }) => {
      const row = rows.find((each) => each.partition === partition);
      if (!row) return html`<${Empty} title="No such partition">${partition} was not there at the last observation.</${Empty}>`;
      const stand = (id) => (row.offline.includes(id) ? ["bad", "offline"] : row.adding.includes(id) ? ["busy", "being added"] : row.removing.includes(id) ? ["still", "being removed"] : row.isr.includes(id) ? ["good", "in sync"] : ["watch", "out of sync"]);
      return html`<p><${Chip} kind=${PARTITION[row.state]}>${row.state}</${Chip}> <span class="dim">${bytes(row.bytes)} a replica</span></p>
        <table class="plain"><caption class="hidden">Replicas of ${partition}</caption><thead><tr><th scope="col">Broker</th><th scope="col">Role</th><th scope="col">State</th></tr></thead>
        <tbody>${row.replicas.map((id, index) => html`<tr key=${id}><td><${Link} to="${base}?broker=${id}">${id}</${Link}></td><td>${[id === row.leader ? "leader" : "follower", index === 0 && "preferred"].filter(Boolean).join(", ")}</td><td><${Chip} kind=${stand(id)[0]}>${stand(id)[1]}</${Chip}></td></tr>`)}</tbody></table>
        <p><${Link} to="${base}/moves?past=1&move=${encodeURIComponent(partition)}">Its latest move →</${Link}></p>
        <div class="actions"><button type="button" onClick=${() => go(moveOf(name, row))}>Move…</button></div>`;
    }}</${Shown}></${Side}>`;
}

export function Topics({ name, who }) {
  const query = useWatched(place).searchParams;
  const base = `/clusters/${encodeURIComponent(name)}`;
  const [chosen, setChosen] = useState(new Set());
  const toggle = (each) => setChosen((before) => { const next = new Set(before); if (!next.delete(each)) next.add(each); return next; });
  const ofPartitions = query.get("view") === "partitions";
  const search = query.get("search") || "";
  const topic = query.get("topic") || "";
  const broker = query.get("broker") || "";
  const state = query.get("pstate") || "";
  const order = query.get("order") || "bytes";
  const opened = query.get("partition") || "";
  const see = (partition) => partition && show({ partition });
  const asked = new URLSearchParams(ofPartitions ? { search, topic, state, ...(broker && { broker }) } : { search, order });
  const path = `${base}/${ofPartitions ? "partitions" : "topics"}`;
  const head = useView(`${path}?${asked}&limit=1`, name);
  const counts = ofPartitions ? head.data?.counts : null;
  const all = head.data?.in_all ?? 0;
  const filtered = search || topic || broker || state;
  const plan = () => go(`${base}/plan?${new URLSearchParams([["goal", "move"], ...[...chosen].map((each) => ["pick", each])])}`);
  return html`<div class="title"><h1>Topics</h1><div class="tabs" role="group" aria-label="What is listed"><button type="button" aria-pressed=${!ofPartitions} onClick=${() => show({ ...BACK, view: "" })}>Topics</button><button type="button" aria-pressed=${ofPartitions} onClick=${() => show({ ...BACK, view: "partitions" })}>Partitions</button></div></div>
    ${opened && html`<${Partition} name=${name} partition=${opened} />`}
    <section class="panel"><div class="head filters"><label><span class="hidden">Search</span><input type="search" placeholder=${ofPartitions ? "Partition…" : "Topic or partition…"} value=${search} onInput=${(event) => show({ search: event.target.value })} onKeyDown=${(event) => event.key === "Enter" && see(head.data?.partition)} /></label>
      ${head.data?.partition && html`<button type="button" class="link" onClick=${() => see(head.data.partition)}>Open <${Name} name=${head.data.partition} /></button>`}
      ${topic && html`<span class="chip">topic <${Name} name=${topic} /> <button type="button" class="quiet" aria-label="All topics" onClick=${() => show({ topic: "" })}>×</button></span>`}
      ${broker && html`<span class="chip">on broker ${broker} <button type="button" class="quiet" aria-label="On any broker" onClick=${() => show({ broker: "" })}>×</button></span>`}
      ${ofPartitions ? html`<div class="tabs" role="group" aria-label="State">${[["", all], ...Object.entries(counts ?? {})].map(([each, many]) => html`<button type="button" aria-pressed=${state === each} onClick=${() => show({ pstate: each })}>${each || "all"} <b>${number(many)}</b></button>`)}</div>`
        : html`<label class="by">by <select value=${order} onChange=${(event) => show({ order: event.target.value })}>${ORDERS.map(([each, label]) => html`<option value=${each}>${label}</option>`)}</select></label>`}
      <span class="dim">${head.data ? count(head.data.found, ofPartitions ? "partition" : "topic") : ""}</span></div>
      ${chosen.size > 0 && html`<div class="chosen" role="region" aria-label="Chosen"><strong>${number(chosen.size)} chosen</strong><button type="button" class="quiet" onClick=${() => setChosen(new Set())}>Choose none</button><span class="spring"></span><button type="button" class="primary" onClick=${plan}>Plan a move…</button></div>`}
      <${LongTable} key=${path} label=${ofPartitions ? "Partitions" : "Topics"} kind=${ofPartitions ? "of-partitions" : "of-topics"} path=${path} query=${asked} version=${head.data?.observed_at_ms} columns=${ofPartitions ? PARTITIONS : TOPICS} selected=${(row) => chosen.has(row.partition ?? row.name)}
        row=${(row) => (ofPartitions ? html`<${PartitionRow} name=${name} who=${who} row=${row} chosen=${chosen.has(row.partition)} toggle=${toggle} opened=${row.partition === opened} />` : html`<${TopicRow} row=${row} chosen=${chosen.has(row.name)} toggle=${toggle} />`)}
        empty=${html`<${Empty} title=${`No ${filtered ? "such " : ""}${ofPartitions ? "partition" : "topic"}`}>${filtered ? "Nothing fits this search." : head.data?.observed_at_ms ? `${name} had none when it was observed.` : `${name} was not observed yet.`}</${Empty}>`} /></section>`;
}
