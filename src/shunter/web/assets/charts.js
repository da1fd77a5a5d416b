// Charts by uPlot, in the page's own colours, made again when the colours change.
import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import uPlot from "./vendor/uPlot.esm.js";

// A canvas has no CSS variables and no light-dark(), so the browser resolves them on a hidden element.
const probe = document.createElement("i");
probe.hidden = true;
document.body.append(probe);
const known = new Map();
export function colour(name) {
  if (!known.has(name)) { probe.style.color = `var(--${name})`; known.set(name, getComputedStyle(probe).color); }
  return known.get(name);
}
const forget = () => known.clear();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
addEventListener("shunter-theme", forget);

// `options(width)` makes uPlot's options; `data` its columns. Another `key` makes another chart.
export function Chart({ label, height = 220, options, data, onMade }) {
  const box = useRef(null);
  const plot = useRef(null);
  const latest = useRef(data);
  latest.current = data;
  const make = () => {
    plot.current?.destroy();
    const width = box.current.clientWidth;
    plot.current = new uPlot({ width, height, ...options(width) }, latest.current, box.current);
    onMade?.(plot.current);
  };
  useEffect(() => {
    make();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const sized = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height }));
    sized.observe(box.current);
    dark.addEventListener("change", make);
    addEventListener("shunter-theme", make);
    return () => {
      sized.disconnect();
      dark.removeEventListener("change", make);
      removeEventListener("shunter-theme", make);
      plot.current.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${label}></div>`;
}

const SECOND = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// The time axis, in the reader's time zone and on a 24-hour clock.
export const times = (more = {}) => axis({
  incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800],
  space: 70,
  values: (_plot, at, _index, _space, step) => at.map((each) => {
    const then = new Date(each * 1000);
    const midnight = then.getHours() === 0 && then.getMinutes() === 0 && then.getSeconds() === 0;
    return (midnight || step >= 86_400 ? DAY : step < 60 ? SECOND : MINUTE).format(then);
  }),
  ...more,
});

export const axis = (more = {}) => ({
  stroke: () => colour("dim"),
  grid: { stroke: () => colour("line"), width: 1 },
  ticks: { show: false },
  font: "12px system-ui, sans-serif",
  ...more,
});
