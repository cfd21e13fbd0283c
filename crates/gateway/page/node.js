// The page of one node: what it is, how busy it was, its disks, links, marks and background work.
// It never changes the node: draining and removing are for the command line.
import { html, useMemo, useState } from './vendor/htm.js';
import { useGet } from './api.js';
import { Chart } from './charts.js';
import { ago, bytes, clean, count, decimal, percent, plural, rate, seconds } from './format.js';
import { useLive } from './live.js';
import { Marks } from './marks.js';
import { joinNodes, stateKind, stateWords } from './metrics.js';
import { Table } from './table.js';
import { Bar, Facts, Failed, Fill, Name, Notice, Section, State, Time } from './widgets.js';
import { WorkTable } from './work.js';

const SPANS = [[60, '1 min'], [600, '10 min'], [3600, '1 h'], [21600, '6 h'], [86400, '1 day']];

export function NodePage({ id }) {
  const { overview } = useLive();
  const row = useMemo(() => overview && joinNodes(overview.nodes, overview.load).find((node) => node.id === id), [overview, id]);
  if (!overview) return html`<h1><${Name} text=${id} /></h1><p class="quiet" aria-busy="true">Waiting for the first state of the cloud …</p>`;
  if (!row) return html`<h1><${Name} text=${id} /></h1><${Notice}>There is no node of this name. It may have been removed. <a href="#/">Go to the overview</a>.<//>`;
  const info = row.info;
  const work = (overview.work ?? []).filter((item) => item.at === id);
  return html`
    <p class="crumbs"><a href="#/">Overview</a> / <${Name} text=${row.site} /> / <${Name} text=${row.rack} /></p>
    <h1><${Name} text=${id} /> <${State} of=${stateKind(row)} text=${stateWords(row)} /></h1>
    ${info && html`<${NodeFacts} info=${info} row=${row} />`}
    <${Marks} marks=${(overview.marks ?? []).filter((mark) => mark.node === id)} />
    <${Load} id=${id} memoryBytes=${row.memoryBytes} />
    ${info && html`<${Disks} disks=${info.disks ?? []} loads=${diskLoads(overview, id)} />`}
    <${Section} title="Background work"><${WorkTable} rows=${work} isOneNode empty="This node has reported no background work." /><//>
    ${info?.links?.length > 0 && html`<${NodeLinks} links=${info.links} />`}
    <${Processes} processes=${processesOf(overview, id)} />`;
}

const loadOf = (overview, id) => (overview.load?.nodes ?? []).find((item) => item.node === id);
const diskLoads = (overview, id) => loadOf(overview, id)?.disks ?? [];
const processesOf = (overview, id) => loadOf(overview, id)?.processes ?? [];

function NodeFacts({ info, row }) {
  const refused = Object.entries(info.refused_tickets ?? {}).filter(([, number]) => number > 0);
  const missing = info.sandbox_missing;
  return html`<${Facts} items=${[
    ['Site, rack', html`<${Name} text=${info.site} />, <${Name} text=${info.rack} />`],
    ['Address', html`<code>${clean(info.address)}</code>`],
    ['Membership', info.standing],
    ['Disk space', html`<${Fill} used=${info.used_bytes} free=${info.free_bytes} label="Disk space used" />`],
    ['Kept free', bytes(info.reserve_bytes)],
    ['Slices', count(info.slices)],
    ['SPEs', count(row.load?.spes)],
    ['Transfers', count(row.load?.transfers)],
    ['Marks in the last hour', `${plural(info.marks?.failed ?? 0, 'attempt')} failed, ${count(info.marks?.overtaken ?? 0)} overtaken`],
    ['Sandbox', missing == null ? 'not known' : missing.length ? html`<${State} of="warning" text=${`lacks ${missing.join(', ')}`} />` : 'complete'],
    refused.length > 0 && ['Tickets refused', refused.map(([why, number]) => `${count(number)} ${why.replaceAll('_', ' ')}`).join(', ')],
    info.data && ['Data', html`<code>${clean(info.data)}</code>`],
  ]} />`;
}

function Load({ id, memoryBytes }) {
  const [span, setSpan] = useState(600);
  const answer = useGet(`/load/${encodeURIComponent(id)}?last=${span}`, span <= 600 ? 3000 : 30000);
  const tools = html`<div class="switch" role="group" aria-label="Time span">${SPANS.map(([length, label]) => html`
    <button type="button" aria-pressed=${span === length} onClick=${() => setSpan(length)}>${label}</button>`)}</div>`;
  return html`<${Section} title="Load" tools=${tools}>
    <${Failed} error=${answer.error} />
    ${answer.data ? html`<${Charts} answer=${answer.data} span=${span} memoryBytes=${memoryBytes} />` : html`<div class="charts-room quiet">Loading …</div>`}<//>`;
}

function Charts({ answer, span, memoryBytes }) {
  const { times, of } = useMemo(() => {
    const { samples, sample_seconds: step } = answer;
    const end = Date.now() / 1000;
    return {
      times: samples.map((_, at) => end - (samples.length - 1 - at) * step),
      of: (field) => samples.map((sample) => sample?.[field] ?? null),
    };
  }, [answer]);
  if (!answer.samples.some(Boolean)) return html`<p class="quiet">This node has reported no load in this time.</p>`;
  const line = (label, field) => ({ label, values: of(field) });
  const chart = (title, show, lines, top) => html`<${Chart} key=${`${title}${span}`} title=${title} times=${times} show=${show} isBinary=${show === bytes || show === rate} series=${lines} top=${top} from=${times[0]} until=${times.at(-1)} />`;
  return html`<div class="charts">
    ${chart('Processor', (value) => percent(value), [line('machine', 'processor'), line('node', 'node_processor'), line('SPEs', 'spe_processor')], 1)}
    ${chart('Memory', bytes, [line('machine', 'memory_bytes'), line('node', 'node_memory_bytes'), line('SPEs', 'spe_memory_bytes')], memoryBytes ?? undefined)}
    ${chart('Disk', rate, [line('read', 'disk_read_bytes_per_second'), line('written', 'disk_written_bytes_per_second')])}
    ${chart('Disk busy', (value) => percent(value), [line('busy', 'disk_busy')], 1)}
    ${chart('Disk latency', seconds, [line('latency', 'disk_latency_seconds')])}
    ${chart('Network', rate, [line('received', 'network_received_bytes_per_second'), line('sent', 'network_sent_bytes_per_second')])}
  </div>`;
}

function Disks({ disks, loads }) {
  const rows = disks.map((disk, at) => ({ ...disk, load: loads[at] ?? null }));
  const columns = [
    { key: 'folder', label: 'Folder', grow: true, value: (row) => row.folder, show: (row) => html`<code>${clean(row.folder)}</code>` },
    { key: 'state', label: 'State', value: (row) => row.state, show: (row) => html`<${State} of=${row.state} /> ${row.why ? html`<${Name} text=${row.why} />` : ''}` },
    { key: 'fill', label: 'Used', value: (row) => row.used_bytes, show: (row) => html`<${Fill} used=${row.used_bytes} free=${row.free_bytes} label="Used" />` },
    { key: 'busy', label: 'Busy', num: true, value: (row) => row.load?.busy, show: (row) => percent(row.load?.busy) },
    { key: 'latency', label: 'Latency', num: true, value: (row) => row.load?.latency_seconds, show: (row) => seconds(row.load?.latency_seconds) },
    { key: 'queue', label: 'Queue', num: true, wide: true, value: (row) => row.load?.queue, show: (row) => decimal(row.load?.queue, 1) },
    { key: 'read', label: 'Read', num: true, value: (row) => row.load?.read_bytes_per_second, show: (row) => rate(row.load?.read_bytes_per_second) },
    { key: 'written', label: 'Written', num: true, value: (row) => row.load?.written_bytes_per_second, show: (row) => rate(row.load?.written_bytes_per_second) },
    { key: 'scrub', label: 'Scrub', value: (row) => row.scrub?.last_pass ?? '', show: (row) => html`<${Scrub} scrub=${row.scrub} />` },
  ];
  return html`<${Section} title="Disks"><${Table} label="Disks" columns=${columns} rows=${rows} keyOf=${(row) => row.folder} /><//>`;
}

function Scrub({ scrub }) {
  if (!scrub) return 'not known';
  const corrupt = scrub.corrupt > 0 ? html` <${State} of="corrupt" text=${`${plural(scrub.corrupt, 'slice')} corrupt`} />` : '';
  if (scrub.pass_began) return html`<${Bar} share=${scrub.checked_bytes / Math.max(1, scrub.total_bytes)} label="Scrub" text="${bytes(scrub.checked_bytes)} of ${bytes(scrub.total_bytes)}" />${corrupt}`;
  return html`${scrub.last_pass ? html`last pass <${Time} at=${scrub.last_pass} show=${(at) => ago(at)} />` : 'no pass yet'}${corrupt}`;
}

function NodeLinks({ links }) {
  const columns = [
    { key: 'site', label: 'To site', value: (row) => row.site, show: (row) => html`<${Name} text=${row.site} />` },
    { key: 'transfers', label: 'Transfers', num: true, value: (row) => row.transfers, show: (row) => count(row.transfers) },
    { key: 'waiting', label: 'Waiting for the limit', num: true, value: (row) => row.waiting, show: (row) => count(row.waiting) },
    { key: 'limit', label: 'Its share of the limit', num: true, value: (row) => row.limit_bytes_per_second, show: (row) => (row.limit_bytes_per_second == null ? 'no limit' : rate(row.limit_bytes_per_second)) },
  ];
  return html`<${Section} title="Transfers to sites"><${Table} label="Transfers to sites" columns=${columns} rows=${links} keyOf=${(row) => row.site} /><//>`;
}

function Processes({ processes }) {
  if (!processes.length) return null;
  const columns = [
    { key: 'pid', label: 'Process', num: true, value: (row) => row.pid },
    { key: 'processor', label: 'Processor', num: true, value: (row) => row.processor, show: (row) => percent(row.processor) },
    { key: 'memory', label: 'Memory', num: true, value: (row) => row.memory_bytes, show: (row) => bytes(row.memory_bytes) },
  ];
  return html`<${Section} title="SPE processes"><${Table} label="SPE processes" columns=${columns} rows=${processes} keyOf=${(row) => row.pid} /><//>`;
}
