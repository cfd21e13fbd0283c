// What happens in the cloud, as it happens: a list that grows at its top, chosen by kind and path. The newest rows are
// kept, and what a reader has missed is said. It never changes anything.
import { html, useEffect, useRef, useState } from './vendor/htm.js';
import { address, query, request, tellLoggedOut } from './api.js';
import { bytes, clean, count } from './format.js';
import { go, link, segmentsOf } from './route.js';
import { Table } from './table.js';
import { Name, Notice, Section, Sentence, Time } from './widgets.js';

/** Rows that are kept: what a person still reads, and a browser on a phone still holds. */
export const ROWS_MAX = 500;
const KINDS = [
  'file_published', 'file_replaced', 'folder_published', 'entry_removed', 'entry_renamed', 'entry_restored', 'copy_lost', 'copies_restored',
  'node_joined', 'node_left', 'node_lost', 'node_draining', 'disk_failed', 'job_begun', 'job_done', 'job_failed', 'job_cancelled',
  'quota_exceeded', 'health_changed', 'mark_set', 'mark_cleared',
];
const SPANS = [['10m', 'ten minutes ago'], ['1h', 'an hour ago'], ['1d', 'a day ago'], ['', 'now']];
const SHOW_MILLIS = 200;
const PAUSE_MAX_MILLIS = 15000;
const words = (kind) => kind.replaceAll('_', ' ');

/**
 * A stream of events until `close` is called. `take(rows)` gets what has come, oldest first, a few times a second;
 * `tell(status, message)` gets `live`, `cut` or `refused`. After a cut it goes on after the last number it has seen.
 */
function follow(wanted, take, tell) {
  let [source, timer, flush, pause, last, isOver] = [null, null, null, 1000, null, false];
  let waiting = [];
  const show = () => { flush = null; const rows = waiting; waiting = []; take(rows); };
  const note = (event) => {
    if (event.lastEventId) last = event.lastEventId;
    try { waiting.push(JSON.parse(event.data)); } catch (_) { return; }
    // More than are shown are not kept either while they come in a flood.
    if (waiting.length > 2 * ROWS_MAX) waiting = waiting.slice(-ROWS_MAX);
    flush ??= setTimeout(show, SHOW_MILLIS);
  };
  const open = () => {
    const since = last ?? wanted.since;
    source = new EventSource(address(`/events${query({ ...wanted, since })}`));
    source.onopen = () => { pause = 1000; tell('live', ''); };
    // Ids without data come as plain messages: the place to go on after.
    source.onmessage = (event) => { if (event.lastEventId) last = event.lastEventId; };
    [...KINDS, 'gap'].forEach((kind) => source.addEventListener(kind, note));
    source.addEventListener('error', (event) => fail(event.data));
  };
  const fail = async (said) => {
    source.close();
    if (isOver) return;
    if (said) { tell('cut', JSON.parse(said)?.error?.message ?? ''); }
    // The browser does not say why a stream cannot be opened; the page of the same events does.
    try {
      await request('GET', `/events${query({ ...wanted, since: last ?? '1s' })}`, { quiet401: true });
      if (!said) tell('cut', '');
    } catch (error) {
      if (isOver) return;
      if (error.status === 401) { tellLoggedOut(); return; }
      if (error.status === 400 || error.status === 403) { tell('refused', error.message); return; }
      tell('cut', error.message);
    }
    if (isOver) return;
    timer = setTimeout(open, pause);
    pause = Math.min(pause * 2, PAUSE_MAX_MILLIS);
  };
  open();
  return () => { isOver = true; source.close(); clearTimeout(timer); clearTimeout(flush); };
}

export function Events({ options }) {
  const wanted = { since: options.get('since') ?? '1h', kind: options.get('kind') ?? '', path: options.get('path') ?? '' };
  const [rows, setRows] = useState([]);
  const [status, setStatus] = useState({ is: 'waiting', message: '' });
  const [held, setHeld] = useState(null);
  const newest = useRef([]);
  const asked = JSON.stringify(wanted);
  useEffect(() => {
    newest.current = [];
    setRows([]);
    setHeld(null);
    setStatus({ is: 'waiting', message: '' });
    return follow(wanted, (more) => {
      newest.current = [...newest.current, ...more].slice(-ROWS_MAX);
      setRows(newest.current);
    }, (is, message) => setStatus({ is, message }));
  }, [asked]);
  const choose = (event) => {
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData(event.currentTarget)].map(([key, value]) => [key, value.trim()]));
    // "now" is a choice too, and not the absence of one.
    go(['events'], Object.fromEntries(Object.entries(fields).filter(([key, value]) => value || key === 'since')), { replace: true });
  };
  const shown = held ?? rows;
  const missed = held ? rows.filter((row) => row.number > (held.at(-1)?.number ?? 0)).length : 0;
  const tools = html`<div class="tools"><${Status} of=${status} />
    <button type="button" aria-pressed=${held != null} onClick=${() => setHeld(held ? null : rows)}>${held ? `Go on (${missed >= ROWS_MAX ? `${ROWS_MAX} or more` : count(missed)} new)` : 'Hold'}</button></div>`;
  return html`<h1>Events</h1>
    <form class="filters" onSubmit=${choose} key=${options.toString()}>
      <label>Since <select name="since" value=${wanted.since}>${SPANS.some(([value]) => value === wanted.since) ? null : html`<option value=${wanted.since}>${clean(wanted.since)}</option>`}${SPANS.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
      <label>Kind <select name="kind" value=${wanted.kind}><option value="">all</option>${KINDS.map((kind) => html`<option value=${kind}>${words(kind)}</option>`)}</select></label>
      <label>Path <input name="path" value=${wanted.path} placeholder="/folder or /data/*.csv" /></label>
      <button class="strong">Show</button></form>
    ${status.is === 'refused' && html`<${Notice} kind="bad"><${Sentence} text=${status.message} /><//>`}
    <${Section} title=${shown.length >= ROWS_MAX ? `The newest ${count(ROWS_MAX)}` : `${count(shown.length)} in all`} tools=${tools}>
      <${EventTable} rows=${shown} isWaiting=${status.is === 'waiting'} /><//>`;
}

function Status({ of }) {
  const text = { waiting: 'connecting', live: 'live', cut: 'no connection, tries again', refused: 'refused' }[of.is];
  return html`<span class="live live-${of.is === 'refused' ? 'cut' : of.is}" role="status" title=${clean(of.message)}><span aria-hidden="true">${of.is === 'live' ? '●' : '○'}</span> ${text}</span>`;
}

function EventTable({ rows, isWaiting }) {
  const columns = [
    { key: 'time', label: 'Time', value: (row) => row.number, show: (row) => html`<${Time} at=${row.time} />` },
    { key: 'kind', label: 'What', value: (row) => row.kind, show: (row) => html`<span class=${isBad(row) ? 'error-text' : ''}>${words(row.kind)}</span>` },
    { key: 'subject', label: 'On', wrap: true, value: (row) => row.subject ?? '', show: (row) => html`<${Subject} row=${row} />` },
    { key: 'user', label: 'By', value: (row) => row.user ?? '', show: (row) => html`<${Name} text=${row.user ?? ''} />` },
    { key: 'more', label: 'More', wrap: true, grow: true, value: more, show: (row) => html`<${Sentence} text=${more(row)} />` },
    { key: 'number', label: 'Number', num: true, wide: true, value: (row) => row.number },
  ];
  return html`<${Table} label="Events" columns=${columns} rows=${rows} keyOf=${(row) => `${row.kind === 'gap' ? 'gap ' : ''}${row.number}`} sort=${['time', -1]}
    empty=${isWaiting ? 'Loading …' : 'Nothing has happened yet. What happens appears here.'} />`;
}

const isBad = (row) => ['copy_lost', 'node_lost', 'disk_failed', 'job_failed', 'quota_exceeded', 'gap'].includes(row.kind) || (row.kind === 'health_changed' && row.state !== 'healthy') || (row.kind === 'mark_set' && row.state === 'slow');

function Subject({ row }) {
  if (row.kind === 'gap') return 'Events before this one are not known any more';
  if (row.subject.startsWith('/')) return html`<a href=${link(['files', ...segmentsOf(row.subject)])}><${Name} text=${row.subject} /></a>`;
  if (/^(node|disk)_/.test(row.kind)) return html`<a href=${link(['nodes', row.subject])}><${Name} text=${row.subject} /></a>`;
  if (row.kind.startsWith('job_')) return html`<a href=${link(['jobs', row.subject])}><${Name} text=${row.subject} /></a>`;
  return html`<${Name} text=${row.subject} />`;
}

/** The fields of an event in a few words. */
function more(row) {
  const parts = [
    row.state, row.cause, row.from && `from ${row.from}`, row.node && `at ${row.node}`,
    row.count != null && `${count(row.count)} in all`, row.bytes != null && bytes(row.bytes),
  ];
  return parts.filter(Boolean).join(', ');
}
