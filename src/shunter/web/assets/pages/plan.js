// Plan something by hand: the service keeps it as a proposal, with before and after, and nothing moves before it is approved.
import { html, useState } from "/assets/vendor/htm-preact.js";
import { go, may, note, order, useView } from "/assets/store.js";
import { Shown } from "/assets/parts.js";

const SCOPES = [
  ["rebalance", "Balance bytes and replicas", "Moves replicas until every broker is within its band.", ""],
  ["leaders", "Balance leaders", "Changes preferred leaders alone; nothing is copied.", ""],
  ["fix-racks", "Mend racks", "Replicas of a partition get racks of their own.", ""],
  ["fill", "Fill empty brokers", "Brings replicas to brokers that hold none.", "brokers"],
  ["offline", "Replace offline replicas", "Copies what dead brokers and failed log dirs held, from what lives.", ""],
  ["drain", "Empty brokers once", "Moves everything away. To keep a broker empty, drain it in the overview.", "brokers"],
  ["demote", "Take leadership from brokers once", "Others become the preferred leaders.", "brokers"],
];

export function Plan({ name, who }) {
  const view = useView(`/clusters/${encodeURIComponent(name)}`, name);
  const [scope, setScope] = useState("rebalance");
  const [chosen, setChosen] = useState(new Set());
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [, , , about] = SCOPES.find(([each]) => each === scope);
  const toggle = (id) => { const next = new Set(chosen); if (!next.delete(id)) next.add(id); setChosen(next); };
  const propose = async (event) => {
    event.preventDefault();
    setBusy(true); setProblem("");
    try {
      const done = await order(name, "propose", { about: [scope, ...(about ? [...chosen].sort((a, b) => a - b).map(String) : [])], comment });
      note(done.text);
      go(`/clusters/${encodeURIComponent(name)}/proposals${done.proposal ? `#${done.proposal}` : ""}`);
    } catch (error) { setProblem(error.message); setBusy(false); }
  };
  const missing = about && !chosen.size;
  return html`<div class="title"><h1>Plan</h1></div><${Shown} view=${view} what=${name}>${(page) => html`<form class="panel plan" onSubmit=${propose}>
    <p>The planner makes a plan and keeps it as a proposal. You see it before and after, broker by broker, and nothing moves before it is approved.</p>
    <fieldset><legend>What for</legend><div class="choices">${SCOPES.map(([each, label, told]) => html`<label class="choice"><input type="radio" name="scope" value=${each} checked=${scope === each} onChange=${() => setScope(each)} />
      <span><strong>${label}</strong><small>${told}</small></span></label>`)}</div></fieldset>
    ${about && html`<fieldset><legend>Which brokers</legend><div class="brokers">${page.brokers.map((broker) => html`<label><input type="checkbox" checked=${chosen.has(broker.id)} onChange=${() => toggle(broker.id)} /> ${broker.id}<small class="dim">${broker.live ? "" : " down"}</small></label>`)}</div></fieldset>`}
    <label class="field">Comment <textarea rows="2" maxlength="2000" value=${comment} onInput=${(event) => setComment(event.target.value)}></textarea></label>
    ${problem && html`<p class="banner bad" role="alert">${problem}</p>`}
    <div class="actions">${missing && html`<span class="dim">Choose a broker.</span>`}${!may(who, "operate") && html`<span class="dim">You may only look.</span>`}
      <button class="primary" disabled=${busy || missing || !may(who, "operate")}>${busy ? "Planning…" : "Plan and propose"}</button></div></form>`}</${Shown}>`;
}
