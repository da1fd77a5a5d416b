// Each cluster with its situation, balance, disk runway, moves, and proposals that wait for approval.
import { html } from "../vendor/htm-preact.js";
import { Ago, Empty, Figure, Link, Meter, Name, Progress, Said, Shown, SortedTable, memo } from "../parts.js";
import { Aged, Headline, KIND, faded, rank } from "../situation.js";
import { place, show, useWatched } from "../store.js";
import { count, days, duration, number, percent } from "../words.js";

const diskKind = (share) => (share >= 0.9 ? "bad" : share >= 0.8 ? "watch" : "plain");

const Card = memo(({ row }) => {
  const to = `/clusters/${encodeURIComponent(row.name)}`;
  const { situation } = row;
  return html`<article class="panel card ${KIND[situation.severity]}">
    <div class="head"><h2><${Link} to=${to} class="stretch"><${Name} name=${row.name} /></${Link}></h2><${Headline} situation=${situation} /></div>
    <p class="why"><${Said} text=${situation.doing} />.</p>
    ${situation.notes.slice(0, 3).map((note) => html`<p class="dim"><${Said} text=${note} /></p>`)}
    ${situation.notes.length > 3 && html`<p class="dim">and ${count(situation.notes.length - 3, "other finding")}</p>`}
    ${situation.figures === "current" ? html`<p class="dim">${count(row.brokers, "broker")} · ${count(row.partitions, "partition")} · observed <${Ago} at=${situation.observed_at_ms} /> ago</p>`
      : html`<${Aged} age=${situation.figures} at=${situation.observed_at_ms} />`}
    ${situation.figures !== "unknown" && html`<div class="${faded(situation.figures)}">
    <div class="gauges">
      <div><span>Fullest disk <b>${percent(row.disk_used)}</b></span><${Meter} share=${row.disk_used} kind=${diskKind(row.disk_used)} label="Fullest disk of ${row.name}" marks=${[0.8]} />
        <small class="dim">${row.runway_days === null ? row.runway_why || "runway not known" : `full in ${days(row.runway_days)}`}</small></div>
      <div><span>Imbalance <b>${percent(row.balance)}</b></span><${Meter} share=${row.balance} kind=${row.balance > 0.2 ? "watch" : "plain"} label="Imbalance of ${row.name}" marks=${[0.2]} />
        <small class="dim">${row.balance_of || "furthest from the mean"}</small></div>
    </div></div>`}
    ${row.moves_open > 0 && html`<${Link} class="line ${faded(situation.moves)}" to="${to}/moves"><span>${count(row.moves_open, "move")}</span>${row.share === null ? html`<span></span>` : html`<${Progress} share=${row.share} label="Moves of ${row.name}" />`}
      <span>${row.share === null ? "" : percent(row.share)}${row.left_ms !== null ? ` · ${duration(row.left_ms)} left` : ""}</span></${Link}>`}
    ${row.proposals_waiting > 0 && html`<${Link} class="ask" to="${to}/proposals">${count(row.proposals_waiting, "proposal")} ${row.proposals_waiting === 1 ? "waits" : "wait"} for approval →</${Link}>`}
  </article>`;
});

const CARDS = 12;
const COLUMNS = [
  { label: "Cluster", value: (row) => row.name, show: (row) => html`<${Link} to="/clusters/${encodeURIComponent(row.name)}"><${Name} name=${row.name} /></${Link}>` },
  { label: "Status", value: (row) => rank(row.situation), text: (row) => row.situation.headline, show: (row) => html`<span class=${faded(row.situation.figures)}><${Headline} situation=${row.situation} /></span>` },
  { label: "Brokers", kind: "number", value: (row) => row.brokers, show: (row) => number(row.brokers) },
  { label: "Partitions", kind: "number", value: (row) => row.partitions, show: (row) => number(row.partitions) },
  { label: "Fullest disk", kind: "number", value: (row) => row.disk_used, show: (row) => percent(row.disk_used) },
  { label: "Full in", kind: "number", value: (row) => row.runway_days, show: (row) => (row.runway_days === null ? "–" : days(row.runway_days)) },
  { label: "Imbalance", kind: "number", value: (row) => row.balance, show: (row) => percent(row.balance) },
  { label: "Under-replicated", kind: "number", value: (row) => row.under_replicated, show: (row) => number(row.under_replicated) },
  { label: "Moves", kind: "number", value: (row) => row.moves_open, show: (row) => (row.moves_open ? html`<${Link} to="/clusters/${encodeURIComponent(row.name)}/moves">${number(row.moves_open)}${row.share === null ? "" : `, ${percent(row.share)}`}</${Link}>` : number(row.moves_open)) },
  { label: "To approve", kind: "number", value: (row) => row.proposals_waiting, show: (row) => (row.proposals_waiting ? html`<${Link} to="/clusters/${encodeURIComponent(row.name)}/proposals">${number(row.proposals_waiting)}</${Link}>` : "0") },
];

export function Fleet({ fleet }) {
  const query = useWatched(place).searchParams;
  return html`<${Shown} view=${fleet} what="the fleet">${(view) => {
    const rows = [...view.clusters].sort((a, b) => rank(a.situation) - rank(b.situation) || a.name.localeCompare(b.name));
    const known = rows.filter((row) => row.situation.figures === "current");
    const sum = (field) => (known.length ? known.reduce((all, row) => all + (row[field] ?? 0), 0) : null);
    const part = known.length === rows.length ? "" : `of ${known.length} of ${count(rows.length, "cluster")}`;
    const table = (query.get("as") || (rows.length > CARDS ? "table" : "cards")) === "table";
    const search = query.get("search") || "";
    const found = table || !search ? rows : rows.filter((row) => `${row.name} ${row.situation.headline}`.toLowerCase().includes(search.toLowerCase()));
    return html`<div class="title"><h1>Fleet</h1><p class="dim">${view.headline}</p><span class="spring"></span>
        ${rows.length > 1 && html`<div class="tabs" role="group" aria-label="How clusters are shown"><button type="button" aria-pressed=${!table} onClick=${() => show({ as: "cards" })}>Cards</button><button type="button" aria-pressed=${table} onClick=${() => show({ as: "table" })}>Table</button></div>`}<${Link} to="/timeline">What happened →</${Link}></div>
      <dl class="figures">
        <${Figure} label="Clusters" value=${number(rows.length)} />
        <${Figure} label="Brokers" value=${number(sum("brokers"))}>${part}</${Figure}>
        <${Figure} label="Partitions" value=${number(sum("partitions"))}>${part}</${Figure}>
        <${Figure} label="Need attention" value=${number(rows.filter((row) => rank(row.situation) < 2).length)} kind=${KIND[view.severity] === "bad" ? "bad" : ""} />
        <${Figure} label="Moves open" value=${number(sum("moves_open"))}>${part}</${Figure}>
        <${Figure} label="Wait for approval" value=${number(rows.reduce((all, row) => all + row.proposals_waiting, 0))} />
      </dl>
      ${!rows.length && html`<${Empty} title="No clusters">The policy file names none.</${Empty}>`}
      ${!table && rows.length > CARDS && html`<label class="filters"><span class="hidden">Search for a cluster</span><input type="search" placeholder="Cluster…" value=${search} onInput=${(event) => show({ search: event.target.value })} /></label>`}
      ${table ? html`<section class="panel fleet-table"><${SortedTable} caption="Clusters" search="Cluster or status" columns=${COLUMNS} rows=${rows} initial=${{ label: "Status", down: false }} keyOf=${(row) => row.name} /></section>`
        : found.length ? html`<div class="cards">${found.map((row) => html`<${Card} key=${row.name} row=${row} />`)}</div>` : rows.length > 0 && html`<${Empty} title="No such cluster">Nothing fits this search.</${Empty}>`}`;
  }}</${Shown}>`;
}
