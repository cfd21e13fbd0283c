// The head of a Parquet file: columns with their types, row groups, and the first rows. A thread of its own reads it.
// It never loads the reader before somebody looks at such a file, and shows whatever a file says as text.
import { html, useEffect, useState } from './vendor/htm.js';
import { address, contentPath, request } from './api.js';
import { bytes, count, plural } from './format.js';
import { Table } from './table.js';
import { Facts, Name, Notice, Sentence } from './widgets.js';

/** A file that keeps the thread busy for so long is given up. */
const PATIENCE_MILLIS = 20000;

export function ParquetHead({ entry }) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    const stop = new AbortController();
    readHead(entry, stop.signal).then((head) => setFound({ head }), (error) => { if (!stop.signal.aborted) setFound({ error: error.message }); });
    return () => stop.abort();
  }, [entry.path, entry.version]);
  if (!found) return html`<p class="quiet" aria-busy="true">Reading schema and first rows …</p>`;
  if (found.error) return html`<${Notice} kind="bad">The file cannot be shown. <${Sentence} text=${found.error} /><//>`;
  return html`<${Head} head=${found.head} />`;
}

async function readHead(entry, signal) {
  // A session that has ended is found out here, and brings up the login.
  await request('GET', '/session', { signal });
  const thread = new Worker(new URL('./parquet-thread.js', import.meta.url), { type: 'module' });
  try {
    return await new Promise((resolve, reject) => {
      const give = setTimeout(() => reject(new Error('Reading it took too long: it may be damaged.')), PATIENCE_MILLIS);
      signal.addEventListener('abort', () => { clearTimeout(give); reject(new Error('left')); });
      thread.onmessage = ({ data }) => { clearTimeout(give); if (data.head) resolve(data.head); else reject(new Error(data.error)); };
      thread.onerror = (event) => { event.preventDefault(); clearTimeout(give); reject(new Error('The reader of this page has failed on it: it may be damaged.')); };
      thread.postMessage({ address: new URL(address(contentPath(entry.path)), location.href).href, bytes: entry.size_bytes, digest: entry.digest });
    });
  } finally {
    thread.terminate();
  }
}

function Head({ head }) {
  return html`<${Facts} items=${[
      ['Rows', count(Number(head.rows))],
      ['Columns', count(head.leaf_count)],
      ['Row groups', count(head.group_count)],
      head.made_by && ['Made by', html`<${Name} text=${head.made_by} />`],
    ]} />
    <${FirstRows} head=${head} />
    <h3>Columns</h3><${Leaves} head=${head} />
    <h3>Row groups</h3><${Groups} head=${head} />`;
}

function FirstRows({ head }) {
  const { columns, column_count: all, row_count: rows } = head;
  const left = columns.filter((column) => column.left);
  const shown = columns.filter((column) => !column.left);
  const cell = (value) => (value == null ? html`<span class="quiet">null</span>` : html`<${Name} text=${value.replaceAll('\n', ' ↵ ')} />`);
  return html`${rows > 0 && shown.length > 0 && html`<div class="table-box preview-rows" tabindex="0" role="region" aria-label="First rows"><table aria-label="First rows">
      <thead><tr>${shown.map((column) => html`<th scope="col"><${Name} text=${column.name} /></th>`)}</tr></thead>
      <tbody>${Array.from({ length: rows }, (_, at) => html`<tr>${shown.map((column) => html`<td>${cell(column.values[at])}</td>`)}</tr>`)}</tbody></table></div>
      <p class="quiet">The first ${plural(rows, 'row')} of ${count(Number(head.rows))}${all > columns.length ? `, and the first ${columns.length} of ${count(all)} columns` : ''}.</p>`}
    ${rows === 0 && left.length === 0 && html`<p class="quiet">It has no rows.</p>`}
    ${left.length > 0 && html`<${Notice}>Not shown: ${reasons(left).map(([why, names]) => html`<span class="left-out">${names.map((name, at) => html`${at > 0 && ', '}<${Name} text=${name} />`)} – <${Sentence} text=${why} /> </span>`)}<//>`}`;
}

/** The columns that are left out, by reason. */
function reasons(left) {
  const by = new Map();
  for (const { name, left: why } of left) by.set(why, [...(by.get(why) ?? []), name]);
  return [...by];
}

function Leaves({ head }) {
  const columns = [
    { key: 'name', label: 'Column', grow: true, value: (row) => row.name, show: (row) => html`<${Name} text=${row.name} />` },
    { key: 'type', label: 'Type', wrap: true, value: typeOf, show: (row) => html`<${Name} text=${typeOf(row)} />` },
    { key: 'packed', label: 'Stored', num: true, value: (row) => row.packed, show: (row) => html`<span title="${bytes(row.bytes)} when unpacked">${bytes(row.packed)}</span>` },
    { key: 'codec', label: 'Packed by', value: (row) => row.codecs, show: (row) => html`<${Name} text=${row.codecs.toLowerCase() || '–'} />` },
  ];
  return html`<${Table} label="Columns" columns=${columns} rows=${head.leaves.map((leaf, at) => ({ ...leaf, at }))} keyOf=${(row) => row.at} empty="It has none." />
    ${head.leaf_count > head.leaves.length && html`<p class="quiet">The first ${count(head.leaves.length)} of ${count(head.leaf_count)} are shown.</p>`}`;
}

const typeOf = (row) => `${row.type}${row.repeated ? ', repeated' : row.optional ? ', may be null' : ''}`;

function Groups({ head }) {
  const columns = [
    { key: 'at', label: 'Row group', num: true, value: (row) => row.at, show: (row) => count(row.at) },
    { key: 'rows', label: 'Rows', num: true, value: (row) => Number(row.rows), show: (row) => count(Number(row.rows)) },
    { key: 'packed', label: 'Stored', num: true, value: (row) => row.packed, show: (row) => bytes(row.packed) },
    { key: 'bytes', label: 'Unpacked', num: true, value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
  ];
  return html`<${Table} label="Row groups" columns=${columns} rows=${head.groups.map((group, at) => ({ ...group, at }))} keyOf=${(row) => row.at} sort=${['at', 1]} empty="It has none." />
    ${head.group_count > head.groups.length && html`<p class="quiet">The first ${count(head.groups.length)} of ${count(head.group_count)} are shown.</p>`}`;
}
