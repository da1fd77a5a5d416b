// The state of the page: the signed-in person, the API's answers, and the connection for events.
import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

// ---- addresses: the page may be served below a path of a proxy. This file is assets/DIGEST/store.js below that path.

const ROOT = new URL("../../", import.meta.url).pathname;
export const href = (path) => (path.startsWith("/") ? ROOT + path.slice(1) : path);

// The address, as if the page were served at the root.
function here() {
  const url = new URL(location.href);
  url.pathname = `/${url.pathname.slice(ROOT.length)}`;
  return url;
}

// A part of an address; "" if it can't be decoded, as in /clusters/%E0%A4%A.
export function decoded(part) {
  try { return decodeURIComponent(part); } catch { return ""; }
}

// crypto.randomUUID is missing over plain HTTP from another host.
const unique = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("");

// ---- a value that components can watch

function watched(first) {
  let value = first;
  const watchers = new Set();
  return {
    get: () => value,
    set(next) { value = next; for (const each of [...watchers]) each(value); },
    watch(watcher) { watchers.add(watcher); return () => watchers.delete(watcher); },
  };
}

export function useWatched(source) {
  const [value, set] = useState(source.get());
  useEffect(() => { set(source.get()); return source.watch(set); }, [source]);
  return value;
}

export const session = watched(null);
export const connection = watched({ live: false, since: Date.now(), first: true });
export const notes = watched([]);

// The service's clock, by which the page tells ages and its own times: a browser's clock may be wrong by minutes.
let ahead = 0;
export const serviceNow = () => Date.now() + ahead;

// ---- the API

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `HTTP ${status}`);
    this.status = status;
    this.kind = (document.type || "").replace("urn:shunter:", "");
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    const early = options.method ? null : await window.early?.[path]; // theme.js has asked already.
    if (window.early) delete window.early[path];
    answer = early ?? await fetch(href(`/api/v1${path}`), { credentials: "same-origin", ...options });
  } catch {
    throw new Problem(0, { detail: "The service does not answer.", type: "urn:shunter:unreachable" });
  }
  const told = Date.parse(answer.headers.get("date")) - Date.now(); // To the second, and later by the way of the answer.
  if (Math.abs(told - ahead) > 5000) ahead = Math.abs(told) > 5000 ? told : 0;
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  let document = {};
  try { document = await answer.json(); } catch { /* Whoever answered is not the service: a proxy perhaps. */ }
  if (answer.status === 401 && path !== "/session") session.set({ ...session.get(), name: "", role: null, why: document.detail });
  throw new Problem(answer.status, document);
}

export const read = (path) => ask(path);

function change(method, path, body, key) {
  const headers = { "content-type": "application/json", "x-shunter-csrf": session.get()?.csrf || "" };
  if (key) headers["idempotency-key"] = key;
  return ask(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
}

// A click that is repeated because the answer was lost is one order: the key stays the same.
// `body`: the fields of the order, under the names of the API.
export async function order(cluster, verb, body) {
  const path = cluster ? `/clusters/${encodeURIComponent(cluster)}/${verb}` : `/fleet/${verb}`;
  const key = unique();
  const name = session.get()?.name;
  try {
    return await change("POST", path, body, key);
  } catch (problem) {
    // Another tab may have signed in as somebody else, which this tab does not know yet.
    if (problem.kind === "csrf") await loadSession();
    else if (problem.status !== 0) throw problem;
    if (session.get()?.name !== name) throw new Problem(403, { detail: `You are ${session.get()?.name || "not signed in"} now, no longer ${name}: nothing was done.` });
    return change("POST", path, body, key);
  }
}

// A dry run: it changes nothing, so it needs no key.
export const sketch = (cluster, body) => change("POST", `/clusters/${encodeURIComponent(cluster)}/sketch`, body);
// What an order would do now, in the service's words. `cluster` "": the whole fleet.
export async function preview(cluster, verb, partitions) {
  const path = cluster ? `/clusters/${encodeURIComponent(cluster)}` : "/fleet";
  return `${(await change("POST", `${path}/preview`, { verb, partitions })).text}.`;
}

// The reason of a sign-out is shown until the next sign-in. The event may come before an answer gives the reason.
export async function loadSession() {
  const now = await ask("/session"), before = session.get();
  session.set({ ...now, why: now.role ? "" : before?.why || (before?.role ? "the session or its token has ended" : "") });
}
// A token in the address: it signs in, or the page says why it does not.
export async function signInFromAddress(token) {
  const before = session.get();
  if (!before.tokens) return;
  try {
    await signIn(token);
  } catch (problem) {
    if (before.role) note(`The token in the address was refused (${problem.message}). You are still ${before.name}.`, "error");
    else session.set({ ...before, refused: problem.message });
  }
}
// The issuer's page sends people back to the root, where `returned` brings them to the view that they came from.
export function signInAtIssuer() {
  try { sessionStorage.setItem("shunter-return", here().pathname + location.search); } catch { /* Then it is the root. */ }
  location.assign(href("/api/v1/login"));
}
export function returned() {
  try {
    const path = sessionStorage.getItem("shunter-return");
    sessionStorage.removeItem("shunter-return");
    if (path && session.get()?.role) go(path);
  } catch { /* Storage is forbidden. */ }
}
export async function signIn(token) { session.set(await change("POST", "/session", { token })); }
export async function signOut() { await change("DELETE", "/session"); session.set({ ...session.get(), role: null, why: "" }); await loadSession(); }

const RANK = { read: 1, operate: 2, administer: 3 };
export const may = (who, role) => Boolean(who?.role) && RANK[who.role] >= RANK[role];

// `stays`: until a person closes it.
export function note(text, kind = "done", stays = false) {
  const made = { text, kind, id: unique() };
  notes.set([...notes.get().slice(-2), made]);
  if (!stays) setTimeout(() => forget(made.id), kind === "error" ? 12_000 : 6_000);
}
export const forget = (id) => notes.set(notes.get().filter((each) => each.id !== id));

// ---- events: one connection for all tabs of a browser, because browsers allow six for a host

const listeners = new Set();
export function onEvent(listener) { listeners.add(listener); return () => listeners.delete(listener); }

function tell(event) { for (const listener of [...listeners]) listener(event); }

const KINDS = ["hello", "reset", "cluster", "fleet", "signed-out"];
const SILENT_AFTER_MS = 40_000;

let started = false;

// Once for a page, however often a person signs in on it.
export function startEvents() {
  if (started) return;
  started = true;
  const channel = new BroadcastChannel(`shunter-events ${ROOT}`);
  channel.onmessage = ({ data }) => {
    if (data.ask) { if (following) channel.postMessage({ status: connection.get() }); return; }
    if (data.status) setLive(data.status.live, data.status.since);
    else tell(data);
  };
  onEvent(({ kind }) => { if (kind === "signed-out") loadSession().catch(() => {}); });
  let following = false;
  const setLive = (live, since = serviceNow()) => {
    const now = connection.get();
    if (now.live !== live) connection.set({ live, since, first: now.first && !live });
  };
  const share = (event) => { tell(event); channel.postMessage(event); };
  const status = (live) => { setLive(live); channel.postMessage({ status: connection.get() }); };
  const follow = () => {
    following = true;
    let source = null;
    let heard = Date.now();
    const open = () => {
      source = new EventSource(href("/api/v1/events"));
      for (const kind of KINDS) source.addEventListener(kind, ({ data }) => {
        heard = Date.now();
        status(true);
        share({ kind, data: JSON.parse(data) });
      });
      source.onopen = () => { heard = Date.now(); };
      source.onerror = () => {
        status(false);
        // The browser connects again by itself unless the service answered with an error.
        if (source.readyState === EventSource.CLOSED) setTimeout(() => { loadSession().catch(() => {}); open(); }, 3000);
      };
    };
    open();
    return new Promise(() => {}); // The lock is held until this tab is closed.
  };
  if (navigator.locks) navigator.locks.request(`shunter-events ${ROOT}`, follow);
  else follow();
  channel.postMessage({ ask: true });
}

// ---- views that keep up

// A new answer, with the former objects where they are equal, so that components that show them are not drawn again.
export function kept(before, after) {
  if (before === after || typeof before !== "object" || typeof after !== "object" || before === null || after === null) return after;
  if (Array.isArray(before) !== Array.isArray(after)) return after;
  const names = Object.keys(after);
  let same = names.length === Object.keys(before).length;
  for (const name of names) {
    after[name] = kept(before[name], after[name]);
    same &&= after[name] === before[name];
  }
  return same ? before : after;
}

const LEAST_MS = 1000;

// The API's answer for a path, read again when an event concerns it: { data, problem, loading, at }. `still`: read once.
export function useView(path, cluster = "", still = false) {
  const [state, set] = useState({ path, data: undefined, problem: null, loading: true, at: 0 });
  const current = useRef({ path, timer: 0, last: 0, busy: false, again: false });
  useEffect(() => {
    const now = { path, timer: 0, last: 0, busy: false, again: false, gone: false };
    current.current = now;
    if (path === null) return undefined;
    const load = async () => {
      now.timer = 0;
      if (now.busy) { now.again = true; return; }
      now.busy = true;
      now.last = Date.now();
      try {
        const data = await read(path);
        if (!now.gone) set((before) => ({ path, data: before.path === path ? kept(before.data, data) : data, problem: null, loading: false, at: serviceNow() }));
      } catch (problem) {
        if (!now.gone) set((before) => ({ ...(before.path === path ? before : { data: undefined, at: 0 }), path, problem, loading: false }));
      }
      now.busy = false;
      if (now.again && !now.gone) { now.again = false; soon(); }
    };
    const soon = () => {
      if (now.timer || document.hidden) { now.stale = true; return; }
      now.timer = setTimeout(load, Math.max(0, now.last + LEAST_MS - Date.now()));
    };
    const shown = () => { if (!document.hidden && now.stale) { now.stale = false; soon(); } };
    load();
    const off = onEvent(({ kind, data }) => {
      if (still) return;
      if (kind === "reset" || kind === "hello" || kind === "fleet" || !cluster || data.row?.name === cluster) soon();
    });
    document.addEventListener("visibilitychange", shown);
    return () => { now.gone = true; clearTimeout(now.timer); off(); document.removeEventListener("visibilitychange", shown); };
  }, [path, cluster, still]);
  return state.path === path ? state : { path, data: undefined, problem: null, loading: true, at: 0 };
}

// The API's answer for a path, read every few seconds while the page is visible: for data without events.
export function usePolled(path, everyMs = 5000) {
  const [state, set] = useState({ data: undefined, problem: null, at: 0 });
  useEffect(() => {
    let gone = false;
    let timer = 0;
    const load = async () => {
      clearTimeout(timer);
      if (!document.hidden) {
        try {
          const data = await read(path);
          if (!gone) set((before) => ({ data: kept(before.data, data), problem: null, at: serviceNow() }));
        } catch (problem) { if (!gone) set((before) => ({ ...before, problem })); }
      }
      if (!gone) timer = setTimeout(load, everyMs);
    };
    const shown = () => { if (!document.hidden) load(); };
    load();
    document.addEventListener("visibilitychange", shown);
    return () => { gone = true; clearTimeout(timer); document.removeEventListener("visibilitychange", shown); };
  }, [path, everyMs]);
  return state;
}

// The fleet: read once, then updated from events, which carry the changed row.
export function useFleet() {
  const [state, set] = useState({ data: undefined, problem: null, loading: true, at: 0 });
  useEffect(() => {
    let gone = false;
    let newer = new Map(); // Rows that came while the fleet was being read, by cluster.
    let asked = 0;
    const row = (data, event) => (event.version <= data.version ? data
      : { ...data, ...event.fleet, version: event.version, clusters: data.clusters.map((each) => (each.name === event.row.name ? kept(each, event.row) : each)) });
    const load = async () => {
      const mine = asked += 1;
      newer = new Map();
      try {
        const answer = await ask("/fleet");
        if (gone || mine !== asked) return;
        const whole = [...newer.values()].sort((a, b) => a.version - b.version).reduce(row, answer);
        set((before) => ({ data: kept(before.data, whole), problem: null, loading: false, at: serviceNow() }));
      } catch (problem) {
        if (!gone && mine === asked) set((before) => ({ ...before, problem, loading: false }));
      }
    };
    load();
    const off = onEvent(({ kind, data }) => {
      if (kind === "hello" || kind === "reset" || kind === "fleet") load();
      else if (kind === "cluster") {
        newer.set(data.row.name, data);
        set((before) => (before.data ? { ...before, data: row(before.data, data), at: serviceNow() } : before));
      }
    });
    return () => { gone = true; off(); };
  }, []);
  return state;
}

// ---- the address, which says what the page shows

export const place = watched(here());
addEventListener("popstate", () => place.set(here()));

export function go(path) {
  history.pushState(null, "", href(path));
  if (!location.hash) scrollTo(0, 0);
  place.set(here());
}

// Query parts that are a step of the browser's history, so that Back closes what was opened. Search and zoom are no steps.
const STEPS = ["broker", "move", "execution", "past", "plan", "report", "ended", "view", "topic", "partition"];

// Change parts of the query: a link to this view then reproduces it.
export function show(changes) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  const before = place.get().searchParams;
  if (STEPS.some((name) => url.searchParams.get(name) !== before.get(name))) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  place.set(here());
}
