// The kill switch, of the fleet or of one cluster. Before it is given, the service says what it would do.
import { html } from "./vendor/htm-preact.js";
import { order, preview } from "./store.js";
import { Order } from "./parts.js";
import { taken } from "./situation.js";

export function KillSwitch({ cluster = "", situation, paused, who }) {
  const where = cluster || "the whole fleet";
  const verb = paused ? "resume" : "pause";
  const common = { ...taken(verb, situation, who), comment: true, give: (comment) => order(cluster, verb, { comment }),
    cost: () => preview(cluster, verb) };
  // An open dialog is gone once somebody else threw or lifted the switch: it must not turn into its opposite under a click.
  if (paused) return html`<${Order} key=${verb} label="Resume ${cluster ? "cluster" : "all"}" title="Resume ${where}" kind="primary" ...${common}>
    Moves that the kill switch paused go on.</${Order}>`;
  return html`<${Order} key=${verb} label="Pause ${cluster ? "cluster" : "all"}" title="Pause ${where}" kind="danger" confirm="Pause now" ...${common}>
    The kill switch: moves are paused, and no move begins until somebody lifts it.</${Order}>`;
}
