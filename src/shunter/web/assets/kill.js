// The kill switch, of the fleet or of one cluster.
import { html } from "./vendor/htm-preact.js";
import { may, order } from "./store.js";
import { Order } from "./parts.js";

export function KillSwitch({ cluster = "", paused, who }) {
  const where = cluster || "the whole fleet";
  const off = !may(who, "operate");
  if (paused) return html`<${Order} label="Resume ${cluster || "all"}" title="Resume ${where}" kind="primary" disabled=${off} why="You may only look."
    comment=${true} give=${(comment) => order(cluster, "resume-all", { comment })}>
    Moves that the kill switch paused go on. Moves that were paused by name stay paused.</${Order}>`;
  return html`<${Order} label="Pause ${cluster || "all"}" title="Pause ${where}" kind="danger" disabled=${off} why="You may only look."
    comment=${true} give=${(comment) => order(cluster, "pause-all", { comment })} confirm="Pause now">
    Every move of ${where} is paused, and no move begins until somebody resumes ${where}. Copied data is kept.</${Order}>`;
}
