// The wizard: choose a goal, see the brokers before and after the plan, change the plan and see it again, propose it.
// Nothing moves before somebody approves the proposal.
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { go, may, note, order, place, read, sketch, useView } from "../store.js";
import { taken } from "../situation.js";
import { Name, Said, Shown, plain } from "../parts.js";
import { BeforeAfter, Cost } from "./proposals.js";
import { number, words } from "../words.js";

const SCOPES = [
  ["rebalance", "Balance bytes and replicas", "Moves replicas until every broker is within its thresholds.", ""],
  ["offline", "Restore offline replicas", "Replicas on dead brokers and failed log dirs get other brokers.", ""],
  ["leaders", "Balance leaders", "Changes only preferred leaders; nothing is copied.", ""],
  ["fix-racks", "Spread replicas over racks", "Each replica of a partition gets a rack of its own.", ""],
  ["fill", "Fill brokers", "Brings replicas to brokers that were added.", "brokers"],
  ["drain", "Empty brokers once", "Moves all replicas away. To keep a broker empty, drain it under Now.", "brokers"],
  ["demote", "Take leadership from brokers once", "Other brokers become the preferred leaders.", "brokers"],
  ["replace", "Replace brokers", "The new broker gets all replicas of the old one. OLD=NEW, as 3=7; separate several with spaces.", "pairs"],
  ["disks", "Balance log dirs within brokers", "Copies replicas from one log dir of a broker to another. If you choose no broker: all brokers with several log dirs.", "some brokers"],
  ["move", "Pick by hand", "Topics and partitions that you choose go to brokers that you choose.", "picked"],
  ["topics", "Change a topic's replication", "Topics, separated by spaces, and the number of replicas that each is to have.", "topics"],
];

// Rules narrow the policy. `shunter propose` takes the same.
const RULES = [
  ["band_percent", "Threshold, %", "How far from its share a broker may be", { type: "number", min: "0.1", max: "100", step: "any" }],
  ["most_moves", "Most replicas to copy", "", { type: "number", min: "1", step: "1" }],
  ["most_gigabytes", "Most gigabytes to copy", "", { type: "number", min: "0", step: "any" }],
  ["without_brokers", "Without brokers", "No replica comes to these brokers or leaves them", { type: "text", placeholder: "3,7" }],
  ["without_topics", "Without topics", "Names, or patterns with * and ?", { type: "text", placeholder: "logs-*,audit" }],
];
const valueOf = (rule, text) => (rule === "without_topics" ? listed(text) : rule === "without_brokers" ? listed(text).map(Number) : Number(text));
const fieldsOf = (rules) => Object.fromEntries(RULES.filter(([rule]) => rules[rule]?.trim()).map(([rule]) => [rule, valueOf(rule, rules[rule])]));
// What a plan is about, in the fields of the order.
const NAMING = {
  brokers: (items) => ({ brokers: items.map(Number) }),
  "some brokers": (items) => ({ brokers: items.map(Number) }),
  pairs: (items) => ({ replacements: Object.fromEntries(items.map((each) => each.split("=")).map(([old, by]) => [old, Number(by)])) }),
  picked: (items, to) => ({ partitions: items, to: to.map(Number) }),
  topics: (items) => ({ topics: items }),
  "": () => ({}),
};

function Rules({ rules, setRules }) {
  return html`<fieldset><legend>Rules <small class="dim">empty: the policy's value; a rule can only narrow the policy</small></legend><div class="rules">${RULES.map(([rule, label, told, input]) => html`<label class="field" key=${rule}><span>${label}</span>
    <input ...${input} value=${rules[rule] || ""} title=${told} onInput=${(event) => setRules({ ...rules, [rule]: event.target.value })} /></label>`)}</div></fieldset>`;
}

const FOUND = 6;

// A search for topics and partitions, and those that were picked.
function Picked({ name, picked, setPicked }) {
  const [search, setSearch] = useState("");
  const [found, setFound] = useState([]);
  useEffect(() => {
    let gone = false;
    const ask = async () => {
      const query = new URLSearchParams({ search: search.trim(), limit: FOUND });
      const [topics, partitions] = await Promise.all(["topics", "partitions"].map((what) => read(`/clusters/${encodeURIComponent(name)}/${what}?${query}`)));
      if (!gone) setFound([...topics.rows.map((row) => [row.name, `${number(row.partitions)} partitions`]), ...partitions.rows.map((row) => [row.partition, `on ${row.replicas.join(", ")}`])]);
    };
    const timer = setTimeout(() => (search.trim() ? ask().catch(() => {}) : setFound([])), 250);
    return () => { gone = true; clearTimeout(timer); };
  }, [search]);
  const add = (each) => setPicked(picked.includes(each) ? picked : [...picked, each]);
  const shown = picked.slice(0, 40);
  return html`<fieldset><legend>Topics and partitions</legend>${picked.length > 0 && html`<div class="chips">${shown.map((each) => html`<span class="chip" key=${each}><${Name} name=${each} /> <button type="button" class="quiet" aria-label="Remove ${each}" onClick=${() => setPicked(picked.filter((one) => one !== each))}>×</button></span>`)}
      ${picked.length > shown.length && html`<span class="dim">and ${number(picked.length - shown.length)} more</span>`}</div>`}
    <label class="field"><span class="hidden">Search for a topic or a partition</span><input type="search" placeholder="Topic, or partition as orders-3…" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label>
    ${found.length > 0 && html`<ul class="finds">${found.map(([each, told]) => html`<li key=${each}><button type="button" disabled=${picked.includes(each)} onClick=${() => add(each)}>+ <${Name} name=${each} /></button> <span class="dim">${told}</span></li>`)}</ul>`}</fieldset>`;
}

function Brokers({ brokers, chosen, toggle, none, legend }) {
  const [search, setSearch] = useState("");
  const fits = (broker) => !search || String(broker.id).startsWith(search.trim()) || (broker.rack ?? "").includes(search.trim());
  return html`<fieldset><legend>${legend} ${chosen.size > 0 && html`<small class="dim">${number(chosen.size)} chosen</small>`}</legend>
    ${brokers.length > 24 && html`<label class="field"><span class="hidden">Search for a broker</span><input type="search" placeholder="Broker or rack…" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label>`}
    <div class="brokers">${brokers.filter(fits).map((broker) => html`<label key=${broker.id}><input type="checkbox" checked=${chosen.has(broker.id)} onChange=${() => toggle(broker.id)} /> ${broker.id}<small class="dim">${broker.live ? "" : " down"}</small></label>`)}</div>
    <button type="button" class="quiet" disabled=${!chosen.size} onClick=${none}>Choose none</button></fieldset>`;
}

function Sketch({ view, changed }) {
  const { proposal: each } = view;
  return html`<section class="panel proposal ${changed ? "old" : ""}" aria-live="polite"><div class="head"><h2>${words(each.scope)} <small>${changed ? "made before your last change" : "dry run: nothing is kept yet"}</small></h2></div>
    <${Cost} view=${view} />
    ${each.held_back.length > 0 && html`<p class="banner watch">It would be blocked now: <${Said} text=${each.held_back.join("; ")} /></p>`}
    ${each.undone.length > 0 && html`<details><summary>What the plan leaves undone (${each.undone.length})</summary><ul>${each.undone.map((why) => html`<li><${Said} text=${why} /></li>`)}</ul></details>`}
    ${each.brokers.length > 0 && html`<${BeforeAfter} brokers=${each.brokers} id=${each.id} />`}</section>`;
}

const listed = (text) => text.split(/[\s,]+/).filter(Boolean);

export function Plan({ name, situation, who }) {
  const view = useView(`/clusters/${encodeURIComponent(name)}`, name);
  const [start] = useState(() => place.get().searchParams);
  const [scope, setScope] = useState(SCOPES.some(([each]) => each === start.get("goal")) ? start.get("goal") : "rebalance");
  const [picked, setPicked] = useState(() => start.getAll("pick"));
  const [chosen, setChosen] = useState(() => new Set((start.get("to") ?? "").split(",").filter(Boolean).map(Number)));
  const [text, setText] = useState("");
  const [replicas, setReplicas] = useState("3");
  const [rules, setRules] = useState({});
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState("");
  const [seen, setSeen] = useState(null);
  const [, , , takes] = SCOPES.find(([each]) => each === scope);
  const ofBrokers = takes === "brokers" || takes === "some brokers" || takes === "picked";
  const brokers = [...chosen].sort((a, b) => a - b);
  const items = takes === "picked" ? picked : ofBrokers ? brokers : takes ? listed(text) : [];
  const asked = { scope, ...NAMING[takes](items, brokers), ...(takes === "topics" && { replicas: Number(replicas) }), ...fieldsOf(rules) };
  const fresh = seen && seen.asked === JSON.stringify(asked);
  const missing = takes === "picked" ? !picked.length || !brokers.length : takes && takes !== "some brokers" && !items.length;
  const off = Boolean(busy || missing || !may(who, "operate"));
  const proposing = taken("propose", situation, who);
  const toggle = (id) => { const next = new Set(chosen); if (!next.delete(id)) next.add(id); setChosen(next); };
  const attempt = async (what, work) => {
    setBusy(what); setProblem("");
    try { await work(); } catch (error) { setProblem(error.message); }
    setBusy("");
  };
  const look = (event) => {
    event.preventDefault();
    attempt("look", async () => setSeen({ asked: JSON.stringify(asked), view: await sketch(name, asked), at: Date.now() }));
  };
  const propose = (approves) => attempt("propose", async () => {
    const done = await order(name, "propose", { ...asked, comment });
    note(plain(done.text));
    // What is proposed stays proposed if its approval is refused.
    if (approves) await order(name, "approve", { proposal: done.proposal, comment }).then((told) => note(plain(told.text)), (error) => note(error.message, "error"));
    go(`/clusters/${encodeURIComponent(name)}/proposals`);
  });
  return html`<div class="title"><h1>Plan</h1></div><${Shown} view=${view} what=${name}>${(page) => html`<form class="panel plan" onSubmit=${look}>
    <details open=${!start.has("pick")}><summary class="goal">Goal: ${SCOPES.find(([each]) => each === scope)[1]}</summary><div class="choices" role="radiogroup" aria-label="Goal">${SCOPES.map(([each, label, told]) => html`<label class="choice"><input type="radio" name="scope" value=${each} checked=${scope === each} onChange=${() => setScope(each)} />
      <span><strong>${label}</strong><small>${told}</small></span></label>`)}</div></details>
    ${takes === "picked" && html`<${Picked} name=${name} picked=${picked} setPicked=${setPicked} />`}
    ${ofBrokers && html`<${Brokers} brokers=${page.brokers} chosen=${chosen} toggle=${toggle} none=${() => setChosen(new Set())} legend=${takes === "picked" ? "Brokers that may hold them" : "Which brokers"} />`}
    ${(takes === "pairs" || takes === "topics") && html`<label class="field">${takes === "pairs" ? "OLD=NEW" : "Topics"} <input type="text" value=${text} placeholder=${takes === "pairs" ? "3=7" : "orders payments"} onInput=${(event) => setText(event.target.value)} /></label>`}
    ${takes === "topics" && html`<label class="field">Replicas of each <input type="number" min="1" max="99" value=${replicas} onInput=${(event) => setReplicas(event.target.value)} /></label>`}
    <${Rules} rules=${rules} setRules=${setRules} />
    ${problem && html`<p class="banner bad" role="alert"><${Said} text=${problem} /></p>`}
    <div class="actions">${missing && html`<span class="dim">${takes === "picked" && !picked.length ? "Choose topics or partitions." : ofBrokers ? "Choose brokers." : takes === "pairs" ? "Name the brokers." : "Name the topics."}</span>`}${!may(who, "operate") && html`<span class="dim">You may only look.</span>`}
      <button class=${fresh ? "" : "primary"} disabled=${off}>${busy === "look" ? "Planning…" : seen ? "See it again" : "See the plan"}</button></div></form>
    ${seen && html`<${Sketch} key=${seen.at} view=${seen.view} changed=${!fresh} />
      <section class="panel"><label class="field">Comment <textarea rows="2" maxlength="2000" value=${comment} onInput=${(event) => setComment(event.target.value)}></textarea></label>
      <div class="actions"><span class="dim">The plan is made again by the newest observation, and nothing moves before somebody approves it.</span>
      <button type="button" class="primary" disabled=${off || !fresh || proposing.disabled} title=${proposing.why} onClick=${() => propose(false)}>${busy === "propose" ? "Planning…" : "Propose it"}</button>
      <button type="button" disabled=${off || !fresh || proposing.disabled} title=${proposing.why} onClick=${() => propose(true)}>Propose and approve</button></div></section>`}`}</${Shown}>`;
}
