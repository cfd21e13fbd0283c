// The time line of a job: attempts by node and SPE on a canvas that zooms and pans, fluid with a hundred thousand.
// It never draws what is out of view, nor two attempts that fall on one pixel.
import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor/htm.js';
import { isDark, prepare, STAGES, themeColour } from './colour.js';
import { bytes, clean, plural, seconds } from './format.js';
import { useTheme, useWidth } from './heatmap.js';
import { attemptOf, firstFrom } from './segments.js';
import { Name } from './widgets.js';

const NAMES = 112;
const AXIS = 22;
const FONT = '11px system-ui, sans-serif';

export function TimeLine({ pack, stageCount }) {
  const box = useRef(null);
  const canvas = useRef(null);
  const width = useWidth(box);
  const theme = useTheme();
  const [view, setView] = useState(null);
  const [top, setTop] = useState(0);
  const [chosen, setChosen] = useState(null);
  const shown = view ?? [0, pack.end_ms];
  const names = width < 500 ? 72 : NAMES;
  const lane = Math.max(4, Math.min(16, Math.floor(380 / Math.max(1, pack.laneCount))));
  const all = pack.laneCount * lane;
  const height = Math.min(all, 420) + AXIS;
  const place = { width, height, names, lane, top, shown };
  useLayoutEffect(() => {
    if (!canvas.current || width === 0) return;
    performance.mark('line-begin');
    draw(prepare(canvas.current, width, height), pack, place, chosen);
    performance.measure('line-draw', 'line-begin');
  }, [pack, width, theme, top, view, chosen]);
  const zoom = (factor, at = (shown[0] + shown[1]) / 2) => setView(limited(at - (at - shown[0]) * factor, at + (shown[1] - at) * factor, pack.end_ms));
  const pan = (share) => { const step = (shown[1] - shown[0]) * share; setView(limited(shown[0] + step, shown[1] + step, pack.end_ms)); };
  const timeAt = (x) => shown[0] + ((x - names) / Math.max(1, width - names)) * (shown[1] - shown[0]);
  useWheel(canvas, (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return false;
    const x = event.clientX - canvas.current.getBoundingClientRect().left;
    if (event.shiftKey) pan(Math.sign(event.deltaY || event.deltaX) * 0.1); else zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(x));
    return true;
  });
  const drag = useDrag(canvas, names, (from, to) => setView(limited(Math.min(timeAt(from), timeAt(to)), Math.max(timeAt(from), timeAt(to)), pack.end_ms)));
  const point = (event) => {
    const bounds = canvas.current.getBoundingClientRect();
    setChosen(attemptAt(pack, place, timeAt(event.clientX - bounds.left), event.clientY - bounds.top));
  };
  const keys = { '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => setView(null), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2) };
  const press = (event) => { if (keys[event.key]) { keys[event.key](); event.preventDefault(); } };
  return html`<div class="time-line">
    <div class="tools">
      <button type="button" aria-label="Zoom in" onClick=${() => zoom(0.5)}>+</button><button type="button" aria-label="Zoom out" onClick=${() => zoom(2)}>−</button>
      <button type="button" aria-label="Earlier" disabled=${!view} onClick=${() => pan(-0.5)}>◀</button><button type="button" aria-label="Later" disabled=${!view} onClick=${() => pan(0.5)}>▶</button>
      <button type="button" onClick=${() => setView(null)} disabled=${!view}>All</button>
      <span class="quiet">${seconds(shown[0] / 1000)} to ${seconds(shown[1] / 1000)} <span class="hint">· drag to zoom, Ctrl and wheel, or + − 0 and arrow keys</span>${all > 420 ? ` · ${plural(pack.nodes.length, 'node')}, scroll for more` : ''}</span>
    </div>
    <div class="line-scroll" ref=${box} onScroll=${(event) => setTop(event.currentTarget.scrollTop)} tabindex="0" onKeyDown=${press} role="group"
      aria-label="Time line of ${plural(pack.count, 'attempt')} on ${plural(pack.nodes.length, 'node')}. The table of segments below holds the same.">
      <div class="line-all" style=${{ height: `${all + AXIS}px` }}>
        <canvas ref=${canvas} onPointerMove=${point} onClick=${point} ...${drag}></canvas></div>
    </div>
    <ul class="signs">
      ${Array.from({ length: Math.min(stageCount, 8) }, (_, at) => html`<li><span class="swatch" style=${{ background: STAGES[at] }}></span> stage ${at}</li>`)}
      <li><span class="swatch failed"></span> failed</li><li><span class="swatch slow"></span> straggler</li><li><span class="swatch pale"></span> overtaken or stopped</li></ul>
    <p class="read-out" aria-live="off">${chosen != null && chosen < pack.count ? html`<${ReadOut} attempt=${attemptOf(pack, chosen)} />` : html`<span class="quiet">Point at an attempt to read it here.</span>`}</p>
  </div>`;
}

function ReadOut({ attempt }) {
  const segments = attempt.segments > 1 ? `segments ${attempt.segment} to ${attempt.segment + attempt.segments - 1}` : `segment ${attempt.segment}`;
  return html`stage ${attempt.stage}, ${segments}, attempt ${attempt.attempt} on <${Name} text=${attempt.node} />: ${attempt.end}, began at ${seconds(attempt.began_ms / 1000)}, took ${seconds(attempt.took_ms / 1000)}, ${bytes(attempt.bytes)} of <${Name} text=${attempt.slice} />`;
}

function limited(from, until, end) {
  const span = Math.min(end, Math.max(2, until - from));
  const start = Math.max(0, Math.min(end - span, from));
  return span >= end ? null : [start, start + span];
}

/** Preact listens passively to wheels; this one must be able to keep the page still. */
function useWheel(canvas, turn) {
  const latest = useRef(turn);
  latest.current = turn;
  useEffect(() => {
    const listen = (event) => { if (latest.current(event)) event.preventDefault(); };
    const at = canvas.current;
    at.addEventListener('wheel', listen, { passive: false });
    return () => at.removeEventListener('wheel', listen);
  }, []);
}

function useDrag(canvas, names, onSpan) {
  const from = useRef(null);
  const xOf = (event) => Math.max(names, event.clientX - canvas.current.getBoundingClientRect().left);
  return {
    onPointerDown: (event) => { if (event.pointerType === 'mouse' && event.button === 0) from.current = xOf(event); },
    onPointerUp: (event) => {
      if (from.current != null && Math.abs(xOf(event) - from.current) > 6) onSpan(from.current, xOf(event));
      from.current = null;
    },
    onPointerLeave: () => { from.current = null; },
  };
}

function attemptAt(pack, { top, lane, height }, time, y) {
  const row = Math.floor((y + top) / lane);
  if (y > height - AXIS || row < 0 || row >= pack.laneCount) return null;
  const at = firstFrom(pack.until, time, pack.starts[row], pack.starts[row + 1]);
  return at < pack.starts[row + 1] && pack.began_ms[at] <= time ? at : null;
}

function draw(context, pack, place, chosen) {
  const { width, height, names, lane, top, shown } = place;
  const paint = { text: themeColour('text'), quiet: themeColour('quiet'), line: themeColour('line'), bad: themeColour('bad'), panel: themeColour('panel') };
  const perMilli = (width - names) / (shown[1] - shown[0]);
  const first = Math.floor(top / lane);
  const last = Math.min(pack.laneCount, Math.ceil((top + height - AXIS) / lane));
  for (let at = first; at < last; at += 1) drawLane(context, pack, at, at * lane - top, { ...place, perMilli, paint });
  if (chosen != null && chosen < pack.count) outline(context, pack, chosen, { ...place, perMilli, paint });
  context.fillStyle = paint.panel;
  context.fillRect(0, 0, names, height);
  drawNames(context, pack, place, paint);
  drawAxis(context, place, perMilli, paint);
}

/** Attempts that fall on one pixel are drawn once; failed ones and stragglers are never left out for others. */
function drawLane(context, pack, row, y, { names, width, lane, shown, perMilli, paint }) {
  const { began_ms: began, until, stage, slow } = pack;
  const last = pack.starts[row + 1];
  const high = Math.max(1, lane - (lane > 5 ? 2 : 1));
  let drawn = -1;
  let style = -1;
  for (let at = firstFrom(until, shown[0], pack.starts[row], last); at < last && began[at] <= shown[1]; at += 1) {
    const left = Math.max(names, names + (began[at] - shown[0]) * perMilli);
    const right = Math.min(width, names + (until[at] - shown[0]) * perMilli);
    const end = pack.end[at];
    const isSpecial = end === 2 || end === 3 || slow[at] === 1;
    if (right <= drawn && !isSpecial) continue;
    const wide = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
    const colour = stage[at] % STAGES.length;
    const wanted = colour * 2 + (end === 1 || end === 4 ? 1 : 0);
    if (wanted !== style) {
      style = wanted;
      context.fillStyle = STAGES[colour] + (wanted % 2 ? '66' : '');
    }
    context.fillRect(left, y, wide, high);
    if (isSpecial) {
      drawMark(context, left, y, wide, high, end === 2 || end === 3, paint);
      style = -1;
    }
    drawn = Math.max(left + 1, Math.floor(right));
  }
}

function drawMark(context, x, y, wide, high, isFailed, paint) {
  context.fillStyle = isFailed ? paint.bad : paint.text;
  if (isFailed) context.fillRect(x, y, Math.max(2, wide), high);
  else context.fillRect(x, y + high - Math.max(1, high / 4), Math.max(2, wide), Math.max(1, high / 4));
  if (isFailed && high >= 6) {
    context.fillStyle = isDark() ? '#000000' : '#ffffff';
    context.fillRect(x, y + high / 2 - 0.5, Math.max(2, wide), 1);
  }
}

function outline(context, pack, at, { names, lane, top, shown, perMilli, paint }) {
  const row = firstFrom(pack.starts, at + 1, 0, pack.starts.length) - 1;
  context.strokeStyle = paint.text;
  context.lineWidth = 1.5;
  const left = Math.max(names, names + (pack.began_ms[at] - shown[0]) * perMilli);
  context.strokeRect(left - 1, row * lane - top - 1, Math.max(3, pack.took_ms[at] * perMilli + 1), lane);
}

function drawNames(context, pack, { names, lane, top, height, width }, paint) {
  context.font = FONT;
  context.textBaseline = 'middle';
  let free = -Infinity;
  for (const { node, first, count } of pack.nodes) {
    const y = first * lane - top;
    if (y > height - AXIS || y + count * lane < 0) continue;
    const middle = y + (count * lane) / 2;
    if (count * lane >= 6) {
      context.fillStyle = paint.line;
      context.fillRect(0, y - 1, width, 1);
    }
    // Where lanes are thin, only every so many names have room.
    if (middle < free || middle > height - AXIS - 4) continue;
    context.fillStyle = paint.quiet;
    const text = clean(node);
    context.fillText(text.length > names / 7 ? `${text.slice(0, Math.floor(names / 7) - 1)}…` : text, 2, Math.max(7, middle));
    free = middle + 13;
  }
}

function drawAxis(context, { names, width, height, shown }, perMilli, paint) {
  const y = height - AXIS;
  context.fillStyle = paint.panel;
  context.fillRect(0, y, width, AXIS);
  context.fillStyle = paint.line;
  context.fillRect(names, y, width - names, 1);
  const step = stepOf((shown[1] - shown[0]) / Math.max(2, (width - names) / 110));
  context.fillStyle = paint.quiet;
  context.font = FONT;
  context.textBaseline = 'middle';
  for (let time = Math.ceil(shown[0] / step) * step; time <= shown[1]; time += step) {
    const x = names + (time - shown[0]) * perMilli;
    context.fillRect(x, y, 1, 4);
    if (x < width - 40) context.fillText(seconds(time / 1000), x + 3, y + 12);
  }
}

function stepOf(least) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 10800000, 21600000];
  return steps.find((step) => step >= least) ?? Math.ceil(least / 86400000) * 86400000;
}
