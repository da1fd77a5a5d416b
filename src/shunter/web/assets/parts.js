// Parts that several pages use.
import { Component, html, render, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { go, href, kept, note, read, serviceNow } from "./store.js";
import { duration, moment, utc } from "./words.js";

export function Link({ to, children, ...rest }) {
  const follow = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${href(to)} onClick=${follow} ...${rest}>${children}</a>`;
}

const MARKS = { good: "●", watch: "▲", bad: "■", busy: "◆", still: "○" };

// A state is shown by a shape and a word, never by colour alone.
export const Chip = ({ kind, children, title }) =>
  html`<span class="chip ${kind}" title=${title}><span aria-hidden="true">${MARKS[kind] || "○"}</span> ${children}</span>`;

export function Meter({ share, kind = "plain", label, marks = [] }) {
  const shown = Math.max(0, Math.min(1, share ?? 0));
  return html`<div class="meter ${kind}" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="100"
    aria-valuenow=${Math.round(shown * 100)}>
    <div class="fill" style=${{ transform: `scaleX(${shown})` }}></div>
    ${marks.map((at) => html`<i style=${{ left: `${at * 100}%` }}></i>`)}
  </div>`;
}

export const Progress = ({ share, label }) => html`<div class="meter busy" role="progressbar" aria-label=${label}
  aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round((share ?? 0) * 100)}>
  <div class="fill" style=${{ transform: `scaleX(${share ?? 0})` }}></div></div>`;

export const Moment = ({ at }) => html`<time datetime=${at ? new Date(at).toISOString() : ""} title=${utc(at)}>${moment(at)}</time>`;

export const Figure = ({ label, value, children, kind = "" }) => html`<div class="figure ${kind}">
  <dt>${label}</dt><dd>${value}${children && html`<small>${children}</small>`}</dd></div>`;

// A component that is drawn again only if one of its properties is another object.
export function memo(shown) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const before = this.props;
      return Object.keys(next).length !== Object.keys(before).length || Object.keys(next).some((name) => next[name] !== before[name]);
    }
    render() { return shown(this.props); }
  };
}

// Like `memo`, for a whole page: changes in the frame around the page do not draw it again.
export function apart(Shown) {
  return memo((props) => html`<${Shown} ...${props} />`);
}

// A section that opens and closes; its content is drawn only while it is open.
export function Drawer({ title, kind = "panel", open: opened = false, children }) {
  const [open, setOpen] = useState(opened);
  return html`<details class=${kind} open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>${title}</summary>${open && children()}</details>`;
}

// A long name is cut in the middle: its end, with the partition, stays visible.
const TAIL = 11;
export const Name = ({ name }) => (name.length <= TAIL ? name
  : html`<span class="cut" title=${name}><span class="head">${name.slice(0, -TAIL)}</span><span class="tail">${name.slice(-TAIL)}</span></span>`);

// A text of the service: what stands between backticks is code.
const LONG = /([\w.-]{36,})/;
const shortened = (text) => (LONG.test(text) ? text.split(LONG).map((part, index) => (index % 2 ? html`<${Name} name=${part} />` : part)) : text);
export const Said = ({ text = "" }) => html`${text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : shortened(part)))}`;
export const plain = (text) => text?.replaceAll("`", "");

// Draws its children at the end of the document, so that the colours of a header around it do not reach them.
function Elsewhere({ children }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    box.current = document.body.appendChild(document.createElement("div"));
    return () => { render(null, box.current); box.current.remove(); };
  }, []);
  useLayoutEffect(() => { render(children, box.current); });
  return null;
}

// A panel beside the page, where one looks wherever the page is scrolled to; over it on a phone. Escape closes it.
export function Side({ label, kind = "", close, at, children }) {
  const box = useRef(null);
  useEffect(() => { box.current?.focus({ preventScroll: true }); box.current.scrollTop = 0; }, [at]);
  useEffect(() => {
    const out = (event) => { if (event.key === "Escape" && !document.querySelector("dialog[open]")) close(); };
    addEventListener("keydown", out);
    return () => removeEventListener("keydown", out);
  }, []);
  return html`<section class="panel side ${kind}" ref=${box} tabindex="-1" aria-label=${label}>${children}</section>`;
}

// ---- states of a page

export function Loading({ what }) {
  return html`<div class="state" role="status" aria-busy="true"><div class="track"><i></i></div>Reading ${what}…</div>`;
}

export const Failed = ({ problem, what }) => html`<div class="state bad" role="alert">
  <strong>${what} can't be shown.</strong><p><${Said} text=${problem.message} /></p></div>`;

export const Empty = ({ title, children }) => html`<div class="state"><strong>${title}</strong><p>${children}</p></div>`;

// Shows a view's answer; the last answer stays visible while the service does not answer.
export function Shown({ view, what, children }) {
  if (view.data === undefined) return view.problem ? html`<${Failed} problem=${view.problem} what=${what} />` : html`<${Loading} what=${what} />`;
  return html`${view.problem && html`<p class="banner bad" role="status"><${Said} text=${view.problem.message} /> What you see was read <${Moment} at=${view.at} />.</p>`}
    ${children(view.data)}`;
}

// ---- an order: one click opens, the second one gives it. `choices`: several orders about one thing, each with its button.

const COST_AGAIN_MS = 5000;

export function Order({ label, title, kind = "", disabled, why, comment: asks = false, cost, costKey, give, confirm, choices, about, children }) {
  const dialog = useRef(null);
  const [open, setOpen] = useState(false);
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [told, setTold] = useState(null);
  useEffect(() => {
    if (!open) return;
    setProblem("");
    dialog.current.showModal();
  }, [open]);
  // Asked again when the order changes, after a pause in typing, and while the dialog is open, for moves go on meanwhile.
  // An answer for a former order is dropped.
  useEffect(() => {
    let timer = null;
    setTold(null);
    if (!open || !cost) return undefined;
    const ask = () => cost().catch((error) => `What this would do is not known: ${error.message}`).then((text) => {
      if (timer === null) return;
      setTold(text);
      timer = setTimeout(ask, COST_AGAIN_MS);
    });
    timer = setTimeout(ask, costKey === undefined ? 0 : 400);
    return () => { clearTimeout(timer); timer = null; };
  }, [open, costKey, !cost]);
  const close = () => { dialog.current?.close(); setOpen(false); };
  const carryOut = async (event, choice) => {
    event.preventDefault();
    setBusy(true);
    try {
      const done = await give(comment, choice);
      const undone = done?.undone?.length > 0;
      note(plain(done?.text) || "Done.", undone ? "error" : "done", undone);
      setComment("");
      close();
    } catch (error) { setProblem(error.message); }
    setBusy(false);
  };
  const last = choices ? choices.map((each) => html`<button type="button" key=${each.label} class=${each.kind || ""} disabled=${busy} onClick=${(event) => carryOut(event, each.value)}>${each.label}</button>`)
    : html`<button type="submit" class=${kind || "primary"} disabled=${busy}>${busy ? "…" : confirm || label}</button>`;
  return html`<button type="button" class=${kind} disabled=${disabled} title=${disabled ? plain(why) : undefined} aria-label=${about} onClick=${() => setOpen(true)}>${label}</button>
    ${open && html`<${Elsewhere}><dialog ref=${dialog} onClose=${() => setOpen(false)} aria-labelledby="order-title">
      <form onSubmit=${carryOut}>
        <h2 id="order-title">${title || label}</h2>
        <div class="prose">${children}</div>
        ${cost && html`<p class="cost" aria-live="polite"><${Said} text=${told ?? "Asking what this would do…"} /></p>`}
        ${asks && html`<label class="field">Comment <textarea rows="2" maxlength="2000" value=${comment} onInput=${(event) => setComment(event.target.value)}></textarea></label>`}
        ${problem && html`<p class="banner bad" role="alert"><${Said} text=${problem} /></p>`}
        <div class="actions"><button type="button" onClick=${close}>Cancel</button>
          ${last}</div>
      </form></dialog></${Elsewhere}>`}`;
}

// ---- a table of any length: a block of rows is read when it scrolls into view

const BLOCK = 100;
const ROW = 44;

export function LongTable({ label, kind = "", widths, path, query = "", version, columns, row, selected, empty }) {
  const box = useRef(null);
  const [view, setView] = useState({ from: 0, to: 30 });
  const [blocks, setBlocks] = useState({ key: "", found: null, rows: new Map(), problem: null });
  const key = `${path}?${query}`;
  const first = Math.floor(view.from / BLOCK);
  const last = Math.floor(view.to / BLOCK);
  useEffect(() => {
    let gone = false;
    const wanted = Array.from({ length: last - first + 1 }, (_, index) => first + index);
    Promise.all(wanted.map((block) => read(`${path}?${query}&offset=${block * BLOCK}&limit=${BLOCK}`)))
      .then((pages) => {
        if (gone) return;
        setBlocks((before) => {
          const rows = new Map();
          const known = before.key === key ? before.rows : new Map();
          for (const page of pages) page.rows.forEach((each, index) => rows.set(page.offset + index, kept(known.get(page.offset + index), each)));
          return { key, found: pages[0].found, rows, problem: null };
        });
      }, (problem) => gone || setBlocks((before) => ({ ...before, problem })));
    return () => { gone = true; };
  }, [key, first, last, version]);
  const seen = () => {
    if (!box.current) return;
    const top = box.current.scrollTop;
    const from = Math.max(0, Math.floor(top / ROW) - 8);
    const to = Math.ceil((top + box.current.clientHeight) / ROW) + 8;
    if (Math.abs(from - view.from) > 4 || Math.abs(to - view.to) > 4) setView({ from, to });
  };
  useLayoutEffect(seen, [key, blocks.found]);
  const found = blocks.key === key ? blocks.found : null;
  if (found === 0) return empty;
  if (found === null) return blocks.problem ? html`<${Failed} problem=${blocks.problem} what=${label} />` : html`<${Loading} what="rows" />`;
  const shown = [];
  for (let index = view.from; index < Math.min(view.to, found); index += 1) {
    const each = blocks.rows.get(index);
    shown.push(html`<tr key=${index} aria-rowindex=${index + 2} class=${each && selected?.(each) ? "selected" : ""}
      style=${{ top: `${index * ROW}px` }}>${each ? row(each) : html`<td colspan=${columns.length} class="dim">…</td>`}</tr>`);
  }
  return html`<div class="long ${kind} ${widths ? "fitted" : ""}" style=${{ "--widths": widths, "--rows": Math.min(found, 1000) }} ref=${box} onScroll=${seen} tabindex="0" role="region" aria-label="${label}: ${found} rows">
    <table aria-rowcount=${found + 1}><thead><tr>${columns.map((each) => html`<th scope="col" class=${each.kind || ""} title=${each.title}>${each.label}</th>`)}</tr></thead>
    <tbody style=${{ height: `${Math.min(found, 700_000) * ROW}px` }}>${shown}</tbody></table></div>`;
}

// ---- a table that can be sorted

export function SortedTable({ caption, columns, rows: every, initial, keyOf, search = null }) {
  const [by, setBy] = useState(initial);
  const [wanted, setWanted] = useState("");
  const rows = wanted ? every.filter((each) => columns.some((one) => String(one.text?.(each) ?? one.value(each) ?? "").toLowerCase().includes(wanted.toLowerCase()))) : every;
  const column = columns.find((each) => each.label === by.label) || columns[0];
  const sorted = [...rows].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    const order = x === null || x === undefined ? -1 : y === null || y === undefined ? 1 : x < y ? -1 : x > y ? 1 : 0;
    return by.down ? -order : order;
  });
  return html`${search && html`<div class="head filters"><label><span class="hidden">${search}</span><input type="search" placeholder="${search}…" value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></label><span class="dim">${rows.length.toLocaleString("en")} of ${every.length.toLocaleString("en")}</span></div>`}
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}><table class="plain"><caption class="hidden">${caption}</caption>
    <thead><tr>${columns.map((each) => html`<th scope="col" class=${each.kind || ""} aria-sort=${each === column ? (by.down ? "descending" : "ascending") : "none"}>
      <button type="button" class="sort" onClick=${() => setBy({ label: each.label, down: each === column ? !by.down : each.kind === "number" })}>
        ${each.label}<span aria-hidden="true">${each === column ? (by.down ? " ↓" : " ↑") : ""}</span></button></th>`)}</tr></thead>
    <tbody>${sorted.map((each) => html`<tr key=${keyOf(each)}>${columns.map((one) => html`<td class=${one.kind || ""}>${one.show ? one.show(each) : one.value(each)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

export function Ago({ at }) {
  const [now, set] = useState(serviceNow());
  useEffect(() => { const timer = setInterval(() => set(serviceNow()), 1000); return () => clearInterval(timer); }, []);
  return html`<time datetime=${new Date(at).toISOString()} title=${utc(at)}>${duration(Math.max(0, now - at))}</time>`;
}
