// Links between sites: lines with rate, round trip and loss beside them, and the same as a list.
// It never guesses a number: what was not measured is left out.
import { html, useRef } from './vendor/htm.js';
import { clean, loss, natural, percent, rate, seconds } from './format.js';
import { useWidth } from './heatmap.js';
import { Table } from './table.js';
import { Name, Section } from './widgets.js';

const SITES_DRAWN_MAX = 9;
const BOX = [146, 42];
const LABEL = [132, 50];
/** Loss from which a link is drawn as a bad one. */
const BAD_LOSS = 0.01;

export function Links({ links, rows, isPast }) {
  const box = useRef(null);
  const width = useWidth(box);
  const sites = [...new Set(rows.map((row) => row.site))].sort(natural);
  if (sites.length < 2) return null;
  const isDrawn = links.length > 0 && sites.length <= SITES_DRAWN_MAX && width >= 640;
  return html`<${Section} title="Links between sites">
    <div ref=${box}>
      ${links.length === 0 && html`<p class="quiet">${isPast ? 'No link was measured at that time.' : 'No traffic between sites has been measured.'}</p>`}
      ${isDrawn && html`<${LinkMap} links=${links} sites=${sites} rows=${rows} width=${width} isPast=${isPast} />`}
      ${links.length > 0 && (isDrawn ? html`<details><summary>As a list</summary><${LinkList} links=${links} /></details>` : html`<${LinkList} links=${links} />`)}
    </div><//>`;
}

function LinkList({ links }) {
  const number = (key, label, show) => ({ key, label, num: true, value: (row) => row[key], show: (row) => show(row[key]) });
  const columns = [
    { key: 'from', label: 'From', value: (row) => row.from, show: (row) => html`<${Name} text=${row.from} />` },
    { key: 'to', label: 'To', value: (row) => row.to, show: (row) => html`<${Name} text=${row.to} />` },
    number('sent_bytes_per_second', 'Rate', rate),
    number('round_trip_seconds', 'Round trip', seconds),
    number('loss', 'Loss', loss),
    { ...number('retransmitted_bytes_per_second', 'Sent again', rate), wide: true },
    { ...number('limit_bytes_per_second', 'Limit', (value) => (value == null ? 'none' : rate(value))), wide: true },
    { key: 'share', label: 'Of limit', num: true, wide: true, value: shareOf, show: (row) => percent(shareOf(row)) },
    { key: 'marked', label: 'Marked', value: (row) => row.marked ?? '', show: (row) => (row.marked ? html`<span class="state state-warning">▲ <${Name} text=${row.marked} /></span>` : '') },
  ];
  return html`<${Table} label="Links between sites" columns=${columns} rows=${links} keyOf=${(row) => `${row.from} ${row.to}`} sort=${['from', 1]} />`;
}

const shareOf = (link) => (link.limit_bytes_per_second ? (link.sent_bytes_per_second ?? 0) / link.limit_bytes_per_second : null);

/** Both directions of each pair of sites together. */
function pairsOf(links, sites) {
  const pairs = new Map();
  for (const link of links) {
    const [from, to] = [sites.indexOf(link.from), sites.indexOf(link.to)];
    if (from < 0 || to < 0 || from === to) continue;
    const key = `${Math.min(from, to)}-${Math.max(from, to)}`;
    if (!pairs.has(key)) pairs.set(key, { a: Math.min(from, to), b: Math.max(from, to), there: null, back: null });
    pairs.get(key)[from < to ? 'there' : 'back'] = link;
  }
  return [...pairs.values()];
}

const bothOf = (pair) => [pair.there, pair.back].filter(Boolean);
const rateOf = (pair) => bothOf(pair).reduce((sum, link) => sum + (link.sent_bytes_per_second ?? 0), 0);
const isBad = (pair) => bothOf(pair).some((link) => link.marked || (link.loss ?? 0) >= BAD_LOSS);

function LinkMap({ links, sites, rows, width, isPast }) {
  const height = sites.length <= 2 ? 90 : sites.length <= 4 ? 240 : 400;
  const points = placeSites(sites.length, width, height);
  const pairs = pairsOf(links, sites);
  const most = Math.max(1, ...pairs.map(rateOf));
  const labels = placeLabels(pairs, points);
  return html`<svg class="link-map" viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" aria-label="Links between ${sites.length} sites; the same numbers are in the list below">
    ${pairs.map((pair) => html`<line x1=${points[pair.a][0]} y1=${points[pair.a][1]} x2=${points[pair.b][0]} y2=${points[pair.b][1]}
      class=${isBad(pair) ? 'bad' : ''} stroke-width=${1 + 7 * Math.sqrt(rateOf(pair) / most)} />`)}
    ${labels.map(({ pair, x, y }) => html`<${LinkLabel} pair=${pair} x=${x} y=${y} points=${points} />`)}
    ${sites.map((site, at) => html`<${SiteBox} name=${site} at=${points[at]} rows=${rows.filter((row) => row.site === site)} isPast=${isPast} />`)}
  </svg>`;
}

function placeSites(count, width, height) {
  if (count === 2) return [[BOX[0] / 2 + 8, height / 2], [width - BOX[0] / 2 - 8, height / 2]];
  const rx = Math.min(430, width / 2 - BOX[0] / 2 - 8);
  const turns = Array.from({ length: count }, (_, at) => (at / count) * 2 * Math.PI - Math.PI / 2);
  const lowest = Math.max(...turns.map(Math.sin));
  const [first, last] = [BOX[1] / 2 + 6, height - BOX[1] / 2 - 10];
  return turns.map((turn) => [width / 2 + rx * Math.cos(turn), first + ((Math.sin(turn) + 1) / (lowest + 1)) * (last - first)]);
}

/** Each label on its line, where it covers neither a site nor another label; the busiest links choose first. */
function placeLabels(pairs, points) {
  const taken = points.map(([x, y]) => [x - BOX[0] / 2, y - BOX[1] / 2, ...BOX]);
  const placed = [];
  for (const pair of [...pairs].sort((a, b) => isBad(b) - isBad(a) || rateOf(b) - rateOf(a))) {
    const [[ax, ay], [bx, by]] = [points[pair.a], points[pair.b]];
    for (const share of [0.5, 0.42, 0.58, 0.35, 0.65, 0.29, 0.71, 0.24, 0.76]) {
      const [x, y] = [ax + (bx - ax) * share, ay + (by - ay) * share];
      const place = [x - LABEL[0] / 2, y - LABEL[1] / 2, ...LABEL];
      if (taken.some((other) => overlaps(place, other))) continue;
      taken.push(place);
      placed.push({ pair, x, y });
      break;
    }
  }
  return placed;
}

const overlaps = ([x, y, w, h], [ox, oy, ow, oh]) => x < ox + ow && ox < x + w && y < oy + oh && oy < y + h;

function LinkLabel({ pair, x, y, points }) {
  const isMirrored = points[pair.a][0] > points[pair.b][0] + 1;
  const [right, left] = isMirrored ? [pair.back, pair.there] : [pair.there, pair.back];
  const trip = bothOf(pair).map((link) => link.round_trip_seconds).find((value) => value != null);
  const worst = bothOf(pair).reduce((most, link) => (link.loss == null ? most : Math.max(most ?? 0, link.loss)), null);
  const mark = bothOf(pair).map((link) => link.marked).find(Boolean);
  const lines = [
    [right && `${rate(right.sent_bytes_per_second)} →`, left && `← ${rate(left.sent_bytes_per_second)}`].filter(Boolean),
    [[trip != null && seconds(trip), worst != null && `loss ${loss(worst)}`].filter(Boolean).join(' · ')],
  ].flat().filter(Boolean);
  return html`<g class="link-label ${isBad(pair) ? 'bad' : ''}">
    <title>${clean(mark ?? '')}</title>
    <rect x=${x - LABEL[0] / 2} y=${y - LABEL[1] / 2} width=${LABEL[0]} height=${LABEL[1]} rx="2" />
    ${lines.map((line, at) => html`<text x=${x} y=${y + (at - (lines.length - 1) / 2) * 14 + 4}>${at === lines.length - 1 && isBad(pair) ? `▲ ${line}` : line}</text>`)}</g>`;
}

function SiteBox({ name, at: [x, y], rows, isPast }) {
  const up = rows.filter((row) => !row.signs.includes('down')).length;
  const text = clean(name);
  return html`<g class="site-box"><title>${text}</title>
    <rect x=${x - BOX[0] / 2} y=${y - BOX[1] / 2} width=${BOX[0]} height=${BOX[1]} rx="3" />
    <text class="strong" x=${x} y=${y - 3}>${text.length > 16 ? `${text.slice(0, 15)}…` : text}</text>
    <text x=${x} y=${y + 13}>${isPast || up === rows.length ? `${rows.length} nodes` : `${up} of ${rows.length} nodes up`}</text></g>`;
}
