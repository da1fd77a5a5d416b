// Each cluster with its situation, balance, disk runway, moves, and proposals that wait for approval.
import { html } from "../vendor/htm-preact.js";
import { Ago, Empty, Figure, Link, Meter, Progress, Shown, memo } from "../parts.js";
import { Aged, Headline, KIND, faded, rank } from "../situation.js";
import { count, days, duration, number, percent } from "../words.js";

const diskKind = (share) => (share >= 0.9 ? "bad" : share >= 0.8 ? "watch" : "plain");

const Card = memo(({ row }) => {
  const to = `/clusters/${encodeURIComponent(row.name)}`;
  const { situation } = row;
  return html`<article class="panel card ${KIND[situation.severity]}">
    <div class="head"><h2><${Link} to=${to} class="stretch">${row.name}</${Link}></h2><${Headline} situation=${situation} /></div>
    <p class="why">${situation.doing}.</p>
    ${situation.notes.slice(0, 3).map((note) => html`<p class="dim">${note}</p>`)}
    ${situation.figures === "current" ? html`<p class="dim">${count(row.brokers, "broker")} · ${count(row.partitions, "partition")} · observed <${Ago} at=${situation.observed_at_ms} /> ago</p>`
      : html`<${Aged} age=${situation.figures} at=${situation.observed_at_ms} />`}
    ${situation.figures !== "unknown" && html`<div class="${faded(situation.figures)}">
    <div class="gauges">
      <div><span>Fullest disk <b>${percent(row.disk_used)}</b></span><${Meter} share=${row.disk_used} kind=${diskKind(row.disk_used)} label="Fullest disk of ${row.name}" marks=${[0.8]} />
        <small class="dim">${row.runway_days === null ? row.runway_why || "runway not known" : `full in ${days(row.runway_days)}`}</small></div>
      <div><span>Imbalance <b>${percent(row.balance)}</b></span><${Meter} share=${row.balance} kind=${row.balance > 0.2 ? "watch" : "plain"} label="Imbalance of ${row.name}" marks=${[0.2]} />
        <small class="dim">furthest from the mean</small></div>
    </div></div>`}
    ${row.moves_open > 0 && html`<${Link} class="line ${faded(situation.moves)}" to="${to}/moves"><span>${count(row.moves_open, "move")}</span>${row.share === null ? html`<span></span>` : html`<${Progress} share=${row.share} label="Moves of ${row.name}" />`}
      <span>${row.share === null ? "" : percent(row.share)}${row.left_ms !== null ? ` · ${duration(row.left_ms)} left` : ""}</span></${Link}>`}
    ${row.proposals_waiting > 0 && html`<${Link} class="ask" to="${to}/proposals">${count(row.proposals_waiting, "proposal")} ${row.proposals_waiting === 1 ? "waits" : "wait"} for approval →</${Link}>`}
  </article>`;
});

export function Fleet({ fleet }) {
  return html`<${Shown} view=${fleet} what="the fleet">${(view) => {
    const rows = [...view.clusters].sort((a, b) => rank(a.situation) - rank(b.situation) || a.name.localeCompare(b.name));
    const known = rows.filter((row) => row.situation.figures === "current");
    const sum = (field) => (known.length ? known.reduce((all, row) => all + (row[field] ?? 0), 0) : null);
    const part = known.length === rows.length ? "" : `of ${known.length} of ${count(rows.length, "cluster")}`;
    return html`<div class="title"><h1>Fleet</h1><p class="dim">${view.headline}</p><${Link} to="/timeline">What happened →</${Link}></div>
      <dl class="figures">
        <${Figure} label="Clusters" value=${number(rows.length)} />
        <${Figure} label="Brokers" value=${number(sum("brokers"))}>${part}</${Figure}>
        <${Figure} label="Partitions" value=${number(sum("partitions"))}>${part}</${Figure}>
        <${Figure} label="Need attention" value=${number(rows.filter((row) => rank(row.situation) < 2).length)} kind=${KIND[view.severity] === "bad" ? "bad" : ""} />
        <${Figure} label="Moves open" value=${number(sum("moves_open"))}>${part}</${Figure}>
        <${Figure} label="Wait for approval" value=${number(rows.reduce((all, row) => all + row.proposals_waiting, 0))} />
      </dl>
      ${rows.length ? html`<div class="cards">${rows.map((row) => html`<${Card} key=${row.name} row=${row} />`)}</div>`
        : html`<${Empty} title="No clusters">The policy file names none.</${Empty}>`}`;
  }}</${Shown}>`;
}
