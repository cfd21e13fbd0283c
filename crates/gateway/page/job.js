// The page of one job: stages, time line, stragglers, skew, errors with their records, logs, and cancelling.
// It never keeps attempts of a job that one has left.
import { html, useMemo, useState } from './vendor/htm.js';
import { ApiError, send, useGet } from './api.js';
import { ago, bytes, clean, cleanLines, count, percent, plural, seconds } from './format.js';
import { link, segmentsOf, parentOf, nameOf } from './route.js';
import { attemptOf, ENDS } from './segments.js';
import { Table } from './table.js';
import { TimeLine } from './timeline.js';
import { Ask, Bar, Facts, Failed, Name, Notice, Section, Sentence, State, tell, Time, Waiting } from './widgets.js';
import { totals } from './jobs.js';

const STRAGGLERS_SHOWN = 20;
const SEGMENTS_EVERY_MILLIS = 4000;
const LOGS_SHOWN = 50;

/** `output` is the folder of the results, where the form that started the job has led here. */
export function Job({ id, session, output }) {
  const path = `/jobs/${encodeURIComponent(id)}`;
  const [isOver, setOver] = useState(false);
  const answer = useGet(path, isOver ? 0 : 1500);
  const [isAsking, setAsking] = useState(false);
  const job = answer.data;
  if (job && isOver !== (job.state !== 'running')) setOver(job.state !== 'running');
  if (!job) return html`<h1>Job <${Name} text=${id} /></h1><${Waiting} answer=${answer} />`;
  const isRunning = job.state === 'running';
  return html`
    <p class="crumbs"><a href="#/jobs">Jobs</a> / <code>${clean(id)}</code></p>
    <div class="head-line"><h1><${Name} text=${job.title || id} /></h1> <${State} of=${job.state} />
      ${isRunning && !session.read_only && html`<button type="button" class="danger" onClick=${() => setAsking(true)}>Cancel the job</button>`}</div>
    ${isAsking && html`<${Ask} title="Cancel this job?" kind="danger" onClose=${() => setAsking(false)} onDone=${() => { setAsking(false); tell('The job is being cancelled.'); answer.reload(); }}
      action=${{ label: 'Cancel the job', back: 'Let it run', run: () => send('POST', `${path}/cancel`) }}>
      <p><${Name} text=${job.title || id} /> stops, and leaves no output. What it has done so far is lost.</p><//>`}
    <${Failed} error=${answer.error} />
    <${JobFacts} job=${job} output=${output} />
    ${job.errors?.length > 0 && html`<${Notice} kind="bad"><ul class="plain-list">${job.errors.map((error) => html`<li><${Sentence} text=${error} /></li>`)}</ul><//>`}
    <${Stages} stages=${job.stages ?? []} />
    <${Attempts} path=${path} isRunning=${isRunning} stageCount=${job.stages?.length ?? 1} />
    <${Errors} path=${path} job=${job} isRunning=${isRunning} />
    <${Logs} path=${path} isRunning=${isRunning} />`;
}

function JobFacts({ job, output }) {
  const all = totals(job);
  return html`<${Facts} items=${[
    ['User', html`<${Name} text=${job.user} />`],
    ['Started', html`<${Time} at=${job.started} /> <span class="quiet">${ago(job.started)}</span>`],
    ['Segments', `${count(all.done)} of ${count(all.segments)} done`],
    ['Read', bytes(all.bytesIn)],
    ['Results', html`${bytes(all.bytesOut)}${output?.startsWith('/') ? html` in <a href=${link(['files', ...segmentsOf(output)])}><${Name} text=${output} /></a>` : ''}`],
    ['Local', `${percent(all.local / Math.max(1, all.done))} of segments`],
    all.retried > 0 && ['Tried again', count(all.retried)],
    job.failed_segments > 0 && ['Given up', plural(job.failed_segments, 'segment')],
    job.driver && ['Driven by', html`<a href=${link(['nodes', job.driver])}><${Name} text=${job.driver} /></a>`],
  ]} />`;
}

function Stages({ stages }) {
  const counters = (stage) => Object.entries(stage.counters ?? {});
  const number = (key, label, show = count, wide = false) => ({ key, label, num: true, wide, value: (row) => row[key], show: (row) => show(row[key]) });
  const columns = [
    { key: 'at', label: 'Stage', num: true, value: (row) => row.at },
    { key: 'progress', label: 'Progress', value: (row) => row.done, show: (row) => html`<${Bar} share=${row.done / Math.max(1, row.segments)} label="Stage ${row.at}" text="${count(row.done)} of ${count(row.segments)} segments" />` },
    { key: 'local', label: 'Local', num: true, value: (row) => row.local / Math.max(1, row.done), show: (row) => percent(row.local / Math.max(1, row.done)) },
    number('bytes_in', 'Read', bytes), number('bytes_out', 'Written', bytes),
    number('retried', 'Tried again'), number('speculative', 'Speculative', count, true), number('failed', 'Failed'),
    { key: 'counters', label: 'Counters', wide: true, grow: true, show: (row) => counters(row).map(([name, value]) => html`<span class="counter"><${Name} text=${name} /> ${count(value)}</span> `) },
  ];
  return html`<${Section} title="Stages"><${Table} label="Stages" columns=${columns} rows=${stages.map((stage, at) => ({ ...stage, at }))} keyOf=${(row) => row.at} /><//>`;
}

let thread = null;
let asked = 0;
const waiting = new Map();

/** Reads and packs an answer in the thread for it. */
async function readSegments(response) {
  const buffer = await response.arrayBuffer();
  if (!thread) {
    thread = new Worker(new URL('./segments-thread.js', import.meta.url), { type: 'module' });
    thread.onmessage = ({ data: { id, packed, error } }) => {
      const call = waiting.get(id);
      waiting.delete(id);
      if (packed) call?.resolve(packed);
      else call?.reject(new ApiError(500, { error: { message: `The list of segments cannot be read: ${error}` } }));
    };
  }
  asked += 1;
  const id = asked;
  return new Promise((resolve, reject) => { waiting.set(id, { resolve, reject }); thread.postMessage({ id, buffer }, [buffer]); });
}

function Attempts({ path, isRunning, stageCount }) {
  const answer = useGet(`${path}/segments`, isRunning ? SEGMENTS_EVERY_MILLIS : 0, readSegments);
  const pack = answer.data;
  if (!pack) return html`<${Section} title="Time line"><div class="line-room"><${Waiting} answer=${answer} /></div><//>`;
  if (pack.count === 0) return html`<${Section} title="Time line"><p class="quiet">No segment has ended yet.</p><//>`;
  const slowCount = pack.stages.reduce((sum, stage) => sum + stage.slowCount, 0);
  const slow = pack.stages.flatMap((stage) => stage.stragglers).sort((a, b) => b.times - a.times);
  return html`
    <${Section} title="Time line"><${TimeLine} pack=${pack} stageCount=${stageCount} /><//>
    <${Section} title=${slowCount ? `Stragglers (${count(slowCount)})` : 'Stragglers'}>
      <p class="quiet">Attempts that took more than twice the median of their stage: ${pack.stages.map((stage) => `stage ${stage.stage} ${seconds(stage.median / 1000)}`).join(', ')}.</p>
      ${slowCount > 0 ? html`<${AttemptTable} label="Stragglers" rows=${slow.slice(0, STRAGGLERS_SHOWN)} sort=${['times', -1]} hasTimes />` : html`<p>There are none.</p>`}
      ${slowCount > STRAGGLERS_SHOWN && html`<p class="quiet">The ${STRAGGLERS_SHOWN} slowest are shown.</p>`}<//>
    <${Skew} stages=${pack.stages} />
    <${AllAttempts} pack=${pack} />`;
}

/** Rows are places in the pack; an object is made only for those in view. */
function AllAttempts({ pack }) {
  const [isOpen, setOpen] = useState(false);
  const rows = useMemo(() => (isOpen ? Array.from({ length: pack.count }, (_, at) => at) : []), [pack, isOpen]);
  const of = (field) => (at) => (field === 'node' || field === 'slice' ? pack[field].texts[pack[field].at[at]] : field === 'end' ? ENDS[pack.end[at]] : pack[field][at]);
  return html`<${Section} title=${`Segments (${plural(pack.count, 'attempt')})`} tools=${html`<button type="button" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? 'Hide' : 'Show as a table'}</button>`}>
    ${isOpen && html`<${AttemptTable} label="Segments" rows=${rows} sort=${['began', 1]} of=${of} whole=${(at) => attemptOf(pack, at)} keyOf=${(at) => at} />`}<//>`;
}

const nameOfAttempt = ({ run, stage, segment, attempt, node }) => `${run}.${stage}.${segment}.${attempt}.${node}`;

function AttemptTable({ label, rows, sort, hasTimes, of = (field) => (row) => row[field], whole = (row) => row, keyOf = nameOfAttempt }) {
  const column = (key, name, field, show, more) => ({ key, label: name, value: of(field), show: show && ((row) => show(whole(row))), ...more });
  const columns = [
    column('stage', 'Stage', 'stage', null, { num: true }),
    column('segment', 'Segment', 'segment', (row) => (row.segments > 1 ? `${row.segment} to ${row.segment + row.segments - 1}` : row.segment), { num: true }),
    column('node', 'Node', 'node', (row) => html`<a href=${link(['nodes', row.node])}><${Name} text=${row.node} /></a>`),
    column('took', 'Took', 'took_ms', (row) => seconds(row.took_ms / 1000), { num: true }),
    hasTimes && column('times', 'Of the median', 'times', (row) => `${row.times.toFixed(1)} ×`, { num: true }),
    column('began', 'Began at', 'began_ms', (row) => seconds(row.began_ms / 1000), { num: true, wide: true }),
    column('bytes', 'Bytes', 'bytes', (row) => bytes(row.bytes), { num: true }),
    column('end', 'End', 'end', (row) => html`<${State} of=${row.end === 'erred' ? 'failed' : row.end} text=${row.end} />`),
    column('attempt', 'Attempt', 'attempt', null, { num: true, wide: true }),
    column('slice', 'Slice', 'slice', (row) => html`<${Name} text=${row.slice} />`, { wide: true, grow: true }),
  ].filter(Boolean);
  return html`<${Table} label=${label} columns=${columns} rows=${rows} keyOf=${keyOf} sort=${sort} />`;
}

function Skew({ stages }) {
  return html`<${Section} title="Bytes by segment">
    <div class="skews">${stages.map(({ stage, bytes: size, bins, median, most }) => html`<figure class="skew">
      <figcaption><strong>Stage ${stage}</strong> <span class="quiet">least ${bytes(size.least)} · median ${bytes(size.median)} · 95 % below ${bytes(size.p95)} · most ${bytes(size.most)}
        ${size.median > 0 ? ` (${(size.most / size.median).toFixed(1)} × the median)` : ''} · took ${seconds(median / 1000)} in the median, ${seconds(most / 1000)} at most</span></figcaption>
      <div class="bins" role="img" aria-label="Stage ${stage}: segments by bytes, from 0 to ${bytes(size.most)}">${bins.map((number) => html`<span style=${{ height: `${number ? Math.max(3, (number / Math.max(...bins)) * 100) : 0}%` }} title=${plural(number, 'segment')}></span>`)}</div>
      <div class="legend-ticks"><span>0</span><span>${bytes(size.most / 2)}</span><span>${bytes(size.most)}</span></div></figure>`)}</div><//>`;
}

function Errors({ path, job, isRunning }) {
  const answer = useGet(`${path}/errors`, isRunning ? 5000 : 0);
  const errors = answer.data ?? [];
  if (errors.length === 0 && !answer.error) return null;
  const record = (error) => (error.record == null ? `segment ${error.segment}` : error.first_record == null ? `record ${error.record} of segment ${error.segment}` : `record ${error.first_record + error.record}, segment ${error.segment}`);
  return html`<${Section} title=${`Errors (${count(errors.length)})`} tools=${job.error_slice && html`<a href=${link(['files', ...segmentsOf(parentOf(job.error_slice))], { show: nameOf(job.error_slice) })}>Error slice</a>`}>
    <${Failed} error=${answer.error} />
    ${errors.slice(0, LOGS_SHOWN).map((error) => html`<article class="log">
      <h3>Stage ${error.stage}, <${Name} text=${error.function} />: <${Name} text=${error.slice} />, ${record(error)} <span class="quiet">bytes ${count(error.from)} to ${count(error.until)}</span></h3>
      ${error.record_start && html`<p class="quiet">The record begins: <code><${Name} text=${error.record_start} /></code></p>`}
      <pre tabindex="0" aria-label="Message"><bdi>${cleanLines(error.message)}</bdi></pre></article>`)}
    ${errors.length > LOGS_SHOWN && html`<p class="quiet">The first ${LOGS_SHOWN} are shown; all are in the error slice.</p>`}<//>`;
}

function Logs({ path, isRunning }) {
  const answer = useGet(`${path}/logs`, isRunning ? 5000 : 0);
  const logs = answer.data?.segments ?? [];
  const [shown, setShown] = useState(LOGS_SHOWN);
  if (logs.length === 0) return answer.error ? html`<${Section} title="Logs"><${Failed} error=${answer.error} /><//>` : null;
  return html`<${Section} title=${`Logs (${count(logs.length)})`}>
    ${answer.data.left_out > 0 && html`<p class="quiet">There was no room for what ${plural(answer.data.left_out, 'further segment')} printed.</p>`}
    ${logs.slice(0, shown).map((log) => html`<article class="log">
      <h3>Stage ${log.stage}, ${log.segment == null ? 'while the function was loaded' : `segment ${log.segment}`}, attempt ${log.attempt} on <${Name} text=${log.node} /> ${log.failed && html`<${State} of="failed" />`}</h3>
      <pre tabindex="0" aria-label="Printed"><bdi>${cleanLines(log.text)}</bdi></pre>
      ${log.left_out_bytes > 0 && html`<p class="quiet">${bytes(log.left_out_bytes)} in the middle were not kept.</p>`}</article>`)}
    ${logs.length > shown && html`<button type="button" onClick=${() => setShown(shown + LOGS_SHOWN)}>Show more</button>`}<//>`;
}
