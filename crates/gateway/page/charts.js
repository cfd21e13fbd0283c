// Numbers over time as lines, drawn by uPlot. Lines differ by dashes too, not by colour alone.
// It never asks the server.
import uPlot from './vendor/uplot.js';
import { html, useEffect, useRef } from './vendor/htm.js';
import { themeColour } from './colour.js';
import { useTheme, useWidth } from './heatmap.js';
import { roundTop } from './metrics.js';

const COLOURS = ['#0072b2', '#c25a00', '#009e73'];
const DARK_COLOURS = ['#56b4e9', '#f0a03c', '#2fc79b'];
const DASHES = [[], [6, 3], [2, 3]];

/** `times` in seconds; series: `{label, values}`; `show` writes a value. */
export function Chart({ title, times, series, show, isBinary, top, from, until }) {
  const box = useRef(null);
  const chart = useRef(null);
  const width = useWidth(box);
  const theme = useTheme();
  const data = [times, ...series.map((line) => line.values)];
  useEffect(() => {
    if (!width || !box.current) return undefined;
    chart.current = new uPlot(options({ series, show, isBinary, top, width, theme, from, until }), data, box.current);
    return () => { chart.current.destroy(); chart.current = null; };
  }, [width, theme, title, from, until]);
  useEffect(() => { chart.current?.setData(data); }, [times]);
  const last = series.map((line) => `${line.label} ${write(show, line.values.findLast((value) => value != null))}`);
  return html`<figure class="chart"><figcaption><strong>${title}</strong> <span class="quiet">${last.join(' · ')}</span></figcaption>
    <div ref=${box} role="img" aria-label="${title}: newest values: ${last.join(', ')}"></div></figure>`;
}

const write = (show, value) => (value == null ? '–' : show(value));

function options({ series, show, isBinary, top, width, theme, from, until }) {
  const [text, line] = [themeColour('quiet'), themeColour('line')];
  const colours = theme ? DARK_COLOURS : COLOURS;
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: '11px system-ui, sans-serif' };
  return {
    width,
    height: 132,
    cursor: { sync: { key: 'node' }, points: { size: 6 }, drag: { x: true, y: false } },
    scales: { x: { range: (_, low, high) => [low ?? from, high ?? until] }, y: { range: (_, low, high) => [0, top ?? roundTop(high ?? 0, { binary: isBinary })] } },
    legend: { live: true },
    axes: [
      { ...axis, size: 26, values: [[86400, '{YYYY}-{MM}-{DD}'], [3600, '{HH}:{mm}'], [60, '{HH}:{mm}'], [1, '{HH}:{mm}:{ss}']].map(([step, form]) => [step, form, null, null, null, null, null, null, 1]) },
      { ...axis, size: 84, splits: (_, axisAt, low, high) => [0, 0.25, 0.5, 0.75, 1].map((share) => low + (high - low) * share), values: (_, at) => at.map((value) => write(show, value)) },
    ],
    series: [
      { value: (_, at) => (at == null ? '–' : new Date(at * 1000).toLocaleTimeString('en-GB')) },
      ...series.map((item, at) => ({
        label: item.label, stroke: colours[at], dash: DASHES[at], width: 1.5, spanGaps: false, points: { show: false },
        value: (_, value) => write(show, value),
      })),
    ],
  };
}
