// All background work of the cloud: how far it is, and what went wrong last. What fails or is blocked comes first.
// It never starts or stops any.
import { html, useState } from './vendor/htm.js';
import { ago, bytes, clean, count } from './format.js';
import { useLive } from './live.js';
import { link } from './route.js';
import { Table } from './table.js';
import { Bar, Name, Section, State, Time } from './widgets.js';

const RANK = { failing: 0, blocked: 1, running: 2, idle: 3, off: 4 };
export const isTroubled = (row) => row.state === 'failing' || row.state === 'blocked';

export function Work() {
  const { overview } = useLive();
  const [state, setState] = useState('');
  const [words, setWords] = useState('');
  const all = overview?.work ?? [];
  const wanted = words.toLowerCase();
  const rows = all.filter((row) => (!state || row.state === state) && (!wanted || `${row.at} ${row.work} ${row.subject}`.toLowerCase().includes(wanted)));
  const tools = html`<div class="tools">
    <label>State <select value=${state} onChange=${(event) => setState(event.currentTarget.value)}><option value="">all</option>${Object.keys(RANK).map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
    <label>Filter <input type="search" value=${words} placeholder="node or work" onInput=${(event) => setWords(event.currentTarget.value)} /></label></div>`;
  return html`<h1>Background work</h1>
    <${Section} title=${rows.length === all.length ? `${count(all.length)} in all` : `${count(rows.length)} of ${count(all.length)}`} tools=${tools}>
      ${overview ? html`<${WorkTable} rows=${rows} empty="Nothing matches." />` : html`<p class="quiet" aria-busy="true">Loading …</p>`}<//>`;
}

const amount = (row, value) => (row.unit === 'bytes' ? bytes(value) : count(value));

function Progress({ row }) {
  const unit = row.unit === 'bytes' ? '' : ` ${row.unit}`;
  if (row.done == null && row.left == null) return '–';
  if (row.left == null) return `${amount(row, row.done)}${unit} done`;
  if (row.done == null || row.left === 0) return row.left === 0 ? 'nothing left' : `${amount(row, row.left)}${unit} left`;
  return html`<${Bar} share=${row.done / (row.done + row.left)} label="Progress" text="${amount(row, row.done)} done, ${amount(row, row.left)}${unit} left" />`;
}

function LastError({ row }) {
  if (!row.last_error) return '';
  return html`<span class="error-text" title=${clean(row.last_error)}><${Name} text=${row.last_error} /></span> <span class="quiet"><${Time} at=${row.last_error_time} show=${(at) => ago(at)} /></span>`;
}

export function WorkTable({ rows, isShort, isOneNode, empty }) {
  const columns = [
    { key: 'state', label: 'State', value: (row) => RANK[row.state] ?? 9, show: (row) => html`<${State} of=${row.state} />` },
    { key: 'work', label: 'Work', value: (row) => row.work, show: (row) => row.work.replaceAll('-', ' ') },
    !isOneNode && { key: 'at', label: 'At', value: (row) => row.at, show: (row) => (row.at === 'master' ? 'master' : html`<a href=${link(['nodes', row.at])}><${Name} text=${row.at} /></a>`) },
    !isShort && { key: 'subject', label: 'On', wide: true, value: (row) => row.subject, show: (row) => html`<${Name} text=${row.subject} />` },
    { key: 'progress', label: isShort ? 'How it goes' : 'Progress', grow: isShort, value: (row) => row.left, show: (row) => (isShort && isTroubled(row) && row.last_error ? html`<${LastError} row=${row} />` : html`<${Progress} row=${row} />`) },
    !isShort && { key: 'error', label: 'Last error', grow: true, value: (row) => row.last_error_time ?? '', show: (row) => html`<${LastError} row=${row} />` },
    !isShort && { key: 'next', label: 'Next', wide: true, value: (row) => row.next ?? '', show: (row) => (row.next ? html`<${Time} at=${row.next} show=${nextWords} />` : '') },
    !isShort && { key: 'reported', label: 'Reported', wide: true, value: (row) => row.reported, show: (row) => html`<${Time} at=${row.reported} show=${(at) => ago(at)} />` },
  ].filter(Boolean);
  return html`<${Table} label="Background work" columns=${columns} rows=${rows} keyOf=${(row) => `${row.at} ${row.work} ${row.subject}`} sort=${['state', 1]} empty=${empty} />`;
}

const nextWords = (at) => (new Date(at) < Date.now() ? 'due' : ago(at));
