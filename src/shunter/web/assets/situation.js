// How a cluster stands, as the service works it out (core/keeper/situation.py): nothing is worked out here.
import { html } from "./vendor/htm-preact.js";
import { may } from "./store.js";
import { Ago, Chip, Said } from "./parts.js";

// Severities, the worst first, with the colour of each.
export const KIND = { critical: "bad", warning: "watch", unknown: "still", note: "busy", ok: "good" };
const ORDER = Object.keys(KIND);
export const rank = (situation) => ORDER.indexOf(situation.severity);

export const Headline = ({ situation: { severity, headline } }) => html`<${Chip} kind=${KIND[severity]} title=${severity}><em><${Said} text=${headline} /></em></${Chip}>`;

// Whether an order would be carried out now: the properties of its button. `partly`: some moves may still refuse it.
export function taken(verb, situation, who, role = "operate") {
  const { orders, refusals = {}, why_not: common } = situation ?? { orders: [], why_not: "How the cluster stands is being read." };
  const why = refusals[verb] ?? common;
  if (!may(who, role)) return { disabled: true, why: role === "operate" ? "You may only look." : `This needs the role ${role}.` };
  return orders.includes(verb) ? { disabled: false } : { disabled: true, why: why || "There is nothing that this would change now." };
}

// Of when figures are, unless they are current. `age`: current, old or unknown; `at`: of when old ones are.
export function Aged({ age, at, what = "These figures" }) {
  if (age === "current") return null;
  if (age === "unknown" || !at) return html`<p class="banner" role="status">${what} are not known.</p>`;
  return html`<p class="banner watch" role="status">${what} are old: they are of <${Ago} at=${at} /> ago.</p>`;
}

export const faded = (age) => (age === "current" ? "" : "old");
