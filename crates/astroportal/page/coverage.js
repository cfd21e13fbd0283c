// The whole sky, and where there are images: each cell by how many it has. A place that is chosen becomes a search.
// It never draws more than the cells that the server has counted.
import { html, useEffect, useRef, useState } from '../vendor/htm.js';
import { count, plural } from '../format.js';
import { go } from '../route.js';
import { Failed, Section } from '../widgets.js';
import { ask } from './services.js';
import { fromMap, onMap, placeWords } from './sky.js';

const STEPS = [1, 3, 10, 30, 100, 300];
const MARGIN = 14;

export function Coverage() {
  const [sky, setSky] = useState(null);
  const [error, setError] = useState(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setError(null);
    ask('portal/coverage', { signal: stop.signal }).then((answer) => answer.json()).then(setSky, (failure) => { if (!stop.signal.aborted) setError(failure); });
    return () => stop.abort();
  }, [round]);
  if (error) return html`<${Failed} error=${error} retry=${() => setRound(round + 1)} />`;
  if (!sky) return html`<p class="quiet" aria-busy="true">Counting the images of the sky …</p>`;
  const apart = [sky.without_place && `${plural(sky.without_place, 'image')} without a place on the sky`, sky.damaged && `${plural(sky.damaged, 'file')} that cannot be read`].filter(Boolean).join(', ');
  return html`<${Section} title="Coverage">
    <p>${plural(sky.images, 'image')}, in ${count(sky.cells.length)} of the sky’s 41 253 square degrees.${apart && html` <span class="quiet">Besides: ${apart}.</span>`}</p>
    <${SkyMap} cells=${sky.cells} />
    <p class="legend" aria-hidden="true">${STEPS.map((step, at) => html`<span class="scale"><span style=${{ background: shade(at) }}></span>${step}${at === STEPS.length - 1 ? ' and more' : ` to ${STEPS[at + 1] - 1}`}</span>`)}<span class="quiet">images a square degree</span></p><//>`;
}

const isDark = () => document.documentElement.dataset.theme === 'dark';
/** From faint to strong in both themes, told apart by lightness alone. */
const shade = (step) => `hsl(${210 - step * 6} 70% ${isDark() ? 38 + step * 9 : 72 - step * 10}%)`;

function SkyMap({ cells }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(isDark());
  const [at, setAt] = useState(null);
  const [cursor, setCursor] = useState({ ra: 180, dec: 0 });
  const [hasFocus, setFocus] = useState(false);
  useEffect(() => {
    const sized = new ResizeObserver(([box]) => setWidth(Math.round(box.contentRect.width)));
    sized.observe(canvas.current);
    const themed = new MutationObserver(() => setTheme(isDark()));
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    return () => { sized.disconnect(); themed.disconnect(); };
  }, []);
  useEffect(() => { if (width) draw(canvas.current, width, cells, hasFocus ? cursor : null); }, [width, cells, theme, cursor, hasFocus]);
  const placeOf = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const [half, high] = [box.width / 2 - MARGIN, box.width / 4 - MARGIN / 2];
    return fromMap((event.clientX - box.left - box.width / 2) / half, (box.top + box.height / 2 - event.clientY) / high);
  };
  const search = (place) => place && go([], { at: `${place.ra.toFixed(3)} ${place.dec.toFixed(3)}`, size: '60' });
  const press = (event) => {
    const step = event.shiftKey ? 10 : 1;
    const move = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
    if (move) {
      const next = { ra: (cursor.ra + move[0] + 360) % 360, dec: Math.max(-90, Math.min(90, cursor.dec + move[1])) };
      setCursor(next);
      setAt(next);
    } else if (event.key === 'Enter') search(cursor);
    else return;
    event.preventDefault();
  };
  return html`<div class="sky">
    <canvas ref=${canvas} tabindex="0" role="application" aria-label="Map of the sky. Arrow keys move, with Shift by ten degrees; Enter searches there." aria-describedby="sky-place"
      onMouseMove=${(event) => setAt(placeOf(event))} onMouseLeave=${() => setAt(null)} onClick=${(event) => search(placeOf(event))}
      onFocus=${() => setFocus(true)} onBlur=${() => setFocus(false)} onKeyDown=${press}></canvas>
    <p class="read-out" id="sky-place" role="status">${at ? `${placeWords(at)} · ${plural(countAt(cells, at), 'image')}` : 'Point at the sky; a click searches there.'}</p></div>`;
}

const countAt = (cells, { ra, dec }) => cells.find(([west, east, south, north]) => ra >= west && ra < east && dec >= south && (dec < north || north === 90))?.[4] ?? 0;

function draw(canvas, width, cells, cursor) {
  const ratio = window.devicePixelRatio || 1;
  const height = Math.round(width / 2);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  const paint = canvas.getContext('2d');
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  const names = getComputedStyle(document.documentElement);
  const colour = (name) => names.getPropertyValue(name).trim();
  const [half, high] = [width / 2 - MARGIN, height / 2 - MARGIN / 2];
  const point = (ra, dec, side) => { const [x, y] = onMap(ra, dec, side); return [width / 2 + x * half, height / 2 - y * high]; };
  const line = (points) => { paint.beginPath(); points.forEach(([x, y], at) => (at ? paint.lineTo(x, y) : paint.moveTo(x, y))); };
  paint.beginPath();
  paint.ellipse(width / 2, height / 2, half, high, 0, 0, 2 * Math.PI);
  paint.fillStyle = colour('--empty');
  paint.fill();
  for (const [west, east, south, north, images] of cells) {
    const step = STEPS.findLastIndex((from) => images >= from);
    // A wide cell near a pole is bent; its edge is followed degree by degree.
    const edge = Array.from({ length: Math.max(2, Math.ceil((east - west) / 2) + 1) }, (_, at, of = Math.max(1, Math.ceil((east - west) / 2))) => west + ((east - west) * Math.min(at, of)) / of);
    const side = (ra) => (ra <= 1e-9 ? 1 : ra >= 360 - 1e-9 ? -1 : 0);
    line([...edge.map((ra) => point(ra, south, side(ra))), ...edge.reverse().map((ra) => point(ra, north, side(ra)))]);
    paint.closePath();
    paint.fillStyle = shade(step);
    paint.fill();
    // Cells of a pixel or less would vanish.
    paint.strokeStyle = shade(step);
    paint.lineWidth = 1;
    paint.stroke();
  }
  paint.strokeStyle = colour('--line');
  paint.lineWidth = 1;
  for (let dec = -60; dec <= 60; dec += 30) { line(Array.from({ length: 181 }, (_, at) => point(at * 2, dec, at === 0 ? 1 : at === 180 ? -1 : 0))); paint.stroke(); }
  for (let ra = 0; ra <= 360; ra += 60) { line(Array.from({ length: 91 }, (_, at) => point(ra, at * 2 - 90, ra === 0 ? 1 : ra === 360 ? -1 : 0))); paint.stroke(); }
  paint.fillStyle = colour('--quiet');
  paint.font = '11px system-ui, sans-serif';
  paint.textAlign = 'center';
  for (let hours = 4; hours < 24; hours += 4) { const [x, y] = point(hours * 15, 0); paint.fillText(`${hours}h`, x, y - 4); }
  for (let dec = -60; dec <= 60; dec += 30) if (dec) { const [x, y] = point(180, dec); paint.fillText(`${dec > 0 ? '+' : '−'}${Math.abs(dec)}°`, x + 16, y - 4); }
  if (cursor) {
    const [x, y] = point(cursor.ra, cursor.dec);
    paint.strokeStyle = colour('--focus');
    paint.lineWidth = 2;
    paint.beginPath();
    paint.arc(x, y, 7, 0, 2 * Math.PI);
    paint.stroke();
  }
}
