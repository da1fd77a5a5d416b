// Moves with steps, bytes, rate, ETA; orders to one move, a selection or all moves; the throttle. And past moves.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { note, order, place, preview, read, show, useView, useWatched } from "../store.js";
import { Chip, Empty, Figure, Link, LongTable, Meter, Name, Order, Progress, Said, Shown, memo, plain } from "../parts.js";
import { Executions } from "./executions.js";
import { KINDS, Replica, Story } from "./story.js";
import { Chart, axis, colour, times } from "../charts.js";
import { Aged, Headline, faded, taken } from "../situation.js";
import { bytes, count, duration, number, percent, rate, words } from "../words.js";

const DRAWN_EVERY_S = 5;
const OPEN = { moving: 1, pending: 1, paused: 1 };

// The present replicas, and those that the goal adds and drops: shown by marks and words, not by colour alone.
// A move that has ended shows what it left. If it is not known who is in sync, that is not said.
function Replicas({ move }) {
  const over = !(move.state in OPEN);
  const goal = over ? move.replicas : move.direction === "back" ? move.original : move.target;
  const every = [...new Set([...goal, ...move.replicas, ...(over ? [] : move.target), ...move.original])];
  return html`<span class="replicas">${every.map((id) => {
    const here = move.replicas.includes(id);
    const wanted = goal.includes(id);
    const known = move.isr !== null;
    const insync = known && move.isr.includes(id);
    const kind = !here ? (wanted ? "later" : "gone") : !wanted ? "goes" : !known ? "here" : insync ? "stays" : move.adding.includes(id) ? "comes" : "behind";
    return html`<${Replica} key=${id} id=${id} kind=${kind} />`;
  })}</span>`;
}

const UNITS = [["MB", 1_000_000], ["kB", 1000], ["GB", 1_000_000_000]];

// Any throttle, of each broker. It acts when its button is clicked, not while it is typed.
function Throttle({ name, limit, situation, who }) {
  const unit = UNITS.find(([, each]) => limit !== null && limit >= each && limit % each === 0) ?? UNITS[limit !== null && limit < 1_000_000 ? 1 : 0];
  const [given, setGiven] = useState(null);
  const value = given ?? { amount: limit === null ? "" : String(limit / unit[1]), unit: unit[0] };
  const may = taken("limit", situation, who);
  const change = async (wanted) => {
    try { note(plain((await order(name, "limit", { bytes_per_s: wanted })).text)); setGiven(null); } catch (error) { note(plain(error.message), "error"); }
  };
  const submit = (event) => { event.preventDefault(); change(Math.round(Number(value.amount) * UNITS.find(([each]) => each === value.unit)[1])); };
  return html`<form class="throttle" onSubmit=${submit}><span>Throttle per broker: <b>${limit === null ? "none" : rate(limit)}</b></span>
    <span class="set"><input type="number" min="0.001" step="any" required aria-label="Throttle per broker" value=${value.amount} onInput=${(event) => setGiven({ ...value, amount: event.target.value })} />
    <select aria-label="Unit" value=${value.unit} onChange=${(event) => setGiven({ ...value, unit: event.target.value })}>${UNITS.map(([each]) => html`<option value=${each}>${each}/s</option>`)}</select>
    <button disabled=${may.disabled} title=${may.why}>Set</button><button type="button" disabled=${may.disabled || limit === null} title=${may.why} onClick=${() => change(0)}>Lift</button></span></form>`;
}

const BOUNDS = [["max_concurrent", "Concurrent copies", "in the cluster"], ["max_in", "Into one broker", "copies"], ["max_out", "Out of one broker", "copies"]];

function Bounds({ name, bounds, situation, who }) {
  const [given, setGiven] = useState({});
  const may = taken("limit", situation, who);
  const changed = Object.entries(given).filter(([each, value]) => value !== "" && Number(value) !== bounds[each]);
  const submit = async (event) => {
    event.preventDefault();
    try { note(plain((await order(name, "limit", Object.fromEntries(changed.map(([each, value]) => [each, Number(value)])))).text)); setGiven({}); } catch (error) { note(plain(error.message), "error"); }
  };
  return html`<form class="throttle" onSubmit=${submit}><span>Bounds on copies: <b>${BOUNDS.map(([each]) => bounds[each]).every((each) => !each) ? "none" : BOUNDS.filter(([each]) => bounds[each]).map(([each, label]) => `${label.toLowerCase()} ${bounds[each]}`).join(", ")}</b></span>
    <span class="set">${BOUNDS.map(([each, label, told]) => html`<label key=${each}><small>${label}</small><input type="number" min="0" step="1" title="${told} at a time; 0: no bound" value=${given[each] ?? bounds[each] ?? ""} onInput=${(event) => setGiven({ ...given, [each]: event.target.value })} /></label>`)}
    <button disabled=${may.disabled || !changed.length} title=${may.why || "0: no bound"}>Set</button></span></form>`;
}

// Rates and estimates: the points that the service kept, and those that came since.
function useHistory(name, summary) {
  const kept = useRef({ at: [], rate: [], end: [], low: [], high: [] });
  const drawn = useRef(null);
  const [before, setBefore] = useState(0);
  useEffect(() => {
    let gone = false;
    const far = (all) => all.map((each) => (each === null ? null : each / 1000));
    read(`/clusters/${encodeURIComponent(name)}/forecasts`).then((all) => {
      if (gone) return;
      kept.current = { at: far(all.at_ms), rate: all.copy_bytes_per_s, end: far(all.end_ms), low: far(all.low_ms), high: far(all.high_ms) };
      drawn.current = null;
      setBefore(all.at_ms.length);
    }, () => {});
    return () => { gone = true; };
  }, [name, summary.proposal]);
  return useMemo(() => {
    const all = kept.current;
    const at = summary.at_ms / 1000;
    if (at > (all.at.at(-1) ?? 0)) {
      const until = (left) => (left === null ? null : (summary.at_ms + left) / 1000);
      all.at.push(at); all.rate.push(summary.copy_bytes_per_s);
      all.end.push(until(summary.left_ms)); all.low.push(until(summary.low_ms)); all.high.push(until(summary.high_ms));
      for (const each of Object.values(all)) if (each.length > 3600) each.shift();
    }
    // Drawing a chart is the most expensive part of an update, and one more second is not visible on a long line.
    const last = drawn.current?.at.at(-1) ?? 0;
    const span = at - (all.at[0] ?? at);
    if (!drawn.current || at - last >= Math.max(DRAWN_EVERY_S, span / 200)) {
      drawn.current = { at: [...all.at], rate: [...all.rate], end: [...all.end], low: [...all.low], high: [...all.high] };
    }
    return drawn.current;
  }, [summary, before]);
}

// Ends are told to the minute, so the axis has no finer steps, and spans some of them.
const FAR = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];
const apart = (_plot, low, high) => { const room = Math.max(0, 240 - (high - low)) / 2 + (high - low) * 0.1; return [low - room, high + room]; };

function History({ name, summary }) {
  const all = useHistory(name, summary);
  const rates = useMemo(() => [all.at, all.rate], [all]);
  const ends = useMemo(() => [all.at, all.high, all.low, all.end], [all]);
  if (all.at.length < 3) return null;
  const line = (label, more = {}) => ({ label, stroke: () => colour("busy"), width: 2, points: { show: false }, spanGaps: true, ...more });
  const scales = { x: { time: true } };
  const far = summary.high_ms > 20 * 3_600_000 ? { day: "numeric", month: "short" } : {};
  const clock = new Intl.DateTimeFormat("en-GB", { ...far, hour: "2-digit", minute: "2-digit" });
  return html`<div class="pair"><figure><figcaption>Rate</figcaption><${Chart} label="Bytes per second over time" height=${150} data=${rates}
      options=${() => ({ legend: { show: false }, cursor: { y: false }, scales: { ...scales, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.15] } }, axes: [times(), axis({ size: 70, values: (_plot, values) => values.map(rate) })], series: [{}, line("rate", { fill: () => colour("busy-soft") })] })} /></figure>
    <figure><figcaption>Expected end, with its 80 % interval</figcaption><${Chart} label="Expected end over time" height=${150} data=${ends}
      options=${() => ({ legend: { show: false }, cursor: { y: false }, scales: { ...scales, y: { time: false, range: apart } }, axes: [times(), axis({ incrs: FAR, size: far.day ? 104 : 56, values: (_plot, values) => values.map((each) => clock.format(each * 1000)) })],
        bands: [{ series: [1, 2], fill: () => colour("busy-soft") }], series: [{}, line("latest", { stroke: "transparent" }), line("earliest", { stroke: "transparent" }), line("end")] })} /></figure></div>`;
}

const VERBS = [["pause", "Pause"], ["resume", "Resume"], ["stop", "Stop"], ["rollback", "Roll back", "danger"]];

export function Turns({ name, who, situation, partitions, what }) {
  return html`<div class="actions turns">${VERBS.map(([verb, label, kind]) => html`<${Order} key=${verb} label=${label} kind=${kind || ""} title="${label} ${what}" comment=${true} ...${taken(verb, situation, who)}
    give=${(comment) => order(name, verb, { partitions, comment })} cost=${() => preview(name, verb, partitions)} />`)}</div>`;
}

function Head({ name, summary, counts, who }) {
  const open = (counts.moving || 0) + (counts.pending || 0) + (counts.paused || 0);
  const { situation } = summary;
  const others = (counts.external || 0) + (counts.unknown || 0);
  const interval = summary.low_ms === null ? html`<${Said} text=${summary.why_no_eta.replace(/^no (ETA yet|end): /, "")} />` : `80 % sure: ${duration(summary.low_ms)} to ${duration(summary.high_ms)}`;
  return html`<section class="panel moving"><div class="head"><h2>${open ? count(open, "move") + " open" : others ? "No open move of this service" : "No open move is listed"}</h2><${Headline} situation=${situation} />${others > 0 && html`<span class="dim">${count(others, "other move")} under way</span>`}
      ${summary.proposal && html`<span class="dim">proposal <${Link} to="/clusters/${encodeURIComponent(name)}/proposals?ended=1#${summary.proposal}">${summary.proposal}</${Link}></span>`}
      <span class="spring"></span><${Turns} name=${name} who=${who} situation=${situation} partitions=${[]} what="all moves of this service in ${name}" /></div>
    <p><${Said} text=${situation.doing} />.</p><${Aged} age=${situation.moves} at=${situation.moves_at_ms} what="These moves" />
    ${summary.silent_ms > 0 && html`<p class="banner bad" role="status">The cluster has not answered for ${duration(summary.silent_ms)}.</p>`}
    ${summary.plan_bytes !== null && (open > 0 || summary.plan_bytes > 0) && html`<${Progress} share=${summary.share} label="Done" />
    <dl class="figures small ${faded(situation.moves)}"><${Figure} label="Done" value=${percent(summary.share, 1)}>${bytes(summary.left_bytes)} left of ${bytes(summary.plan_bytes)}</${Figure}>
      <${Figure} label="Rate" value=${rate(summary.copy_bytes_per_s)} />
      <${Figure} label="Left" value=${summary.left_ms === null ? (open ? (summary.why_no_eta.startsWith("no ETA yet") ? "measuring" : "no ETA") : "nothing") : duration(summary.left_ms)}>${interval}</${Figure}>
      <${Figure} label="A rollback copies" value=${bytes(summary.rollback_bytes)}>at most</${Figure}></dl>
    ${open > 0 && html`<div class="limits"><${Throttle} name=${name} limit=${summary.throttle_bytes_per_s} situation=${situation} who=${who} /><${Bounds} name=${name} bounds=${summary.bounds} situation=${situation} who=${who} /></div>`}`}
    <${History} name=${name} summary=${summary} /></section>`;
}

// An order to one move, in two clicks. What each would do is shown before the second click.
function TurnOne({ name, who, situation, partition }) {
  const choices = VERBS.filter(([verb]) => !taken(verb, situation, who).disabled);
  if (!choices.length) return null;
  const told = async () => (await Promise.all(choices.map(async ([verb, label]) => `${label}: ${await preview(name, verb, [partition])}`))).join(" ");
  return html`<${Order} label="Change…" kind="quiet" about="Change ${partition}" title="Change ${partition}" comment=${true} choices=${choices.map(([value, label, kind]) => ({ value, label, kind }))}
    cost=${told} give=${(comment, verb) => order(name, verb, { partitions: [partition], comment })} />`;
}

const COLUMNS = [{ label: "", kind: "check" }, { label: "Partition" }, { label: "State" }, { label: "Replicas", kind: "wide" }, { label: "Copied" }, { label: "Steps", kind: "number" }, { label: "Waits for", kind: "wide" }, { label: "" }];

const Row = memo(({ name, who, situation, move, chosen, toggle, opened }) => {
  const share = move.total_bytes ? move.copied_bytes / move.total_bytes : move.state === "done" ? 1 : 0;
  return html`<td class="check"><input type="checkbox" checked=${chosen} disabled=${move.whose !== "ours" || !(move.state in OPEN) || taken("stop", situation, who).disabled} aria-label="Choose ${move.partition}" onChange=${() => toggle(move.partition)} /></td>
    <td class="name" title=${move.partition}>${move.whose === "ours" ? html`<button type="button" class="link" aria-expanded=${opened} onClick=${() => show({ move: opened ? "" : move.partition, execution: "" })}><${Name} name=${move.partition} /></button>` : html`<${Name} name=${move.partition} />`}<small class="thin ${move.stuck ? "bad" : "dim"}">${[move.total_bytes ? percent(share) : "", plain(move.stuck || move.waits)].filter(Boolean).join(" · ")}</small></td>
    <td><${Chip} kind=${move.whose === "ours" ? KINDS[move.state] || "still" : "still"}>${move.whose === "ours" ? words(move.state) : move.whose}</${Chip}></td>
    <td class="wide"><${Replicas} move=${move} /></td>
    <td class="copied">${move.total_bytes === null ? html`<span class="dim">unknown</span>` : html`<${Meter} share=${share} kind="busy" label="Copied of ${move.partition}" /><small>${bytes(move.copied_bytes)} of ${bytes(move.total_bytes)}</small>`}</td>
    <td class="number">${move.steps || ""}</td><td class="wide ${move.stuck ? "bad" : "dim"}" title=${plain(move.stuck || move.waits)}><${Said} text=${move.stuck || move.waits} /></td>
    <td class="check">${move.whose === "ours" && move.state in OPEN && html`<${TurnOne} name=${name} who=${who} situation=${situation} partition=${move.partition} />`}</td>`;
});

function Now({ name, who }) {
  const base = `/clusters/${encodeURIComponent(name)}/moves`;
  const head = useView(`${base}?limit=1`, name);
  const query = useWatched(place).searchParams;
  const [chosen, setChosen] = useState(new Set());
  const search = query.get("search") || "";
  const state = query.get("state") || "";
  const opened = query.get("move") || "";
  const toggle = useCallback((partition) => setChosen((before) => { const next = new Set(before); if (!next.delete(partition)) next.add(partition); return next; }), []);
  return html`<${Shown} view=${head} what="the moves of ${name}">${({ summary, counts }) => {
    const all = Object.values(counts).reduce((sum, each) => sum + each, 0);
    return html`<${Head} name=${name} summary=${summary} counts=${counts} who=${who} />
      ${opened && html`<${Story} name=${name} partition=${opened} />`}
      ${all === 0 ? html`<section class="panel"><${Empty} title="No move is listed">${summary.situation.doing}. What is proposed is under <${Link} to="/clusters/${encodeURIComponent(name)}/proposals">proposals</${Link}>.</${Empty}></section>`
        : html`<section class="panel"><div class="head filters"><label><span class="hidden">Search for a partition</span><input type="search" placeholder="Partition…" value=${search} onInput=${(event) => show({ search: event.target.value })} /></label>
        <div class="tabs" role="group" aria-label="State">${[["", all], ...Object.entries(counts)].map(([each, many]) => html`<button type="button" aria-pressed=${state === each} onClick=${() => show({ state: each })}>${each ? words(each) : "all"} <b>${number(many)}</b></button>`)}</div>
        <span class="spring"></span></div>
        ${chosen.size > 0 && html`<div class="chosen" role="region" aria-label="Chosen moves"><strong>${count(chosen.size, "move")} chosen</strong><button type="button" class="quiet" onClick=${() => setChosen(new Set())}>Choose none</button>
          <span class="spring"></span><${Turns} name=${name} who=${who} situation=${summary.situation} partitions=${[...chosen]} what=${count(chosen.size, "chosen move")} /></div>`}
        <${LongTable} label="Moves" kind="of-moves" path=${base} query=${new URLSearchParams({ search, state })} version=${summary.version} columns=${COLUMNS}
          selected=${(move) => chosen.has(move.partition)} row=${(move) => html`<${Row} name=${name} who=${who} situation=${summary.situation} move=${move} chosen=${chosen.has(move.partition)} toggle=${toggle} opened=${move.partition === opened} />`}
          empty=${html`<${Empty} title="No such move">Nothing fits this search.</${Empty}>`} />
        <p class="legend dim"><span class="replica stays">1</span> in sync <span class="replica comes">2</span> added, not in sync yet <span class="replica behind">6</span> out of sync <span class="replica later">3</span> will come <span class="replica goes">4</span> will go <span class="replica gone">5</span> was dropped <span class="replica here">7</span> assigned</p></section>`}`;
  }}</${Shown}>`;
}

const NOW = { past: "", execution: "", plan: "", move: "", search: "", state: "" };

export function Moves({ name, who }) {
  const query = useWatched(place).searchParams;
  const past = query.has("past") || query.has("execution") || query.has("plan");
  return html`<div class="title"><h1>Moves</h1><div class="tabs" role="group" aria-label="Which moves"><button type="button" aria-pressed=${!past} onClick=${() => show(NOW)}>Now</button><button type="button" aria-pressed=${past} onClick=${() => show({ ...NOW, past: "1" })}>All executions</button></div></div>
    ${past ? html`<${Executions} name=${name} query=${query} />` : html`<${Now} name=${name} who=${who} />`}`;
}
