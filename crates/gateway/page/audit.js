// Search in the audit record: who did what, when, from where, and whether it was refused.
// It never changes the record.
import { html, useState } from './vendor/htm.js';
import { get, query, useGet } from './api.js';
import { clean, count } from './format.js';
import { go, link, segmentsOf } from './route.js';
import { Table } from './table.js';
import { Failed, Name, Section, State, Time, Waiting } from './widgets.js';

const KINDS = ['login', 'refusal', 'grant', 'admin', 'job', 'ticket', 'record'];
const PAGE = 200;
const FIELDS = ['since', 'until', 'user', 'path', 'kind'];

/** The local time of a form field as RFC 3339. */
const exact = (text) => { const at = new Date(text); return text && !Number.isNaN(at.getTime()) ? at.toISOString() : ''; };

export function Audit({ options }) {
  const wanted = Object.fromEntries(FIELDS.map((field) => [field, options.get(field) ?? '']));
  const asked = { ...wanted, since: exact(wanted.since), until: exact(wanted.until), limit: PAGE };
  const answer = useGet(`/audit${query(asked)}`);
  const [older, setOlder] = useState({ of: null, rows: [], isEnd: false, error: null });
  const search = (event) => {
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData(event.currentTarget)].map(([key, value]) => [key, value.trim()]).filter(([, value]) => value));
    go(['audit'], fields, { replace: true });
    answer.reload();
  };
  const isCurrent = older.of === answer.data;
  const rows = [...(answer.data ?? []), ...(isCurrent ? older.rows : [])];
  const hasMore = rows.length >= PAGE && !(isCurrent && older.isEnd);
  const more = async () => {
    const first = Math.min(...rows.map((row) => row.time_unix_millis ?? Infinity));
    try {
      const found = await get(`/audit${query({ ...asked, until: new Date(first + 1).toISOString() })}`);
      const known = new Set(rows.map((row) => row.number));
      const fresh = found.filter((row) => !known.has(row.number));
      setOlder({ of: answer.data, rows: [...(isCurrent ? older.rows : []), ...fresh], isEnd: fresh.length === 0, error: null });
    } catch (error) { setOlder({ ...older, of: answer.data, error }); }
  };
  return html`<h1>Audit</h1>
    <form class="filters" onSubmit=${search} key=${options.toString()}>
      <label>From <input type="datetime-local" name="since" value=${wanted.since} /></label>
      <label>Until <input type="datetime-local" name="until" value=${wanted.until} /></label>
      <label>User <input name="user" value=${wanted.user} placeholder="anybody" /></label>
      <label>Path <input name="path" value=${wanted.path} placeholder="/folder" /></label>
      <label>Kind <select name="kind" value=${wanted.kind}><option value="">all</option>${KINDS.map((kind) => html`<option value=${kind}>${kind}</option>`)}</select></label>
      <button class="strong">Search</button></form>
    <${Section} title=${answer.data ? `${count(rows.length)}${hasMore ? ' newest' : ''} lines` : 'Record'}>
      ${answer.data ? html`<${Failed} error=${answer.error} /><${AuditTable} rows=${rows} />` : html`<${Waiting} answer=${answer} />`}
      <${Failed} error=${older.error} />
      ${hasMore && html`<button type="button" onClick=${more}>Show older ones</button>`}<//>`;
}

function AuditTable({ rows }) {
  const text = (key, label, more = {}) => ({ key, label, value: (row) => row[key] ?? '', show: (row) => html`<${Name} text=${row[key]} />`, ...more });
  const columns = [
    { key: 'time', label: 'Time', value: (row) => row.number ?? 0, show: (row) => html`<${Time} at=${row.time_unix_millis} />` },
    text('who', 'Who'), text('from', 'From', { wide: true }),
    { key: 'outcome', label: 'Outcome', value: (row) => row.outcome ?? '', show: (row) => html`<${State} of=${outcomeKind(row)} text=${clean(row.outcome ?? 'unreadable')} />` },
    text('what', 'What'),
    { key: 'object', label: 'On', wrap: true, value: (row) => row.object ?? '', show: (row) => html`<${Thing} text=${row.object ?? row} />` },
    text('note', 'Note', { wide: true, wrap: true }), text('kind', 'Kind', { wide: true }),
    { key: 'number', label: 'Line', num: true, wide: true, value: (row) => row.number },
  ];
  return html`<${Table} label="Audit record" columns=${columns} rows=${rows} keyOf=${(row) => row.number ?? String(row)} sort=${['time', -1]} empty="No line matches." />`;
}

const outcomeKind = (row) => ({ done: 'ok', refused: 'critical', failed: 'critical' }[row.outcome] ?? 'warning');

function Thing({ text }) {
  if (!/^\/./.test(text)) return html`<${Name} text=${/^[0-9a-f]{64}$/.test(text) ? `${text.slice(0, 12)}…` : text} />`;
  return html`<a href=${link(['files', ...segmentsOf(text)])}><${Name} text=${text} /></a>`;
}
