// What the heat map and the tables can show of a node: name, unit, and where the number comes from.
// It never draws.
import { bytes, count, decimal, percent, rate, seconds, shortBytes } from './format.js';

const share = { show: (value) => percent(value), short: (value) => String(Math.round(value * 100)), top: 1, unit: '%' };
const size = { show: bytes, short: shortBytes, binary: true, unit: 'bytes' };
const speed = { show: rate, short: shortBytes, binary: true, unit: 'bytes per second' };
const number = { show: count, short: (value) => String(Math.round(value)), unit: 'count', whole: true };

const ofLoad = (field) => (node) => node.load?.[field] ?? null;

export const METRICS = [
  { key: 'processor', label: 'Processor', ...share, of: ofLoad('processor') },
  { key: 'node_processor', label: 'Processor, node program', ...share, of: ofLoad('node_processor') },
  { key: 'spe_processor', label: 'Processor, SPEs', ...share, of: ofLoad('spe_processor') },
  { key: 'memory', label: 'Memory', ...share, of: (node) => ratio(node.load?.memory_bytes, node.memoryBytes) },
  { key: 'node_memory', label: 'Memory, node program', ...size, of: ofLoad('node_memory_bytes') },
  { key: 'spe_memory', label: 'Memory, SPEs', ...size, of: ofLoad('spe_memory_bytes') },
  { key: 'disk_busy', label: 'Disk busy', ...share, of: ofLoad('disk_busy') },
  { key: 'disk_latency', label: 'Disk latency', show: seconds, short: (value) => decimal(value * 1000, value < 0.01 ? 1 : 0), unit: 'ms', of: ofLoad('disk_latency_seconds') },
  { key: 'disk_queue', label: 'Disk queue', show: (value) => decimal(value, 1), short: (value) => decimal(value, 1), unit: 'requests', of: ofLoad('disk_queue') },
  { key: 'disk_read', label: 'Disk read', ...speed, of: ofLoad('disk_read_bytes_per_second') },
  { key: 'disk_written', label: 'Disk written', ...speed, of: ofLoad('disk_written_bytes_per_second') },
  { key: 'received', label: 'Network received', ...speed, of: ofLoad('network_received_bytes_per_second') },
  { key: 'sent', label: 'Network sent', ...speed, of: ofLoad('network_sent_bytes_per_second') },
  { key: 'spes', label: 'SPEs', ...number, of: ofLoad('spes') },
  { key: 'transfers', label: 'Transfers', ...number, of: ofLoad('transfers') },
  { key: 'fill', label: 'Disk space used', ...share, now: true, of: (node) => (node.info ? (node.info.fill_percent ?? 0) / 100 : null) },
  { key: 'slices', label: 'Slices', ...number, now: true, of: (node) => node.info?.slices ?? null },
  { key: 'marks', label: 'Marks by jobs in the last hour', ...number, now: true, of: (node) => (node.info ? marks(node.info) : null) },
];

const ratio = (part, whole) => (part == null || !whole ? null : part / whole);
export const marks = (info) => (info.marks?.failed ?? 0) + (info.marks?.overtaken ?? 0);
export const metricOf = (key) => METRICS.find((metric) => metric.key === key) ?? METRICS[0];

/** The number at the upper end of the scale: a round one at or above all values. */
export function topOf(metric, values) {
  if (metric.top) return metric.top;
  return roundTop(values.reduce((top, value) => (value != null && value > top ? value : top), 0), metric);
}

export function roundTop(most, { binary, whole }) {
  if (!(most > 0)) return binary ? 1024 : whole ? 1 : 0.001;
  const power = binary ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1;
  const top = roundUp(most / power) * power;
  return whole ? Math.max(1, Math.ceil(top)) : top;
}

function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

/** States of a node that are shown by a sign: sign and words. */
export const SIGNS = {
  down: { mark: '✕', words: 'down' },
  joining: { mark: '…', words: 'joining' },
  drained: { mark: '∅', words: 'drained' },
  draining: { mark: '⇢', words: 'draining' },
  failed: { mark: '!', words: 'disk failed' },
  full: { mark: '■', words: 'full' },
  slow: { mark: '▼', words: 'slow' },
  marked: { mark: '◥', words: 'marked by jobs' },
};

function signsOf(info) {
  if (!info) return [];
  const signs = [];
  if (info.state === 'joining') signs.push('joining');
  else if (info.state !== 'up') signs.push('down');
  if (info.standing === 'draining' || info.standing === 'drained') signs.push(info.standing);
  if ((info.disks ?? []).some((disk) => disk.state !== 'ok')) signs.push('failed');
  if (info.full) signs.push('full');
  if (info.slow?.length) signs.push('slow');
  if (marks(info) > 0) signs.push('marked');
  return signs;
}

/** The state of a row of `joinNodes`, in words and as a kind. */
export const stateWords = (row) => row.signs.map((sign) => SIGNS[sign].words).join(', ') || 'up';
export function stateKind(row) {
  if (row.signs.includes('down') || row.signs.includes('failed')) return 'critical';
  return row.signs.length ? 'warning' : 'ok';
}

/** One row for each node, from the list of nodes and the load of some moment. */
export function joinNodes(infos, load) {
  const known = new Map((infos ?? []).map((info) => [info.id, info]));
  const loads = new Map((load?.nodes ?? []).map((item) => [item.node, item]));
  const ids = new Set([...known.keys(), ...loads.keys()]);
  return [...ids].map((id) => {
    const info = known.get(id) ?? null;
    const item = loads.get(id);
    return {
      id,
      site: info?.site ?? item?.site ?? '',
      rack: info?.rack ?? item?.rack ?? '',
      info,
      load: item?.load ?? null,
      memoryBytes: item?.memory_bytes ?? null,
      signs: signsOf(info),
    };
  });
}
