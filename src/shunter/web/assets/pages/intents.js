// The desired state, which people give and which holds until they are withdrawn: the buttons of a broker, and the list of all intents.
import { html, useState } from "../vendor/htm-preact.js";
import { order, sketch } from "../store.js";
import { Moment, Order } from "../parts.js";
import { taken } from "../situation.js";
import { bytes, count, duration, number, words } from "../words.js";

const NUMBER = /^\d+$/;

// What the next observation would propose for an intent. If no plan is possible now, the text says why.
const costOf = (name, body) => async () => {
  let view;
  try {
    view = await sketch(name, body);
  } catch (problem) {
    if (["not-allowed", "not-found", "invalid"].includes(problem.kind)) return `No plan by the last observation: ${problem.message}`;
    throw problem;
  }
  const { proposal: each } = view;
  const least = view.least_ms ? `, at least ${duration(view.least_ms)} at the policy's throttle` : "";
  const held = each.held_back.length ? ` It would be blocked now: ${each.held_back.join("; ")}.` : "";
  return `By the last observation: ${count(each.moves, "replica")} to copy, ${bytes(each.bytes)}${least}; ${count(each.leader_changes, "partition")} with another preferred leader. A rollback copies at most ${bytes(each.rollback_bytes)}.${held}`;
};

// The body of an order about an intent, from what it is about.
const bodyOf = (intent, about) => (intent === "hold" ? { intent, scope: String(about) } : intent === "replication" || intent === "freeze-topic" ? { intent, topics: [String(about)] } : { intent, brokers: [Number(about)] });

const GIVEN = {
  drain: { label: "Drain", undo: "Undrain", plans: true, told: "From now on this broker holds nothing: the service plans to move its replicas away, and no plan brings any back. This page says when the broker is safe to remove.", undone: "The broker may hold replicas again. Replicas that have left it stay where they are. Moves under way for it go on: stop them or roll them back on the Moves page." },
  demote: { label: "Demote", undo: "Promote", plans: true, told: "From now on this broker leads nothing; its replicas stay.", undone: "The broker may lead again." },
  "freeze-broker": { label: "Freeze", undo: "Unfreeze", told: "From now on no replica comes to this broker and none leaves it.", undone: "Plans may use the broker again." },
  add: { label: "Add", undo: "Withdraw: add", plans: true, told: "The service plans moves until the broker has its share of bytes and replicas.", undone: "The service no longer plans moves to give the broker its share. Replicas that it has stay there." },
};

function Intent({ name, broker, intent, set, situation, who }) {
  const { label, undo, plans, told, undone } = GIVEN[intent];
  const verb = set ? "withdraw" : "intend";
  const body = bodyOf(intent, broker.id);
  return html`<${Order} label=${set ? undo : label} ...${taken(verb, situation, who, "administer")} comment=${true} title="${set ? undo : label} broker ${broker.id}"
    cost=${!set && plans ? costOf(name, body) : undefined} give=${(comment) => order(name, verb, { ...body, comment })}>${set ? undone : told}</${Order}>`;
}

function Replace({ name, broker, brokers, situation, who }) {
  const [other, setOther] = useState("");
  const common = { ...taken(broker.replaced_by !== null ? "withdraw" : "intend", situation, who, "administer"), comment: true };
  if (broker.replaced_by !== null) return html`<${Order} label="Withdraw: replace" title="Withdraw: replace broker ${broker.id}" ...${common}
    give=${(comment) => order(name, "withdraw", { ...bodyOf("replace", broker.id), comment })}>Broker ${broker.replaced_by} takes over no more replicas. Replicas that it has taken over stay there.</${Order}>`;
  const body = { intent: "replace", replacements: { [broker.id]: Number(other) } };
  return html`<${Order} label="Replace…" confirm="Replace" title="Replace broker ${broker.id}" ...${common} cost=${NUMBER.test(other) ? costOf(name, body) : undefined} costKey=${other}
    give=${(comment) => order(name, "intend", { ...body, comment })}>
    <p>Another broker takes over all replicas of this broker, and gets no others until that is done. The other broker need not have joined yet, and this broker may be dead.</p>
    <label class="field">By broker <input type="number" min="0" step="1" required list="others" value=${other} onInput=${(event) => setOther(event.target.value)} /></label>
    <datalist id="others">${brokers.filter((each) => each.live && each.id !== broker.id).map((each) => html`<option value=${each.id}>${each.rack ?? ""}</option>`)}</datalist></${Order}>`;
}

export const BrokerIntents = ({ name, broker, brokers, situation, who }) => html`<div class="actions">
  <${Intent} name=${name} broker=${broker} situation=${situation} who=${who} intent="drain" set=${broker.drained} />
  <${Replace} name=${name} broker=${broker} brokers=${brokers} situation=${situation} who=${who} key=${broker.id} />
  <${Intent} name=${name} broker=${broker} situation=${situation} who=${who} intent="add" set=${broker.added} />
  <${Intent} name=${name} broker=${broker} situation=${situation} who=${who} intent="demote" set=${broker.demoted} />
  <${Intent} name=${name} broker=${broker} situation=${situation} who=${who} intent="freeze-broker" set=${broker.frozen} /></div>`;

// Forms with a field for the id or the name: a broker that has not joined yet, and topics, have no card to click.
function AddBroker({ name, situation, who }) {
  const [id, setId] = useState("");
  const body = bodyOf("add", id);
  return html`<${Order} label="Add a broker…" confirm="Add" title="Add a broker" ...${taken("intend", situation, who, "administer")} comment=${true} cost=${NUMBER.test(id) ? costOf(name, body) : undefined} costKey=${id}
    give=${(comment) => order(name, "intend", { ...body, comment })}>
    <p>Once the broker is up, the service plans moves until it has its share of bytes and replicas. The broker need not have joined yet.</p>
    <label class="field">Broker <input type="number" min="0" step="1" required value=${id} onInput=${(event) => setId(event.target.value)} /></label></${Order}>`;
}

function FreezeTopic({ name, situation, who }) {
  const [topic, setTopic] = useState("");
  return html`<${Order} label="Freeze topics…" confirm="Freeze" title="Freeze topics" ...${taken("intend", situation, who, "administer")} comment=${true} give=${(comment) => order(name, "intend", { ...bodyOf("freeze-topic", topic.trim()), comment })}>
    <p>From the next plan on, neither the replicas of these topics nor their order change.</p>
    <label class="field">A topic, or a pattern with * and ? <input type="text" required pattern=".*\\S.*" value=${topic} onInput=${(event) => setTopic(event.target.value)} /></label></${Order}>`;
}

function Replication({ name, topics, situation, who }) {
  const [topic, setTopic] = useState("");
  const [replicas, setReplicas] = useState("3");
  const named = topic.trim();
  const body = { ...bodyOf("replication", named), replicas: Number(replicas) };
  return html`<${Order} label="Set a replication factor…" confirm="Set it" title="Set a topic's replication factor" ...${taken("intend", situation, who, "administer")} comment=${true}
    cost=${named && NUMBER.test(replicas) ? costOf(name, body) : undefined} costKey="${named} ${replicas}" give=${(comment) => order(name, "intend", { ...body, comment })}>
    <p>From now on each partition of the topic is to have exactly this number of replicas. The service plans the moves.</p>
    <label class="field">Topic <input type="text" required pattern=".*\\S.*" list="topics" value=${topic} onInput=${(event) => setTopic(event.target.value)} /></label><datalist id="topics">${topics.map((each) => html`<option value=${each.name} />`)}</datalist>
    <label class="field">Replicas <input type="number" min="1" max="99" step="1" required value=${replicas} onInput=${(event) => setReplicas(event.target.value)} /></label></${Order}>`;
}

const TOLD = {
  drain: (about) => `Broker ${about} is to hold nothing`,
  demote: (about) => `Broker ${about} is to lead nothing`,
  replace: (about, value) => `Broker ${value} takes the place of broker ${about}`,
  add: (about) => `Broker ${about} is to get its share`,
  "freeze-topic": (about) => `Nothing of topic ${about} may change`,
  "freeze-broker": (about) => `Nothing may come to broker ${about} or leave it`,
  hold: (about, value) => `Nothing of scope ${about} begins by itself ${value ? `for ${count(value, "minute")}` : "until somebody lifts this"}`,
  replication: (about, value) => `Topic ${about} is to have ${count(value, "replica")}`,
};
const told = (each) => TOLD[each.kind]?.(each.about, each.value) ?? `${words(each.kind)} ${each.about}`;

// Intents of the policy file, in the form of intents that were given to the service.
function inFile(policy) {
  const { intents = {}, limits = {} } = policy || {};
  const plain = (kind, all = []) => all.map((about) => ({ kind, about: String(about) }));
  const pairs = (kind, all = {}) => Object.entries(all).map(([about, value]) => ({ kind, about, value }));
  return [...plain("drain", intents.drain), ...plain("demote", intents.demote), ...pairs("replace", intents.replace), ...plain("add", intents.add),
    ...pairs("replication", intents.replication), ...plain("freeze-topic", limits["frozen-topics"]), ...plain("freeze-broker", limits["frozen-brokers"])];
}

export const Unhold = ({ name, hold, situation, who, label, kind }) => html`<${Order} label=${label} kind=${kind} title="Lift the hold of scope ${hold.about}" ...${taken("withdraw", situation, who)} comment=${true} confirm="Lift it"
  give=${(comment) => order(name, "withdraw", { ...bodyOf("hold", hold.about), comment })}>From the next observation on, plans of scope ${hold.about} begin again as the policy says.</${Order}>`;

export function Intents({ view, name, who }) {
  const file = inFile(view.policy);
  const { situation } = view.row;
  const undo = (each) => each.kind === "hold" ? html`<${Unhold} name=${name} hold=${each} situation=${situation} who=${who} label="Lift" />` : html`<${Order} label="Withdraw" title="Withdraw: ${told(each)}" ...${taken("withdraw", situation, who, "administer")} comment=${true} confirm="Withdraw it"
    give=${(comment) => order(name, "withdraw", { ...bodyOf(each.kind, each.about), comment })}>Plans no longer follow this. Replicas that were moved for it stay where they are. Moves under way for it go on: stop them or roll them back on the Moves page.</${Order}>`;
  return html`<section class="panel intents" aria-label="Desired state"><div class="head"><h2>Desired state <small>every plan follows it until it is withdrawn</small></h2><span class="spring"></span>
      <${AddBroker} name=${name} situation=${situation} who=${who} /><${FreezeTopic} name=${name} situation=${situation} who=${who} /><${Replication} name=${name} topics=${view.topics} situation=${situation} who=${who} /></div>
    ${view.intents.length + file.length ? html`<ul class="conditions">${view.intents.map((each) => html`<li key="${each.kind} ${each.about}" class="intent"><div><strong>${told(each)}</strong>
        <span class="dim">by ${each.who} since <${Moment} at=${each.at_ms} />${each.comment && html`: “${each.comment}”`}</span><span class="spring"></span>${undo(each)}</div></li>`)}
      ${file.map((each) => html`<li key="file ${each.kind} ${each.about}" class="intent"><div><strong>${told(each)}</strong> <span class="dim">by the policy file</span></div></li>`)}</ul>`
    : html`<p class="dim">Nothing is given. For a broker, click the broker above.</p>`}
    ${view.policy && html`<details><summary>The policy file's table of ${name}, with ${number(Object.keys(view.policy).length)} keys</summary><pre tabindex="0">${JSON.stringify(view.policy, null, 2)}</pre></details>`}</section>`;
}
