// The beginning of a file, shown by its kind: text, CSV, JSON, notebook, FITS header, Parquet, picture, or bytes.
// It never runs or renders anything that a file says: text is always text.
import { html, useEffect, useState } from './vendor/htm.js';
import { contentPath, request } from './api.js';
import { bytes, clean, cleanLines } from './format.js';
import { ParquetHead } from './parquet.js';
import { Failed, Name } from './widgets.js';

const FIRST = 256 * 1024;
const PICTURE_MAX = 20 * 1024 * 1024;
const ROWS_MAX = 200;
const COLUMNS_MAX = 40;
const PICTURES = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' };
const PARQUET = ['parquet', 'parq', 'pq'];
const NOTEBOOK_MAX = 20 * 1024 * 1024;

const endingOf = (path) => (path.match(/\.([a-z0-9]+)$/i)?.[1] ?? '').toLowerCase();

export function Preview({ entry }) {
  const [found, setFound] = useState({ key: null });
  const key = `${entry.path} ${entry.version}`;
  useEffect(() => {
    const stop = new AbortController();
    let picture = null;
    load(entry, stop.signal).then((content) => { picture = content.picture; setFound({ key, content }); }, (error) => { if (!stop.signal.aborted) setFound({ key, error }); });
    return () => { stop.abort(); if (picture) URL.revokeObjectURL(picture); };
  }, [key]);
  if (found.key !== key) return html`<p class="quiet" aria-busy="true">Loading …</p>`;
  if (found.error) return html`<${Failed} error=${found.error} />`;
  return html`<${Content} content=${found.content} entry=${entry} />`;
}

async function load(entry, signal) {
  const ending = endingOf(entry.path);
  if (entry.size_bytes === 0) return { kind: 'empty' };
  if (PARQUET.includes(ending)) return { kind: 'parquet' };
  const isWhole = (limit) => entry.size_bytes <= limit;
  if (PICTURES[ending] && isWhole(PICTURE_MAX)) {
    const data = await (await request('GET', contentPath(entry.path), { signal })).arrayBuffer();
    return { kind: 'picture', picture: URL.createObjectURL(new Blob([data], { type: PICTURES[ending] })) };
  }
  const wanted = ending === 'ipynb' && isWhole(NOTEBOOK_MAX) ? NOTEBOOK_MAX : FIRST;
  const data = await firstBytes(entry, wanted, signal);
  const isCut = data.length < entry.size_bytes;
  return { ...kindOf(ending, data, isCut), isCut, shown: data.length };
}

async function firstBytes(entry, length, signal) {
  const last = Math.min(length, entry.size_bytes) - 1;
  const response = await request('GET', contentPath(entry.path), { signal, headers: { Range: `bytes=0-${last}` } });
  const reader = response.body.getReader();
  const parts = [];
  let size = 0;
  // A server that does not know ranges sends everything; only the beginning is taken.
  while (size < length) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  reader.cancel().catch(() => { /* already at its end */ });
  const data = new Uint8Array(Math.min(size, length));
  let at = 0;
  for (const part of parts) { data.set(part.subarray(0, data.length - at), at); at += part.length; }
  return data;
}

function kindOf(ending, data, isCut) {
  const headers = fitsHeaders(data);
  if (headers.length) return { kind: 'fits', headers };
  const text = textOf(data, isCut);
  if (text == null) return { kind: 'bytes', data };
  if (ending === 'ipynb' || ending === 'json') {
    try {
      const value = JSON.parse(text);
      if (ending === 'ipynb' && Array.isArray(value.cells)) return { kind: 'notebook', cells: value.cells };
      return { kind: 'text', text: JSON.stringify(value, null, 2) };
    } catch (_) { /* cut, or no JSON: shown as text */ }
  }
  if (ending === 'csv' || ending === 'tsv') return { kind: 'rows', rows: parseCsv(text, ending === 'tsv' ? '\t' : separatorOf(text), isCut) };
  return { kind: 'text', text };
}

/** The text of bytes, or null where they are none. A character that the cut halves is no reason against it. */
function textOf(data, isCut) {
  if (data.subarray(0, 8192).includes(0)) return null;
  try { return new TextDecoder('utf-8', { fatal: true }).decode(data, { stream: isCut }); } catch (_) { return null; }
}

function separatorOf(text) {
  const line = text.slice(0, text.indexOf('\n') + 1 || undefined);
  return [',', ';', '\t', '|'].map((mark) => [mark, line.split(mark).length]).sort((a, b) => b[1] - a[1])[0][0];
}

function parseCsv(text, separator, isCut) {
  const rows = [];
  let [row, field, isQuoted] = [[], '', false];
  for (let at = 0; at < text.length && rows.length <= ROWS_MAX; at += 1) {
    const mark = text[at];
    if (isQuoted) {
      if (mark !== '"') field += mark;
      else if (text[at + 1] === '"') { field += '"'; at += 1; } else isQuoted = false;
    } else if (mark === '"' && field === '') isQuoted = true;
    else if (mark === separator) { row.push(field); field = ''; } else if (mark === '\n') {
      row.push(field.replace(/\r$/, ''));
      rows.push(row);
      [row, field] = [[], ''];
    } else field += mark;
  }
  if (!isCut && (field !== '' || row.length)) rows.push([...row, field]);
  return rows;
}

const BLOCK = 2880;
const CARD = 80;
const ascii = (data, from, length) => String.fromCharCode(...data.subarray(from, from + length));

/** The headers of a FITS file that lie within its first bytes, each as cards of keyword, value and comment. */
function fitsHeaders(data) {
  const headers = [];
  for (let at = 0; /^(SIMPLE  |XTENSION)= /.test(ascii(data, at, 10));) {
    const { cards, end } = fitsCards(data, at);
    headers.push(cards);
    if (end == null) break;
    const blocks = (bytes) => Math.ceil(bytes / BLOCK) * BLOCK;
    at += blocks(end - at) + blocks(fitsDataBytes(cards));
  }
  return headers;
}

function fitsCards(data, from) {
  const cards = [];
  for (let at = from; at + CARD <= data.length; at += CARD) {
    const card = ascii(data, at, CARD).trimEnd();
    if (card === 'END') return { cards, end: at + CARD };
    if (card === '') continue;
    const [, name, value = '', comment = ''] = card.match(/^(.{8})= *('(?:[^']|'')*'|[^/]*?) *(?:\/ *(.*))?$/) ?? [null, card.slice(0, 8), card.slice(8).trim(), ''];
    cards.push([name.trim(), value.replace(/^'|'$/g, '').replaceAll("''", "'").trim(), comment]);
  }
  return { cards, end: null };
}

/** Bytes of the data behind a header, by the standard's formula. */
function fitsDataBytes(cards) {
  const number = (name, none) => { const value = Number(cards.find(([key]) => key === name)?.[1]); return Number.isFinite(value) ? value : none; };
  const axes = number('NAXIS', 0);
  if (!(axes > 0 && axes < 1000)) return 0;
  let size = 1;
  for (let axis = 1; axis <= axes; axis += 1) size *= number(`NAXIS${axis}`, 0);
  return Math.max(0, (Math.abs(number('BITPIX', 8)) / 8) * number('GCOUNT', 1) * (number('PCOUNT', 0) + size));
}

function Content({ content, entry }) {
  const { kind } = content;
  const cut = content.isCut && kind !== 'fits' && html`<p class="quiet">The first ${bytes(content.shown)} of ${bytes(entry.size_bytes)}.</p>`;
  if (kind === 'empty') return html`<p class="quiet">The file is empty.</p>`;
  if (kind === 'picture') return html`<img class="picture" src=${content.picture} alt="Picture ${clean(entry.path)}" />`;
  if (kind === 'fits') return content.headers.map((cards, at) => html`<${Rows} rows=${[['Keyword', 'Value', 'Comment'], ...cards]} label="FITS header ${at + 1}" />`);
  if (kind === 'parquet') return html`<${ParquetHead} entry=${entry} />`;
  if (kind === 'rows') return html`${cut}<${Rows} rows=${content.rows} label="Rows" />`;
  if (kind === 'notebook') return html`<${Notebook} cells=${content.cells} />`;
  if (kind === 'bytes') return html`${cut}<pre class="bytes" tabindex="0" aria-label="Bytes">${hex(content.data.subarray(0, 4096))}</pre>`;
  return html`${cut}<pre tabindex="0" aria-label="Text"><bdi>${cleanLines(content.text)}</bdi></pre>`;
}

function Rows({ rows, label }) {
  const [head = [], ...rest] = rows;
  const cells = (row, tag) => row.slice(0, COLUMNS_MAX).map((cell) => html`<${tag} scope=${tag === 'th' ? 'col' : undefined}><${Name} text=${cell.replaceAll('\n', ' ↵ ')} /><//>`);
  return html`<div class="table-box preview-rows" tabindex="0" role="region" aria-label=${label}><table aria-label=${label}>
    <thead><tr>${cells(head, 'th')}</tr></thead><tbody>${rest.slice(0, ROWS_MAX).map((row) => html`<tr>${cells(row, 'td')}</tr>`)}</tbody></table></div>
    ${rest.length >= ROWS_MAX && label === 'Rows' && html`<p class="quiet">The first ${ROWS_MAX} rows are shown.</p>`}
    ${head.length > COLUMNS_MAX && html`<p class="quiet">The first ${COLUMNS_MAX} of ${head.length} columns are shown.</p>`}`;
}

const joined = (source) => (Array.isArray(source) ? source.join('') : String(source ?? ''));

function outputText(output) {
  if (output.text != null) return joined(output.text);
  if (output.data?.['text/plain'] != null) return joined(output.data['text/plain']);
  if (output.output_type === 'error') return `${output.ename}: ${output.evalue}`;
  return '';
}

function Notebook({ cells }) {
  return html`<div class="notebook" tabindex="0" role="region" aria-label="Notebook">${cells.slice(0, ROWS_MAX).map((cell) => html`<div class="cell cell-${cell.cell_type === 'code' ? 'code' : 'words'}">
    <pre><bdi>${cleanLines(joined(cell.source))}</bdi></pre>
    ${(cell.outputs ?? []).map(outputText).filter(Boolean).map((text) => html`<pre class="output"><bdi>${cleanLines(text)}</bdi></pre>`)}</div>`)}</div>`;
}

function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = [...data.subarray(at, at + 16)];
    const numbers = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const signs = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${numbers.padEnd(47)}  ${signs}`);
  }
  return lines.join('\n');
}
