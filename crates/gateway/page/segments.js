// Sums over the attempts of a job: medians, stragglers, skew, and the lanes of the time line. Runs in its own thread.
// It never draws and knows no page.
import { natural } from './format.js';

/** A straggler took more than so many times the median of its stage. */
const STRAGGLER = 2;
/** Below this a long time is no more than chance. */
const SHORT_MILLIS = 50;
const STRAGGLERS_KEPT = 20;
const BINS = 24;
export const ENDS = ['done', 'overtaken', 'failed', 'erred', 'stopped'];

function quantile(ordered, share) {
  return ordered.length ? ordered[Math.min(ordered.length - 1, Math.floor(share * ordered.length))] : 0;
}

/** For each stage with attempts: times, bytes and who was slow. */
function statistics(attempts) {
  const stages = new Map();
  for (const attempt of attempts) {
    if (!stages.has(attempt.stage)) stages.set(attempt.stage, []);
    stages.get(attempt.stage).push(attempt);
  }
  return [...stages].sort(([a], [b]) => a - b).map(([stage, all]) => stageStatistics(stage, all));
}

const isSlow = (attempt, limit) => attempt.took_ms > limit && attempt.end !== 'stopped';

function stageStatistics(stage, all) {
  const done = all.filter((attempt) => attempt.end === 'done');
  const took = Float64Array.from(done, (attempt) => attempt.took_ms).sort();
  const size = Float64Array.from(done, (attempt) => attempt.bytes / Math.max(1, attempt.segments)).sort();
  const median = quantile(took, 0.5);
  const limit = Math.max(median * STRAGGLER, SHORT_MILLIS);
  const slow = all.filter((attempt) => isSlow(attempt, limit)).sort((a, b) => b.took_ms - a.took_ms);
  return {
    stage, median, limit,
    slowCount: slow.length,
    stragglers: slow.slice(0, STRAGGLERS_KEPT).map((attempt) => ({ ...attempt, times: attempt.took_ms / Math.max(1, median) })),
    most: quantile(took, 1),
    bytes: { least: quantile(size, 0), median: quantile(size, 0.5), p95: quantile(size, 0.95), most: quantile(size, 1) },
    bins: histogram(size),
  };
}

function histogram(ordered) {
  const most = ordered.at(-1) || 1;
  const bins = new Array(BINS).fill(0);
  for (const value of ordered) bins[Math.min(BINS - 1, Math.floor((value / most) * BINS))] += 1;
  return bins;
}

/** Attempts of one node that overlap in time get lanes of their own, as its SPEs worked side by side. */
function lanesOf(attempts) {
  const byNode = new Map();
  for (const attempt of attempts) {
    if (!byNode.has(attempt.node)) byNode.set(attempt.node, []);
    byNode.get(attempt.node).push(attempt);
  }
  const lanes = [];
  const nodes = [];
  for (const node of [...byNode.keys()].sort(natural)) {
    const first = lanes.length;
    const ends = [];
    for (const attempt of byNode.get(node).sort((a, b) => a.began_ms - b.began_ms)) {
      let lane = ends.findIndex((until) => until <= attempt.began_ms);
      if (lane < 0) { lane = ends.length; lanes.push([]); ends.push(0); }
      ends[lane] = attempt.began_ms + attempt.took_ms;
      lanes[first + lane].push(attempt);
    }
    nodes.push({ node, first, count: lanes.length - first });
  }
  return { lanes, nodes };
}

/** A list of texts without doubles, and the place of each. */
function table(texts) {
  const places = new Map();
  const at = Uint32Array.from(texts, (text) => { if (!places.has(text)) places.set(text, places.size); return places.get(text); });
  return { at, texts: [...places.keys()] };
}

/** All that the page needs, as flat arrays in the order of lanes: a hundred thousand cost it next to nothing. */
export function pack(attempts) {
  const stages = statistics(attempts);
  const limits = new Map(stages.map((stage) => [stage.stage, stage.limit]));
  const { lanes, nodes } = lanesOf(attempts);
  const all = lanes.flat();
  const starts = new Uint32Array(lanes.length + 1);
  lanes.forEach((lane, at) => { starts[at + 1] = starts[at] + lane.length; });
  const numbers = (field) => Float64Array.from(all, (attempt) => attempt[field]);
  const until = Float64Array.from(all, (attempt) => attempt.began_ms + attempt.took_ms);
  return {
    count: all.length, stages, nodes, starts, laneCount: lanes.length,
    end_ms: until.reduce((most, value) => Math.max(most, value), 1),
    began_ms: numbers('began_ms'), until, took_ms: numbers('took_ms'), bytes: numbers('bytes'),
    stage: numbers('stage'), segment: numbers('segment'), segments: numbers('segments'), attempt: numbers('attempt'), run: numbers('run'),
    end: Uint8Array.from(all, (attempt) => Math.max(0, ENDS.indexOf(attempt.end))),
    slow: Uint8Array.from(all, (attempt) => (isSlow(attempt, limits.get(attempt.stage)) ? 1 : 0)),
    node: table(all.map((attempt) => attempt.node)),
    slice: table(all.map((attempt) => attempt.slice)),
  };
}

/** One attempt of a pack as an object again. */
export function attemptOf(pack, at) {
  const found = { end: ENDS[pack.end[at]], node: pack.node.texts[pack.node.at[at]], slice: pack.slice.texts[pack.slice.at[at]] };
  for (const field of ['stage', 'segment', 'segments', 'attempt', 'run', 'began_ms', 'took_ms', 'bytes']) found[field] = pack[field][at];
  return found;
}

/** The first place from `low` on, before `high`, whose value is not below a limit. */
export function firstFrom(values, limit, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit) low = middle + 1; else high = middle;
  }
  return low;
}
