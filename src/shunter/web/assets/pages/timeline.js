// Events with cause and duration, as a chart that can be zoomed and as a list; the address reproduces the view.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { place, serviceNow, show, useView, useWatched } from "../store.js";
import { Empty, Link, Moment, Name, Said, Shown, memo } from "../parts.js";
import { Chart, axis, colour, times } from "../charts.js";
import { duration, number, words } from "../words.js";

const MOST = 2000;
const LISTED = 200;
const HUES = ["busy", "good", "watch", "violet", "bad", "rose", "olive", "dim"];

const narrow = () => matchMedia("(max-width: 45rem)").matches;

function useLanes(events) {
  return useMemo(() => {
    const kinds = [...new Set(events.map((each) => each.kind))].sort();
    return { kinds, laneOf: new Map(kinds.map((kind, index) => [kind, kinds.length - 1 - index])) };
  }, [events]);
}

const end = (each) => each.until_ms ?? each.at_ms;
// The newest first: an event that lasted is told when it ended, and of one moment the later one is told first.
const newest = (a, b) => end(b) - end(a) || b.number - a.number;

export function Lanes({ events, range, onRange, onPick, chosen }) {
  const { kinds, laneOf } = useLanes(events);
  const plot = useRef(null);
  const data = useMemo(() => [events.map((each) => each.at_ms / 1000), events.map((each) => laneOf.get(each.kind))], [events]);
  const latest = useRef({});
  latest.current = { events, laneOf, kinds, chosen, range };
  const hue = (kind) => colour(HUES[latest.current.kinds.indexOf(kind) % HUES.length]);
  const draw = (chart) => {
    const { ctx } = chart;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(chart.bbox.left, chart.bbox.top, chart.bbox.width, chart.bbox.height);
    ctx.clip();
    for (const each of latest.current.events) {
      const y = chart.valToPos(latest.current.laneOf.get(each.kind), "y", true);
      const from = chart.valToPos(each.at_ms / 1000, "x", true);
      const to = chart.valToPos(end(each) / 1000, "x", true);
      const high = 13 * ratio;
      ctx.fillStyle = hue(each.kind);
      ctx.globalAlpha = each.number === latest.current.chosen ? 1 : 0.72;
      ctx.beginPath();
      ctx.roundRect(from - 3 * ratio, y - high / 2, Math.max(to - from + 3 * ratio, 6 * ratio), high, 3 * ratio);
      ctx.fill();
      if (each.number === latest.current.chosen) { ctx.strokeStyle = colour("ink"); ctx.lineWidth = 2 * ratio; ctx.stroke(); }
    }
    ctx.restore();
  };
  const pick = (chart) => {
    const { left, top } = chart.cursor;
    let best = null;
    for (const each of latest.current.events) {
      const from = chart.valToPos(each.at_ms / 1000, "x");
      const to = chart.valToPos(end(each) / 1000, "x");
      const far = Math.max(0, from - left, left - to) + 2 * Math.abs(chart.valToPos(latest.current.laneOf.get(each.kind), "y") - top);
      if (far < 24 && (!best || far < best.far)) best = { far, each };
    }
    if (best) onPick(best.each.number);
  };
  const options = () => ({
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
    scales: { x: { time: true, range: () => latest.current.range.map((each) => each / 1000) }, y: { time: false, range: [-0.6, kinds.length - 0.4] } },
    axes: [times(), axis({ space: 8, size: narrow() ? 112 : 150, splits: () => kinds.map((_, index) => index), values: (_plot, at) => at.map((each) => { const told = words(kinds[kinds.length - 1 - each] || ""); const most = narrow() ? 13 : 22; return told.length > most ? `${told.slice(0, most)}…` : told; }), incrs: [1] })],
    series: [{}, { stroke: "transparent", points: { show: false } }],
    hooks: {
      draw: [draw],
      setSelect: [(chart) => {
        if (chart.select.width > 4) onRange(chart.posToVal(chart.select.left, "x") * 1000, chart.posToVal(chart.select.left + chart.select.width, "x") * 1000);
        chart.setSelect({ width: 0, height: 0 }, false);
      }],
      ready: [(chart) => chart.over.addEventListener("click", () => pick(chart))],
    },
  });
  useEffect(() => { plot.current?.setData(data); }, [range[0], range[1], chosen]);
  return html`<${Chart} key=${kinds.join()} label="${events.length} events in ${kinds.length} kinds; the list below has the same" height=${Math.max(120, kinds.length * 34 + 60)} data=${data} options=${options}
    onMade=${(made) => { plot.current = made; }} />`;
}

const HOUR = 3_600_000;
const SPANS = [["1 h", HOUR], ["6 h", 6 * HOUR], ["1 d", 24 * HOUR], ["7 d", 168 * HOUR], ["30 d", 720 * HOUR]];

function Zoom({ range, onRange }) {
  const [from, to] = range;
  const middle = (from + to) / 2;
  const by = (factor, shift = 0) => onRange(middle + shift * (to - from) - (factor * (to - from)) / 2, middle + shift * (to - from) + (factor * (to - from)) / 2);
  const now = serviceNow;
  return html`<div class="zoom"><div class="tabs" role="group" aria-label="How far back">${SPANS.map(([label, span]) => html`<button type="button" aria-pressed=${Math.abs(to - from - span * 1.02) < 1000} onClick=${() => onRange(now() - span, now() + span * 0.02)}>${label}</button>`)}</div>
    <div class="tabs" role="group" aria-label="Zoom"><button type="button" aria-label="Earlier" onClick=${() => by(1, -0.5)}>←</button><button type="button" aria-label="Zoom in" onClick=${() => by(0.5)}>+</button>
    <button type="button" aria-label="Zoom out" onClick=${() => by(2)}>−</button><button type="button" aria-label="Later" onClick=${() => by(1, 0.5)}>→</button></div></div>`;
}

// Kinds of events about a proposal that was carried out, and therefore has moves.
const CARRIED_OUT = new Set(["begun", "proposal-running", "proposal-carried-out", "proposal-done", "proposal-partly", "proposal-turned"]);

const Event = memo(({ event, chosen, fleet }) => {
  const facts = Object.entries(event.facts || {});
  return html`<li id="event-${event.number}" class=${chosen ? "chosen" : ""}><div class="when"><${Moment} at=${end(event)} />${event.until_ms ? html`<small>since <${Moment} at=${event.at_ms} />, ${duration(event.until_ms - event.at_ms)}</small>` : ""}</div>
    <div class="what"><div><button type="button" class="kind" onClick=${() => show({ kind: event.kind })}>${words(event.kind)}</button>${fleet && event.cluster ? html` <${Link} to="/clusters/${encodeURIComponent(event.cluster)}/timeline">${event.cluster}</${Link}>` : ""}
      ${event.subject && html` <button type="button" class="subject" title="Only events about this" onClick=${() => show({ about: event.subject })}><${Name} name=${event.subject} /></button>`}${event.who && html` <button type="button" class="subject" title="Only what ${event.who} did" onClick=${() => show({ who: event.who })}>by ${event.who}</button>`}</div>
      <p><${Said} text=${event.text} />${CARRIED_OUT.has(event.kind) && html` <${Link} to="/clusters/${encodeURIComponent(event.cluster)}/moves?plan=${encodeURIComponent(event.subject)}">Its moves</${Link}>`}</p>${event.cause && html`<p class="dim">Because: <${Said} text=${event.cause} /></p>`}
      ${facts.length > 0 && html`<details open=${chosen}><summary>Facts</summary><dl class="facts">${facts.map(([label, value]) => html`<dt>${words(label)}</dt><dd>${typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>`)}</dl></details>`}</div></li>`;
});

// One choice of what the events have; the service leaves out the others.
function Only({ label, field, value, all, told = (each) => each }) {
  const choices = [...new Set([value, ...all])].filter(Boolean).sort();
  return html`<label>${label} <select value=${value} onChange=${(event) => show({ [field]: event.target.value })}><option value="">all</option>${choices.map((each) => html`<option value=${each}>${told(each)}</option>`)}</select></label>`;
}

export function Timeline({ name }) {
  const query = useWatched(place).searchParams;
  const opened = useRef(serviceNow());
  const range = [Number(query.get("from")) || opened.current - 24 * HOUR, Number(query.get("to")) || opened.current + 0.02 * 24 * HOUR];
  const kind = query.get("kind") || "";
  const who = query.get("who") || "";
  const about = query.get("about") || "";
  const [chosen, setChosen] = useState(null);
  const step = Math.max(60_000, 10 ** Math.floor(Math.log10(range[1] - range[0])));
  const since = Math.max(0, Math.floor((range[0] - (range[1] - range[0]) / 2) / step) * step);
  const until = Math.ceil((range[1] + (range[1] - range[0]) / 2) / step) * step;
  const view = useView(`${name ? `/clusters/${encodeURIComponent(name)}` : ""}/timeline?${new URLSearchParams({ since_ms: since, until_ms: until, most: MOST, kind, who })}`, name);
  const onRange = (from, to) => show({ from: Math.round(from), to: Math.round(to) });
  const pick = (number) => { setChosen(number); document.getElementById(`event-${number}`)?.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }); };
  return html`<div class="title"><h1>${name ? "Timeline" : "What happened in the fleet"}</h1><span class="spring"></span><${Zoom} range=${range} onRange=${onRange} /></div>
    <${Shown} view=${view} what="the timeline">${({ events, more, host, host_since_ms: since_host }) => {
      const shown = events.filter((each) => !about || each.subject === about);
      const listed = shown.filter((each) => end(each) >= range[0] && each.at_ms <= range[1]).sort(newest);
      return html`<div class="head filters"><${Only} label="Kind" field="kind" value=${kind} all=${events.map((each) => each.kind)} told=${words} /><${Only} label="Person" field="who" value=${who} all=${events.map((each) => each.who)} />
          ${about && html`<span class="chip">${about}</span>`}${(kind || who || about) && html`<button type="button" class="quiet" onClick=${() => show({ kind: "", who: "", about: "" })}>Show everything</button>`}</div>
        ${more && html`<p class="banner">There are more than ${number(events.length)} events: zoom in to see the earlier ones.</p>`}
        ${shown.length > 0 && html`<section class="panel"><${Lanes} events=${shown} range=${range} onRange=${onRange} onPick=${pick} chosen=${chosen} /><p class="dim">Drag to zoom; click an event to find it in the list.</p></section>`}
        ${listed.length ? html`<ol class="events panel">${listed.slice(0, LISTED).map((each) => html`<${Event} key=${each.number} event=${each} chosen=${each.number === chosen} fleet=${!name} />`)}</ol>
          ${listed.length > LISTED && html`<p class="dim">The latest ${LISTED} of ${number(listed.length)}; zoom in to see the others.</p>`}`
          : html`<section class="panel"><${Empty} title="Nothing happened">There is no event between <${Moment} at=${range[0]} /> and <${Moment} at=${range[1]} />.</${Empty}></section>`}
        ${host && html`<p class="dim">This is the history of host ${host}${since_host && html`, since <${Moment} at=${since_host} />`}. Of services on other hosts it has what they left in the cluster: intents, pauses of the cluster, proposals and votes. Orders to moves are with their execution.</p>`}`;
    }}</${Shown}>`;
}
