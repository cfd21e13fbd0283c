// The overview: one sentence of health, the heat map with its way back through a day, links between sites, and what is
// at work. It never changes anything in the cloud.
import { html, useEffect, useMemo, useRef, useState } from './vendor/htm.js';
import { get } from './api.js';
import { clock, count, plural, seconds } from './format.js';
import { HeatMap } from './heatmap.js';
import { JobTable } from './jobs.js';
import { useLive } from './live.js';
import { markedLinks, Marks } from './marks.js';
import { joinNodes, METRICS, metricOf, stateKind, stateWords } from './metrics.js';
import { link } from './route.js';
import { Links } from './sites.js';
import { Table } from './table.js';
import { Facts, Failed, Fill, Name, Section, Sentence, State } from './widgets.js';
import { isTroubled, WorkTable } from './work.js';

const DAY = 86400;
const WORK_SHOWN = 8;

export function Overview() {
  const { overview, status, received } = useLive();
  const [metricKey, setMetric] = useState('processor');
  const [view, setView] = useState('map');
  const past = usePast();
  const metric = metricOf(metricKey);
  const isPast = past.at != null;
  const load = isPast ? past.load : overview?.load;
  const links = isPast ? past.links : overview?.links;
  const rows = useMemo(() => (overview ? joinNodes(overview.nodes, load) : []), [overview, load]);
  if (!overview) return html`<h1>Overview</h1><p class="quiet" aria-busy="true">Waiting for the first state of the cloud …</p>`;
  const tools = html`<div class="tools">
    ${view === 'map' && html`<label>Show <select value=${metricKey} onChange=${(event) => setMetric(event.currentTarget.value)}>
      ${METRICS.map(({ key, label, now }) => html`<option value=${key} disabled=${isPast && now}>${label}</option>`)}</select></label>`}
    <div class="switch" role="group" aria-label="View">${[['map', 'Map'], ['table', 'Table']].map(([key, label]) => html`
      <button type="button" aria-pressed=${view === key} onClick=${() => setView(key)}>${label}</button>`)}</div></div>`;
  return html`
    <h1 class="unseen">Overview</h1>
    <${Health} overview=${overview} then=${status === 'live' ? null : received} />
    <${Section} title="Nodes" tools=${tools}>
      <${TimeBar} past=${past} />
      ${isPast && metric.now && view === 'map' && html`<p class="quiet">${metric.label} is only known as it is now.</p>`}
      ${view === 'map' ? html`<${HeatMap} rows=${rows} metric=${metric} isPast=${isPast} />` : html`${isPast && html`<p class="quiet">State, used and slices are as they are now; the load is that of the chosen time.</p>`}<${NodeTable} rows=${rows} />`}
    <//>
    <${Marks} marks=${overview.marks} />
    <${Links} links=${markedLinks(links ?? [], overview.marks)} rows=${rows} isPast=${isPast} />
    <div class="columns">
      <${RunningJobs} jobs=${overview.jobs ?? []} />
      <${BusyWork} work=${overview.work ?? []} />
    </div>`;
}

const HEADS = { ok: ['The cloud is well', 'the cloud was well'], warning: ['The cloud needs attention', 'the cloud needed attention'], critical: ['The cloud is in trouble', 'the cloud was in trouble'] };

/** `then` is the time of the state where it is not the newest: what was well may not be any more. */
function Health({ overview, then }) {
  const { health, nodes = [] } = overview;
  const [isAll, showAll] = useState(false);
  const up = nodes.filter((node) => node.state === 'up').length;
  const sites = new Set(nodes.map((node) => node.site)).size;
  const [first, ...more] = alike(health.reasons ?? []);
  const shown = isAll ? more : more.slice(0, 4);
  const what = `${plural(up, 'node')}, ${plural(sites, 'site')}`;
  const well = then ? `every file had its copies and every node was up (${what}).` : `every file has its copies and every node is up (${what}); there is nothing to do.`;
  const [now, before] = HEADS[health.status] ?? [health.status, health.status];
  const head = then ? `Not known now; at ${clock(then)} ${before}` : now;
  const running = (overview.jobs ?? []).filter((job) => job.state === 'running').length;
  return html`<section class="health health-${health.status}" aria-label="Health">
    <p class="health-sentence"><${State} of=${then ? 'off' : health.status} text=${head} />: ${first ? html`<${Reason} of=${first} />` : well}</p>
    ${shown.length > 0 && html`<ul>${shown.map((reason) => html`<li><${Reason} of=${reason} /></li>`)}</ul>`}
    ${more.length > 4 && html`<button type="button" onClick=${() => showAll(!isAll)}>${isAll ? 'Show fewer' : `Show ${more.length - 4} more`}</button>`}
    <${Facts} items=${[
      ['Nodes up', `${count(up)} of ${count(nodes.length)}`],
      ['Space used', html`<${Fill} used=${health.used_bytes} free=${health.free_bytes} label="Space used" />`],
      ['Jobs running', html`<a href="#/jobs">${count(running)}</a>`],
      health.under_replicated > 0 && ['Files short of copies', count(health.under_replicated)],
      health.lost > 0 && ['Files without a copy', count(health.lost)],
      health.corrupt > 0 && ['Corrupt copies', count(health.corrupt)],
      health.misplaced > 0 && ['Files with misplaced copies', count(health.misplaced)],
    ]} /></section>`;
}

/** Reasons that say the same of several nodes, together. */
function alike(reasons) {
  const groups = new Map();
  for (const text of reasons) {
    const node = /^node (\S+)/.exec(text)?.[1];
    const key = node ? text.replace(node, '').replace(/\d+/g, '') : text;
    if (!groups.has(key)) groups.set(key, { text, others: [] });
    else if (node) groups.get(key).others.push(node);
  }
  return [...groups.values()];
}

function Reason({ of: { text, others } }) {
  const named = others.slice(0, 6);
  return html`<${Sentence} text=${text} />.${others.length > 0 && html` <span class="also">The same of ${plural(others.length, 'further node')}: ${named.map((node, at) => html`${at > 0 && ', '}<a href=${link(['nodes', node])}><${Name} text=${node} /></a>`)}${others.length > named.length ? ' …' : ''}</span>`}`;
}

/** A moment of the last day that was chosen, and what was then; `at` is null for now. */
function usePast() {
  const [at, setAt] = useState(null);
  const [answer, setAnswer] = useState({ at: null, load: null, links: null, error: null });
  const kept = useRef(new Map());
  useEffect(() => {
    if (at == null) return undefined;
    const known = kept.current.get(at);
    if (known) { setAnswer(known); return undefined; }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      const back = Math.round(Math.max(0, Math.min(DAY, (Date.now() - at) / 1000)));
      try {
        const ask = (path) => get(`${path}?ago=${back}`, { signal: stop.signal });
        const [load, links] = await Promise.all([ask('/load'), ask('/links')]);
        const found = { at, load, links, error: null };
        if (kept.current.size > 40) kept.current.clear();
        kept.current.set(at, found);
        setAnswer(found);
      } catch (error) {
        if (!stop.signal.aborted) setAnswer((old) => ({ ...old, at, error }));
      }
    }, 120);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [at]);
  return { at, setAt, ...(at == null ? {} : { load: answer.load, links: answer.links, error: answer.at === at ? answer.error : null, isReady: answer.at === at }) };
}

function TimeBar({ past }) {
  const back = past.at == null ? 0 : Math.round((Date.now() - past.at) / 1000);
  const choose = (event) => {
    const wanted = -Number(event.currentTarget.value);
    past.setAt(wanted <= 0 ? null : Math.round((Date.now() - wanted * 1000) / 10000) * 10000);
  };
  const words = past.at == null ? 'now' : `${clock(past.at)}, ${seconds(back)} ago`;
  return html`<div class="time-bar ${past.at == null ? '' : 'past'}">
    <label for="time">Time</label>
    <input id="time" type="range" min=${-DAY} max="0" step="60" value=${-back} aria-valuetext=${words} onInput=${choose} />
    <button type="button" disabled=${past.at == null} onClick=${() => past.setAt(null)}>Now</button>
    <output for="time">${past.at == null ? html`<span class="quiet">live; move it to the left to go back, up to a day</span>` : html`<strong>${clock(past.at)}</strong> · ${seconds(back)} ago`}</output>
    ${past.at != null && !past.isReady && html`<span class="quiet" role="status">Loading …</span>`}
    <${Failed} error=${past.error} /></div>`;
}

const TABLE_METRICS = ['processor', 'memory', 'disk_busy', 'disk_latency', 'disk_read', 'disk_written', 'received', 'sent', 'spes', 'transfers', 'fill', 'slices'];
const SHORT = { disk_busy: 'Busy', disk_latency: 'Latency', disk_read: 'Read', disk_written: 'Written', received: 'Received', sent: 'Sent', fill: 'Used' };

function NodeTable({ rows }) {
  const columns = [
    { key: 'id', label: 'Node', value: (row) => row.id, show: (row) => html`<a href=${link(['nodes', row.id])}><${Name} text=${row.id} /></a>` },
    { key: 'site', label: 'Site', value: (row) => row.site, show: (row) => html`<${Name} text=${row.site} />` },
    { key: 'rack', label: 'Rack', wide: true, value: (row) => row.rack, show: (row) => html`<${Name} text=${row.rack} />` },
    { key: 'state', label: 'State', value: (row) => stateWords(row), show: (row) => html`<${State} of=${stateKind(row)} text=${stateWords(row)} />` },
    ...TABLE_METRICS.map(metricOf).map((metric) => ({
      key: metric.key, label: SHORT[metric.key] ?? metric.label, num: true, value: metric.of,
      show: (row) => { const value = metric.of(row); return value == null ? '–' : metric.show(value); },
    })),
  ];
  return html`<${Table} label="Nodes" columns=${columns} rows=${rows} keyOf=${(row) => row.id} sort=${['id', 1]}
    onOpen=${(row) => { location.hash = link(['nodes', row.id]); }} />`;
}

function RunningJobs({ jobs }) {
  const running = jobs.filter((job) => job.state === 'running');
  const shown = running.length ? running : jobs.slice(0, 5);
  return html`<${Section} title=${running.length ? 'Jobs running' : 'Last jobs'} tools=${html`<a href="#/jobs">All jobs</a>`}>
    <${JobTable} jobs=${shown} isShort empty="No job has run yet." /><//>`;
}

function BusyWork({ work }) {
  const busy = work.filter((row) => isTroubled(row) || row.state === 'running').sort((a, b) => isTroubled(b) - isTroubled(a));
  return html`<${Section} title="Background work" tools=${html`<a href="#/work">All work</a>`}>
    <${WorkTable} rows=${busy.slice(0, WORK_SHOWN)} isShort empty="Nothing is running, and nothing fails." />
    ${busy.length > WORK_SHOWN && html`<p class="quiet">and <a href="#/work">${busy.length - WORK_SHOWN} more</a></p>`}<//>`;
}

