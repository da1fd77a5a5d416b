// What the pipeline found out about a cluster: its load model in a few figures, and the tables that were made from it.
import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { place, show, usePolled, useWatched } from "../store.js";
import { Chip, Empty, Figure, LongTable, Moment, Said, Shown } from "../parts.js";
import { bytes, count, number, percent, rate } from "../words.js";

const EVERY_MS = 30_000;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

// A value in words, by the unit that the pipeline keeps for its column.
function told(value, unit) {
  if (value === null) return html`<span class="dim">–</span>`;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return MOMENT.test(value) ? html`<${Moment} at=${Date.parse(value)} />` : value;
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return rate(value);
  if (unit === "bytes/day") return `${bytes(value)} a day`;
  if (unit === "1") return percent(value, 1);
  return Number.isInteger(value) ? number(value) : value.toPrecision(4);
}

function Model({ view }) {
  const { model, model_trouble: trouble, unused } = view;
  if (trouble) return html`<section class="panel bad"><h2>Load model</h2><p><${Said} text=${trouble} /></p></section>`;
  if (!model) return html`<section class="panel"><h2>Load model</h2><${Empty} title="None yet">There is no load model of this cluster: <code>shunter pipeline ingest</code> and <code>shunter pipeline model</code> make one.</${Empty}></section>`;
  return html`<section class="panel ${unused ? "watch" : ""}"><div class="head"><h2>Load model</h2><${Chip} kind=${unused ? "watch" : "good"}>${unused ? "not used" : "used for plans"}</${Chip}></div>
    ${unused && html`<p>Plans do not use this model: <${Said} text=${unused} />.</p>`}
    <dl class="figures small"><${Figure} label="Made" value=${html`<${Moment} at=${model.written_ms} />`} /><${Figure} label="Newest rates" value=${html`<${Moment} at=${model.rates_until_ms} />`} />
      <${Figure} label="Replicas with rates" value=${percent(model.replicas ? model.with_rates / model.replicas : null)}>${number(model.with_rates)} of ${number(model.replicas)}; only sizes are known of the others</${Figure}>
      <${Figure} label="Coverage" value=${percent(model.coverage)}>of the time, for replicas with rates</${Figure}>
      <${Figure} label="Confidence" value=${percent(model.confidence)}>mean of all replicas</${Figure}></dl></section>`;
}

function Report({ name, report, search }) {
  const box = useRef(null);
  useEffect(() => box.current.scrollIntoView({ block: "start" }), []);
  const path = `/clusters/${encodeURIComponent(name)}/reports/${encodeURIComponent(report.name)}`;
  const query = new URLSearchParams({ search });
  const head = usePolled(`${path}?limit=1&${query}`, EVERY_MS);
  return html`<section class="panel" ref=${box} aria-label=${report.title}><div class="head"><h2>${report.title}</h2><span class="dim"><${Said} text=${report.told} /></span><span class="spring"></span>
      <button type="button" class="quiet" aria-label="Close ${report.title}" onClick=${() => show({ report: "", search: "" })}>×</button></div>
    <div class="filters"><label><span class="hidden">Search in ${report.title}</span><input type="search" placeholder="Search…" value=${search} onInput=${(event) => show({ search: event.target.value })} /></label></div>
    <${Shown} view=${head} what=${report.title}>${({ columns }) => html`<div class="report" style=${{ "--columns": columns.length }}><${LongTable} label=${report.title} path=${path} query=${query} version=${report.written_ms}
      columns=${columns.map((each) => ({ label: each.name.replaceAll("_", " "), title: `${each.told}${each.unit && ` (${each.unit})`}` }))}
      row=${(row) => row.map((value, index) => html`<td title=${typeof value === "string" ? value : undefined}>${told(value, columns[index].unit)}</td>`)}
      empty=${html`<${Empty} title="No such row">Nothing fits this search.</${Empty}>`} /></div>`}</${Shown}></section>`;
}

export function Reports({ name }) {
  const view = usePolled(`/clusters/${encodeURIComponent(name)}/reports`, EVERY_MS);
  const query = useWatched(place).searchParams;
  const chosen = query.get("report") || "";
  return html`<div class="title"><h1>Reports</h1></div><${Shown} view=${view} what="the reports of ${name}">${(all) => {
    if (all.why) return html`<section class="panel"><${Empty} title="There are no reports"><${Said} text=${all.why} />.</${Empty}></section>`;
    const report = all.reports.find((each) => each.name === chosen && each.rows);
    return html`<${Model} view=${all} />
      <section class="panel"><h2>Tables</h2><ul class="conditions">${all.reports.map((each) => html`<li key=${each.name}><div>
        ${each.rows ? html`<button type="button" class="link" aria-expanded=${each.name === chosen} onClick=${() => show({ report: each.name === chosen ? "" : each.name, search: "" })}>${each.title}</button>` : html`<strong>${each.title}</strong>`}
        <span class="dim">${each.written_ms ? html`${count(each.rows, "row")}, ${bytes(each.bytes)}, written <${Moment} at=${each.written_ms} />` : each.trouble ? "" : "not made yet"}</span></div>
        <p class=${each.trouble ? "why bad" : "dim"}><${Said} text=${each.trouble || each.told} /></p></li>`)}</ul></section>
      ${report && html`<${Report} key=${report.name} name=${name} report=${report} search=${query.get("search") || ""} />`}`;
  }}</${Shown}>`;
}
