// Each cluster with health, balance, disk runway, moves, and proposals that wait for approval.
import { html } from "/assets/vendor/htm-preact.js";
import { Ago, Chip, Empty, Figure, Link, Meter, Progress, Shown, memo } from "/assets/parts.js";
import { count, days, duration, number, percent } from "/assets/words.js";

// The worst problem of a cluster, in a few words.
export function healthOf(row) {
  const { state, trouble } = row.health;
  if (state === "unreachable") return { kind: "bad", told: "does not answer", why: trouble };
  if (state === "starting") return { kind: "still", told: "not looked at yet", why: trouble };
  if (row.offline) return { kind: "bad", told: `${count(row.offline, "partition")} offline` };
  if (row.under_min_isr) return { kind: "bad", told: `${count(row.under_min_isr, "partition")} under min ISR` };
  if (row.brokers_down.length) return { kind: "bad", told: `broker ${row.brokers_down.join(", ")} down` };
  if (row.under_replicated) return { kind: "watch", told: `${count(row.under_replicated, "partition")} under-replicated` };
  if (row.conditions) return { kind: "watch", told: count(row.conditions, "condition") };
  if (state === "standby") return { kind: "still", told: "standby", why: trouble };
  return { kind: "good", told: "well" };
}

const diskKind = (share) => (share >= 0.9 ? "bad" : share >= 0.8 ? "watch" : "plain");

const Card = memo(({ row }) => {
  const to = `/clusters/${encodeURIComponent(row.name)}`;
  const health = healthOf(row);
  return html`<article class="panel card ${health.kind}">
    <div class="head"><h2><${Link} to=${to} class="stretch">${row.name}</${Link}></h2><${Chip} kind=${health.kind}>${health.told}</${Chip}></div>
    ${health.why && html`<p class="why">${health.why}</p>`}
    ${row.health.journal_trouble && html`<p class="why bad">${row.health.journal_trouble}</p>`}
    ${row.health.words && html`<p class="why bad">${row.health.words}</p>`}
    <p class="dim">${count(row.brokers, "broker")} · ${count(row.partitions, "partition")}${row.health.looked_at_ms ? html` · looked at <${Ago} at=${row.health.looked_at_ms} /> ago` : ""}</p>
    <div class="gauges">
      <div><span>Fullest disk <b>${percent(row.disk_used)}</b></span><${Meter} share=${row.disk_used} kind=${diskKind(row.disk_used)} label="Fullest disk of ${row.name}" marks=${[0.8]} />
        <small class="dim">${row.runway_days === null ? row.runway_why || "runway not known" : `full in ${days(row.runway_days)}`}</small></div>
      <div><span>Imbalance <b>${percent(row.balance)}</b></span><${Meter} share=${row.balance} kind=${row.balance > 0.2 ? "watch" : "plain"} label="Imbalance of ${row.name}" marks=${[0.2]} />
        <small class="dim">furthest from the mean</small></div>
    </div>
    ${row.moves_open > 0 && html`<${Link} class="line" to="${to}/moves"><span>${count(row.moves_open, "move")}</span><${Progress} share=${row.share} label="Moves of ${row.name}" />
      <span>${percent(row.share)}${row.left_ms !== null ? ` · ${duration(row.left_ms)} left` : ""}</span></${Link}>`}
    ${row.proposals_waiting > 0 && html`<${Link} class="ask" to="${to}/proposals">${count(row.proposals_waiting, "proposal")} ${row.proposals_waiting === 1 ? "waits" : "wait"} for approval →</${Link}>`}
    ${row.paused && html`<p class="why watch">Paused by ${row.paused.who}</p>`}
  </article>`;
});

const RANK = { bad: 0, watch: 1, good: 2, still: 3 };

export function Fleet({ fleet }) {
  return html`<${Shown} view=${fleet} what="the fleet">${(view) => {
    const rows = [...view.clusters].sort((a, b) => RANK[healthOf(a).kind] - RANK[healthOf(b).kind] || a.name.localeCompare(b.name));
    const sum = (field) => rows.reduce((all, row) => all + row[field], 0);
    return html`<div class="title"><h1>Fleet</h1><${Link} to="/timeline">What happened →</${Link}></div>
      <dl class="figures">
        <${Figure} label="Clusters" value=${number(rows.length)} />
        <${Figure} label="Brokers" value=${number(sum("brokers"))} />
        <${Figure} label="Partitions" value=${number(sum("partitions"))} />
        <${Figure} label="Need a look" value=${number(rows.filter((row) => RANK[healthOf(row).kind] < 2).length)} kind=${rows.some((row) => healthOf(row).kind === "bad") ? "bad" : ""} />
        <${Figure} label="Moves open" value=${number(sum("moves_open"))} />
        <${Figure} label="Wait for approval" value=${number(sum("proposals_waiting"))} />
      </dl>
      ${rows.length ? html`<div class="cards">${rows.map((row) => html`<${Card} key=${row.name} row=${row} />`)}</div>`
        : html`<${Empty} title="No clusters">The policy file names none.</${Empty}>`}`;
  }}</${Shown}>`;
}
