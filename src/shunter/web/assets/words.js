// Figures in words. The input is in milliseconds since 1970 UTC for times, in bytes for sizes.

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  let unit = 0;
  let value = count;
  while (Math.abs(value) >= 1000 && unit < UNITS.length - 1) { value /= 1000; unit += 1; }
  return `${value.toFixed(unit === 0 || value >= 100 ? 0 : 1)} ${UNITS[unit]}`;
}

export const rate = (perSecond) => (perSecond === null || perSecond === undefined ? "–" : `${bytes(perSecond)}/s`);

export function percent(share, digits = 0) {
  return share === null || share === undefined ? "–" : `${(share * 100).toFixed(digits)} %`;
}

export function count(number, noun, nouns = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : nouns}`;
}

export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// A short time in seconds, such as the delay of an event loop.
export function lag(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return seconds < 1 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : duration(seconds * 1000);
}

export function days(value) {
  if (value === null || value === undefined) return "–";
  if (value > 730) return "over 2 years";
  return value < 10 ? `${value.toFixed(1)} days` : `${Math.round(value)} days`;
}

const SAME_DAY = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const OTHER_DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export function moment(ms) {
  if (ms === null || ms === undefined) return "–";
  const then = new Date(ms);
  return then.toDateString() === new Date().toDateString() ? SAME_DAY.format(then) : OTHER_DAY.format(then);
}

// The zone of such times, as "Europe/Berlin (UTC+02:00)".
export function zone(at = new Date()) {
  const minutes = -at.getTimezoneOffset();
  const two = (value) => String(Math.trunc(value)).padStart(2, "0");
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const offset = `UTC${minutes ? `${minutes < 0 ? "−" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}` : ""}`;
  return !name || name === offset ? offset : `${name} (${offset})`;
}

export const utc = (ms) => (ms ? new Date(ms).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC") : "");

// Names of the service's kinds, states and scopes, in the words of the trade.
const LABELS = {
  look: "observation", condition: "condition holds", "condition-over": "condition ended", proposed: "proposed", approve: "approved", decline: "declined", begun: "execution began",
  "begin-unknown": "execution unknown", execution: "execution", "proposal-waiting": "waits for approval", "proposal-approved": "approved", "proposal-starting": "starting", "proposal-running": "running",
  "proposal-carried-out": "executed", "proposal-done": "done", "proposal-partly": "done in part", "proposal-turned": "stopped or rolled back", "proposal-declined": "declined", "proposal-stale": "outdated", "proposal-refused": "refused",
  "cluster-unreachable": "cluster unreachable", "cluster-back": "cluster answers again", "broker-empty": "broker empty", "not-driven": "not driven", "driven-again": "driven again", limit: "limits changed",
  "pause-all": "all paused", "resume-all": "all resumed", rollback: "rolled back", "clear-throttles": "throttles removed", propose: "planned by hand", intend: "intent given", withdraw: "intent withdrawn",
  turned: "stopped or rolled back", partly: "done in part", "carried-out": "executed", stale: "outdated", waiting: "waits for approval", "rolled-back": "rolled back", foreign: "external", left: "left to the cluster", gone: "topic is gone",
  "foreign-move": "external move", "throttle-theirs-again": "external throttle in force", "metadata-late": "metadata is late", retargeted: "new target", "move-rebased": "new start", "throttle-left": "throttle left as changed", "token-expires": "token expires", "journal-elsewhere": "journal elsewhere", "service-began": "service began", "service-ended": "service ended", driver: "who drives", "driver-lost": "drives no longer", "pause-not-sent": "pause not sent", "resume-not-sent": "lifting not sent", "order-unanswered": "order unanswered",
  rebalance: "rebalance", leaders: "balance preferred leaders", "fix-racks": "fix rack placement", fill: "fill brokers", drain: "drain brokers", demote: "demote brokers", replace: "replace brokers", offline: "restore offline replicas",
  topics: "change topics", disks: "balance log dirs", "empty-disks": "relieve full disks", "filling-disks": "relieve filling disks", "change-replication": "change replication", add: "fill a broker",
};
export const words = (name) => LABELS[name] || name.replaceAll("-", " ");
export const capital = (text) => text.replace(/^./, (first) => first.toUpperCase());

// The few first of many names, and how many more there are.
export const few = (names, most = 12) => `${names.slice(0, most).join(", ")}${names.length > most ? ` and ${number(names.length - most)} more` : ""}`;
