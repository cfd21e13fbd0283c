// The heat map: one block a node on a canvas, with keyboard, pointer and a line that reads out the chosen block.
// It never holds the only copy of a number: the same rows stand in the table view.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/htm.js';
import { colourOf, ink, isDark, prepare, scale, themeColour } from './colour.js';
import { blockAt, layOut, nextBlock } from './heatlayout.js';
import { clean, plural } from './format.js';
import { SIGNS, topOf } from './metrics.js';
import { go, link } from './route.js';

const FONT = 'system-ui, sans-serif';
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!ref.current) return undefined;
    const measure = () => setWidth(Math.floor(ref.current?.clientWidth ?? 0));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Changes whenever light or dark does, so that canvases are drawn again. */
export function useTheme() {
  const [theme, setTheme] = useState(isDark());
  useEffect(() => {
    const observer = new MutationObserver(() => setTheme(isDark()));
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    return () => observer.disconnect();
  }, []);
  return theme;
}

export function HeatMap({ rows, metric, isPast }) {
  const box = useRef(null);
  const canvas = useRef(null);
  const width = useWidth(box);
  const theme = useTheme();
  const [chosen, setChosen] = useState(null);
  const [isFocused, setFocused] = useState(false);
  const places = rows.map((row) => `${row.id} ${row.site} ${row.rack}`).join('\n');
  const layout = useMemo(() => layOut(rows, width, width < 600 ? 560 : 420), [places, width]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const top = topOf(metric, rows.map(metric.of));
  useLayoutEffect(() => {
    if (!canvas.current || width === 0) return;
    performance.mark('heat-begin');
    draw(prepare(canvas.current, width, layout.height), { layout, byId, metric, top, isPast, chosen, isFocused });
    performance.measure('heat-draw', 'heat-begin');
  });
  const point = (event) => {
    const bounds = canvas.current.getBoundingClientRect();
    return layout.blocks[blockAt(layout, event.clientX - bounds.left, event.clientY - bounds.top)]?.id ?? null;
  };
  const open = (id) => id && go(['nodes', id]);
  const press = (event) => {
    const at = Math.max(0, layout.blocks.findIndex((block) => block.id === chosen));
    const next = nextOf(event.key, layout, at, chosen);
    if (event.key === 'Enter') open(chosen);
    else if (next == null) return;
    else setChosen(layout.blocks[next]?.id ?? null);
    event.preventDefault();
  };
  const row = byId.get(chosen);
  // Said once for each block that is chosen, not again with every new number.
  const said = useMemo(() => (row ? `${clean(row.id)} ${readOut(row, metric, isPast)}` : ''), [chosen, metric.key]);
  return html`<div class="heat" ref=${box}>
    <${Legend} rows=${rows} metric=${metric} top=${top} isPast=${isPast} theme=${theme} />
    <canvas ref=${canvas} class="heat-canvas" tabindex="0" role="application"
      aria-label="Heat map of ${plural(rows.length, 'node')}: ${metric.label}. Arrow keys move between nodes, Enter opens one. The table view holds the same numbers."
      aria-describedby="heat-read-out"
      onKeyDown=${press}
      onFocus=${() => { setFocused(true); setChosen((old) => old ?? layout.blocks[0]?.id ?? null); }}
      onBlur=${() => setFocused(false)}
      onPointerMove=${(event) => event.pointerType === 'mouse' && setChosen(point(event) ?? chosen)}
      onClick=${(event) => { const id = point(event); if (event.pointerType === 'touch') setChosen(id); else open(id); }}></canvas>
    <p class="unseen" aria-live="polite">${said}</p>
    <p id="heat-read-out" class="read-out">
      ${row ? html`<a href=${link(['nodes', row.id])}><bdi>${clean(row.id)}</bdi></a> ${readOut(row, metric, isPast)}`
        : html`<span class="quiet">Point at a node, or move with the arrow keys, to read it here.</span>`}
    </p>
  </div>`;
}

function nextOf(key, layout, at, chosen) {
  if (ARROWS[key]) return chosen == null ? 0 : nextBlock(layout, at, ...ARROWS[key]);
  if (key === 'Home') return 0;
  if (key === 'End') return layout.blocks.length - 1;
  return null;
}

function readOut(row, metric, isPast) {
  const value = metric.of(row);
  const words = [`${clean(row.site)} / ${clean(row.rack)}`, `${metric.label.toLowerCase()} ${value == null ? 'not reported' : metric.show(value)}`];
  if (!isPast) words.push(...row.signs.map((sign) => SIGNS[sign].words));
  return `· ${words.join(' · ')}`;
}

function Legend({ rows, metric, top, isPast }) {
  const steps = scale();
  const at = [0, 0.25, 0.5, 0.75, 1].map((share) => metric.show(metric.whole && top < 4 ? Math.round(share * top) : share * top));
  const counts = Object.keys(SIGNS).map((sign) => [sign, rows.filter((row) => row.signs.includes(sign)).length]);
  const shown = isPast ? [] : counts.filter(([, number]) => number > 0);
  const silent = rows.filter((row) => metric.of(row) == null).length;
  return html`<div class="legend">
    <div class="legend-scale" role="img" aria-label="Scale of ${metric.label}: ${at[0]} to ${at[4]}">
      <div class="legend-steps">${steps.map((colour) => html`<span style=${{ background: colour }}></span>`)}</div>
      <div class="legend-ticks">${[at[0], at[2], at[4]].map((text) => html`<span>${text}</span>`)}</div>
    </div>
    <ul class="signs">
      ${shown.map(([sign, number]) => html`<li><span class="sign sign-${sign}" aria-hidden="true">${SIGNS[sign].mark}</span> ${number} ${SIGNS[sign].words}</li>`)}
      ${silent > 0 && html`<li><span class="sign sign-silent" aria-hidden="true"></span> ${silent} without a report</li>`}
    </ul>
  </div>`;
}

function draw(context, view) {
  const { layout, byId, chosen, isFocused } = view;
  const paint = { text: themeColour('text'), quiet: themeColour('quiet'), line: themeColour('line'), empty: themeColour('empty'), down: themeColour('bad'), focus: themeColour('focus') };
  context.textBaseline = 'middle';
  layout.sites.forEach((site) => drawSite(context, site, paint));
  context.font = `11px ${FONT}`;
  context.fillStyle = paint.quiet;
  layout.racks.forEach((rack) => context.fillText(fit(context, clean(rack.name), rack.w), rack.x, rack.y + 7));
  layout.blocks.forEach((block) => drawBlock(context, block, byId.get(block.id), view, paint));
  const focus = layout.blocks.find((block) => block.id === chosen);
  if (focus) {
    context.lineWidth = isFocused ? 3 : 1.5;
    context.strokeStyle = isFocused ? paint.focus : paint.text;
    context.strokeRect(focus.x - 1.5, focus.y - 1.5, focus.w + 3, focus.h + 3);
  }
}

function drawSite(context, site, paint) {
  context.strokeStyle = paint.line;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(site.x, site.y + 18.5);
  context.lineTo(site.x + site.w, site.y + 18.5);
  context.stroke();
  context.font = `600 13px ${FONT}`;
  context.fillStyle = paint.text;
  const count = plural(site.count, 'node');
  const name = fit(context, clean(site.name), site.w - 80);
  context.fillText(name, site.x, site.y + 8);
  const after = context.measureText(name).width;
  context.font = `11px ${FONT}`;
  context.fillStyle = paint.quiet;
  context.fillText(count, site.x + after + 8, site.y + 9);
}

const fitted = new Map();
/** A text cut to a width; measured once. */
function fit(context, text, width) {
  const key = `${context.font}|${Math.floor(width)}|${text}`;
  if (!fitted.has(key)) {
    if (fitted.size > 5000) fitted.clear();
    let short = text;
    while (short.length > 1 && context.measureText(short).width > width) short = `${short.slice(0, -2)}…`;
    fitted.set(key, short);
  }
  return fitted.get(key);
}

function drawBlock(context, block, row, { metric, top, isPast }, paint) {
  if (!row) return;
  const { x, y, w, h } = block;
  const value = metric.of(row);
  const signs = isPast ? [] : row.signs;
  const isDown = signs.includes('down');
  const colour = value == null || isDown ? paint.empty : colourOf(value / top);
  context.fillStyle = colour;
  context.fillRect(x, y, w, h);
  const dark = value == null || isDown ? paint.quiet : ink(colour);
  if (isDown || value == null) drawMissing(context, block, isDown, paint);
  if (signs.includes('draining') || signs.includes('drained')) drawStripes(context, block, dark);
  if (w >= 26 && !(isDown && w < 54)) drawText(context, block, row, value == null || isDown ? '' : metric.short(value), metric, dark);
  if (signs.includes('full')) {
    context.fillStyle = dark;
    context.fillRect(x, y + h - Math.max(2, h / 8), w, Math.max(2, h / 8));
  }
  if (signs.includes('failed')) drawCorner(context, [x, y, x + w * 0.4, y, x, y + h * 0.55], dark);
  if (signs.includes('marked')) drawCorner(context, [x + w, y, x + w - Math.min(9, w * 0.5), y, x + w, y + Math.min(9, h * 0.6)], dark);
}

function drawMissing(context, { x, y, w, h }, isDown, paint) {
  context.strokeStyle = isDown ? paint.down : paint.quiet;
  context.lineWidth = isDown ? 2 : 1;
  context.strokeRect(x + 1, y + 1, w - 2, h - 2);
  if (!isDown) return;
  const arm = Math.min(w, h) * 0.26;
  const [cx, cy] = [w >= 54 ? x + w - arm - 6 : x + w / 2, y + h / 2];
  context.beginPath();
  context.moveTo(cx - arm, cy - arm);
  context.lineTo(cx + arm, cy + arm);
  context.moveTo(cx + arm, cy - arm);
  context.lineTo(cx - arm, cy + arm);
  context.stroke();
}

function drawStripes(context, { x, y, w, h }, colour) {
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.globalAlpha = 0.5;
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  for (let at = -h; at < w; at += 7) {
    context.moveTo(x + at, y + h);
    context.lineTo(x + at + h, y);
  }
  context.stroke();
  context.restore();
}

function drawCorner(context, [ax, ay, bx, by, cx, cy], colour) {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(ax, ay);
  context.lineTo(bx, by);
  context.lineTo(cx, cy);
  context.fill();
}

function drawText(context, { x, y, w, h }, row, short, metric, colour) {
  context.fillStyle = colour;
  if (w < 54) {
    context.font = `11px ${FONT}`;
    context.textAlign = 'center';
    context.fillText(short, x + w / 2, y + h / 2 + 0.5, w - 2);
    context.textAlign = 'left';
    return;
  }
  const roomy = h >= 36;
  context.font = `${roomy ? 12 : 10}px ${FONT}`;
  context.fillText(fit(context, clean(row.id), w - 10), x + 5, y + h * 0.3);
  context.font = `600 ${roomy ? 13 : 11}px ${FONT}`;
  const value = metric.of(row);
  context.fillText(short === '' ? '' : w >= 76 ? metric.show(value) : short, x + 5, y + h * 0.72, w - 10);
}
