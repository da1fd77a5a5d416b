// The frame around every page: navigation, the state of the connection, the signed-in person, the kill switch.
import { Component, html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import {
  connection, decoded, forget, go, loadSession, notes, place, session, returned, signIn, signInAtIssuer, signInFromAddress, signOut, startEvents, useFleet, useWatched,
} from "./store.js";
import { Empty, Link, Loading, Moment, Said, apart } from "./parts.js";
import { KillSwitch } from "./kill.js";
import { zone } from "./words.js";
import { Fleet } from "./pages/fleet.js";
import { Cluster } from "./pages/cluster.js";
import { Moves } from "./pages/moves.js";
import { Plan } from "./pages/plan.js";
import { Reports } from "./pages/reports.js";
import { Proposals } from "./pages/proposals.js";
import { Topics } from "./pages/topics.js";
import { Timeline } from "./pages/timeline.js";

const ICON = new URL("./icon.svg", import.meta.url).href;
const TABS = [["", "Now"], ["moves", "Moves"], ["proposals", "Proposals"], ["topics", "Topics"], ["plan", "Plan"], ["timeline", "Timeline"], ["reports", "Reports"]];
const PAGES = { "": apart(Cluster), moves: apart(Moves), proposals: apart(Proposals), topics: apart(Topics), timeline: apart(Timeline), plan: apart(Plan), reports: apart(Reports) };

function Theme() {
  const [theme, set] = useState(document.documentElement.dataset.theme || "system");
  const next = { system: "light", light: "dark", dark: "system" }[theme];
  const choose = () => {
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { if (next === "system") localStorage.removeItem("shunter-theme"); else localStorage.setItem("shunter-theme", next); } catch { /* The choice is not kept. */ }
    set(next);
    dispatchEvent(new Event("shunter-theme"));
  };
  return html`<button type="button" class="quiet" onClick=${choose} aria-label="Colours: ${theme}. Change to ${next}." title="Colours: ${theme}">
    <span aria-hidden="true">${{ system: "◐", light: "☀", dark: "☾" }[theme]}</span></button>`;
}

function Live() {
  const { live, since, first } = useWatched(connection);
  if (live) return html`<span class="live on" role="status"><i aria-hidden="true"></i><span class="told">live</span></span>`;
  if (first) return html`<span class="live" role="status"><i aria-hidden="true"></i><span class="told">connecting…</span></span>`;
  return html`<span class="live off" role="status"><i aria-hidden="true"></i><span class="told">disconnected since <${Moment} at=${since} /></span></span>`;
}

function Who({ who }) {
  if (!who?.role) return null;
  const kind = who.role === "read" ? "still" : "good";
  return html`<span class="who"><span class="chip ${kind}">${who.role === "read" ? "read-only" : who.role}</span>
    ${who.by === "session" && html`<button type="button" class="quiet" onClick=${() => signOut()}>Sign out ${who.name}</button>`}</span>`;
}

function Paused({ paused, where, but = [] }) {
  if (!paused) return null;
  return html`<p class="banner watch" role="status"><strong>${where} is paused</strong> by ${paused.who} since <${Moment} at=${paused.at_ms} />${paused.comment && html`: “${paused.comment}”`}.${paused.unsent && " This host alone has that: it is in force in a cluster once a broker takes it and this service drives it."}
    ${but.length ? ` Not paused, because another process drives them: ${but.join(", ")}.` : ""}</p>`;
}

// What a narrow screen has no room for in the header: behind one button there, beside the others elsewhere.
function More({ children }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="quiet menu" aria-expanded=${open} aria-label="Account and colours" onClick=${() => setOpen(!open)}>⋯</button><span class="more ${open ? "open" : ""}">${children}</span>`;
}

const SOON_MS = 14 * 86_400_000;

function Expiry({ at }) {
  if (!at || at - Date.now() > SOON_MS) return null;
  return html`<p class="banner watch" role="status"><strong>Your token expires</strong> on <${Moment} at=${at} />. <code>shunter token add</code> makes a new one.</p>`;
}

function Header({ who, name, fleet }) {
  const path = useWatched(place).pathname;
  const row = fleet.data?.clusters.find((each) => each.name === name);
  useEffect(() => { document.querySelector("header nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" }); }, [path]);
  const tally = { moves: row?.moves_open, proposals: row?.proposals_waiting };
  return html`<header><div class="bar">
      <${Link} to="/" class="brand"><img src=${ICON} alt="" width="28" height="28" /> <span class="told">Shunter</span></${Link}>
      ${name && fleet.data && html`<label class="pick"><span class="hidden">Cluster</span>
        <select value=${name} onChange=${(event) => go(`/clusters/${encodeURIComponent(event.target.value)}`)}>
          ${fleet.data.clusters.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select></label>`}
      <span class="spring"></span>
      <${Live} />
      ${who?.role && fleet.data && html`<${KillSwitch} situation=${fleet.data} paused=${fleet.data.paused} who=${who} />`}
      <${More}><${Who} who=${who} /><${Theme} /></${More}>
    </div>
    ${name && html`<nav aria-label="Pages of ${name}">${TABS.map(([tab, label]) => {
      const to = `/clusters/${encodeURIComponent(name)}${tab && `/${tab}`}`;
      return html`<${Link} to=${to} aria-current=${path === to ? "page" : undefined}>${label}${tally[tab] ? html` <b>${tally[tab].toLocaleString("en")}</b>` : ""}</${Link}>`;
    })}</nav>`}</header>`;
}

// Also with a token in the address: whoever signs in here should know before the token is sent.
const Unencrypted = () => !isSecureContext && html`<p class="banner bad" role="alert"><strong>This connection is not encrypted.</strong>
  Anybody on the way can read the token and use it. Open this page by https, or on the host of the service.</p>`;

function SignIn({ why, refused = "", signOn = "" }) {
  const [problem, setProblem] = useState(refused && `The token in the address was refused: ${refused}`);
  const field = useRef(null);
  const submit = async (event) => {
    event.preventDefault();
    try { await signIn(field.current.value.trim()); } catch (error) { setProblem(error.message); }
  };
  return html`<main id="main" class="narrow" tabindex="-1"><section class="panel"><h1>Sign in</h1>
    ${signOn ? html`<p>Without an account there, use a token.</p>` : html`<p>This service needs a token. Its operator makes one with <code>shunter token add NAME --tokens FILE</code>.</p>`}
    <${Unencrypted} />
    ${signOn && html`<div class="actions"><button type="button" class="primary" onClick=${signInAtIssuer}>Sign in with ${signOn}</button></div>`}
    ${why && html`<p class="banner watch" role="status">You were signed out: ${why}.</p>`}
    <form onSubmit=${submit}><label class="field">Token <input ref=${field} type="password" autocomplete="off" spellcheck="false" required autofocus=${!signOn} /></label>
      ${problem && html`<p class="banner bad" role="alert"><${Said} text=${problem} /></p>`}
      <div class="actions"><button class=${signOn ? "" : "primary"}>Sign in${signOn && " with a token"}</button></div></form></section></main>`;
}

const Notes = () => html`<div class="notes" role="status" aria-live="polite">${useWatched(notes).map((each) => html`<p key=${each.id} class=${each.kind}>
  ${each.text}<button type="button" class="quiet" aria-label="Close this note" onClick=${() => forget(each.id)}>×</button></p>`)}</div>`;

class Fence extends Component {
  constructor() { super(); this.state = { error: null }; }
  static getDerivedStateFromError(error) { return { error }; }
  componentDidUpdate(before) { if (before.at !== this.props.at && this.state.error) this.setState({ error: null }); }
  render() {
    if (!this.state.error) return this.props.children;
    return html`<div class="state bad" role="alert"><strong>This page failed.</strong><p>${String(this.state.error.message)}</p>
      <p>The other pages still work. <code>shunter status</code> shows the same.</p></div>`;
  }
}

function Page({ who, fleet }) {
  const here = useWatched(place);
  const [, root, raw, tab = "", ...more] = here.pathname.split("/");
  const main = useRef(null);
  const started = useRef(false);
  const name = root === "clusters" ? decoded(raw || "") : "";
  const shown = PAGES[tab];
  useEffect(() => {
    document.title = name ? `${name}${tab && ` · ${tab}`} · Shunter` : "Shunter";
    if (started.current) main.current?.focus();
    started.current = true;
  }, [here.pathname]);
  let content;
  if (here.pathname === "/" && !here.hash.startsWith("#/")) content = html`<${Fleet} fleet=${fleet} who=${who} />`;
  else if (here.pathname === "/timeline") content = html`<${Timeline} name="" />`;
  else if (!name || !shown || more.length) content = html`<${Empty} title="There is no such page">Go to <${Link} to="/">the fleet</${Link}>.</${Empty}>`;
  else content = html`<${shown} name=${name} who=${who} situation=${fleet.data?.clusters.find((each) => each.name === name)?.situation} key=${name} />`;
  const row = fleet.data?.clusters.find((each) => each.name === name);
  return html`<${Header} who=${who} name=${name} fleet=${fleet} />
    <main id="main" ref=${main} tabindex="-1">
      <${Expiry} at=${who.expires_ms} />
      <${Paused} paused=${fleet.data?.paused} where=${fleet.data?.not_paused?.length ? "The fleet" : "The whole fleet"} but=${fleet.data?.not_paused} />${!fleet.data?.paused && html`<${Paused} paused=${row?.paused} where=${name} />`}
      ${fleet.data?.store_trouble && html`<p class="banner bad" role="alert"><${Said} text=${fleet.data.store_trouble} /></p>`}
      ${fleet.data?.policy_trouble && html`<p class="banner bad" role="alert"><${Said} text=${fleet.data.policy_trouble} /></p>`}
      <${Fence} at=${here.href}>${content}</${Fence}></main>
    <footer class="dim">Times are of the service's clock, in the zone of this browser: ${zone()}. Sentences of the service say UTC.</footer>`;
}

function Inside({ who }) {
  const fleet = useFleet();
  useEffect(() => { startEvents(); }, []);
  return html`<${Page} who=${who} fleet=${fleet} />`;
}

function App() {
  const who = useWatched(session);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) history.replaceState(null, "", location.pathname + location.search);
    loadSession().then(() => (token ? signInFromAddress(token) : returned())).catch(setProblem);
  }, []);
  if (!who) return problem
    ? html`<main id="main"><div class="state bad" role="alert"><strong>${problem.status === 403 ? "You have no access." : "The service does not answer."}</strong><p>${problem.message}</p>
        <button class="primary" onClick=${() => location.reload()}>Try again</button></div></main>`
    : html`<main id="main"><${Loading} what="who you are" /></main>`;
  return html`<a class="skip" href="#main">To the content</a>
    ${who.role ? html`<${Inside} who=${who} />` : html`<${Header} who=${who} fleet=${{}} /><${SignIn} signOn=${who.sign_on} why=${who.why} refused=${who.refused} key=${who.refused} />`}<${Notes} />`;
}

const box = document.getElementById("page");
box.replaceChildren();
render(html`<${App} />`, box);
