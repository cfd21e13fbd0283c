// The jobs, newest first, by state and user.
// It never starts a job: that is for the form (jobform.js).
import { html } from './vendor/htm.js';
import { query, useGet } from './api.js';
import { ago, bytes, count, plural } from './format.js';
import { go, link } from './route.js';
import { Table } from './table.js';
import { Bar, Failed, Name, Section, State, Time, Waiting } from './widgets.js';

const STATES = ['running', 'done', 'failed', 'cancelled', 'lost'];

export function Jobs({ options, session }) {
  const wanted = { user: options.get('user') ?? '', state: options.get('state') ?? '', limit: options.get('limit') ?? '200' };
  const answer = useGet(`/jobs${query(wanted)}`, 3000);
  const change = (part) => go(['jobs'], Object.fromEntries(Object.entries({ ...wanted, ...part }).filter(([key, value]) => value && !(key === 'limit' && value === '200'))), { replace: true });
  const tools = html`<div class="tools">
    <label>State <select value=${wanted.state} onChange=${(event) => change({ state: event.currentTarget.value })}><option value="">all</option>${STATES.map((state) => html`<option value=${state}>${state}</option>`)}</select></label>
    <label>User <input type="search" value=${wanted.user} placeholder="anybody" onChange=${(event) => change({ user: event.currentTarget.value.trim() })} /></label>
    ${!session.read_only && html`<a class="button button-strong" href=${link(['jobs', 'new'])}>New job</a>`}</div>`;
  const isCut = answer.data?.length >= Number(wanted.limit);
  return html`<h1>Jobs</h1>
    <${Section} title=${answer.data ? `${isCut ? 'The newest ' : ''}${plural(answer.data.length, 'job')}` : 'Jobs'} tools=${tools}>
      ${answer.data ? html`<${Failed} error=${answer.error} /><${JobTable} jobs=${answer.data} empty="No job matches. “New job” starts one, and so does “sector run”." />
        ${isCut && html`<button type="button" onClick=${() => change({ limit: String(Number(wanted.limit) + 500) })}>Show older ones</button>`}`
        : html`<${Waiting} answer=${answer} />`}<//>`;
}

export function totals(job) {
  const sum = (field) => (job.stages ?? []).reduce((all, stage) => all + (stage[field] ?? 0), 0);
  return { segments: sum('segments'), done: sum('done'), failed: sum('failed'), retried: sum('retried'), local: sum('local'), bytesIn: sum('bytes_in'), bytesOut: job.stages?.at(-1)?.bytes_out ?? 0 };
}

export function JobTable({ jobs, isShort, empty }) {
  const columns = [
    { key: 'state', label: 'State', value: (job) => job.state, show: (job) => html`<${State} of=${job.state} />` },
    { key: 'title', label: 'What', grow: true, value: (job) => job.title, show: (job) => html`<a href=${link(['jobs', job.id])}><${Name} text=${job.title || job.id} /></a>` },
    { key: 'user', label: 'User', wide: true, value: (job) => job.user, show: (job) => html`<${Name} text=${job.user} />` },
    { key: 'progress', label: 'Segments', value: (job) => totals(job).done, show: (job) => html`<${JobBar} job=${job} />` },
    { key: 'started', label: 'Started', wide: isShort, value: (job) => job.started, show: (job) => html`<${Time} at=${job.started} show=${isShort ? (at) => ago(at) : null} />` },
    !isShort && { key: 'in', label: 'Read', num: true, wide: true, value: (job) => totals(job).bytesIn, show: (job) => bytes(totals(job).bytesIn) },
    !isShort && { key: 'failed', label: 'Failed', num: true, wide: true, value: (job) => job.failed_segments, show: (job) => count(job.failed_segments) },
    !isShort && { key: 'id', label: 'Id', wide: true, value: (job) => job.id, show: (job) => html`<code>${job.id}</code>` },
  ].filter(Boolean);
  return html`<${Table} label="Jobs" columns=${columns} rows=${jobs} keyOf=${(job) => job.id} onOpen=${(job) => go(['jobs', job.id])} empty=${empty} />`;
}

function JobBar({ job }) {
  const { done, segments } = totals(job);
  return html`<${Bar} share=${done / Math.max(1, segments)} label="Segments done" text="${count(done)} of ${count(segments)}" />`;
}
