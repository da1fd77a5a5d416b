// Charts by uPlot, in the page's own colours, made anew when those change.
import { html, useEffect, useRef } from "/assets/vendor/htm-preact.js";
import uPlot from "/assets/vendor/uPlot.esm.js";

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

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
  useEffect(() => { plot.current?.setData(data, false); plot.current?.redraw(); }, [data]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${label}></div>`;
}

export const axis = (more = {}) => ({
  stroke: () => colour("dim"),
  grid: { stroke: () => colour("line"), width: 1 },
  ticks: { show: false },
  font: "12px system-ui, sans-serif",
  ...more,
});
