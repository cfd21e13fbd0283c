// A table that sorts, moves with the arrow keys, and puts only the rows in view on the page when there are many.
// It never changes its rows.
import { html, useEffect, useMemo, useRef, useState } from './vendor/htm.js';
import { natural } from './format.js';

const MANY = 150;
const ROW = 30;
const AHEAD = 12;
const PAGE = 15;

function compare(a, b) {
  if (a == null || b == null) return (a == null) - (b == null);
  return typeof a === 'string' ? natural(a, String(b)) : a - b;
}

function sorted(rows, column, direction) {
  if (!column?.value) return rows;
  return rows
    .map((row) => [column.value(row), row])
    // What has no value stays at the end either way.
    .sort(([a], [b]) => (a == null || b == null ? compare(a, b) : compare(a, b) * direction))
    .map(([, row]) => row);
}

/**
 * Columns: `{key, label, value(row), show(row), num, wide, grow}`; `wide` ones are left out on a phone. `onOpen(row)`
 * is called on Enter; `onKey(event, row)` sees every other key.
 */
export function Table({ label, columns, rows, keyOf, sort, onOpen, onKey, selected, empty = 'Nothing here.' }) {
  const [order, setOrder] = useState(sort ?? [null, 1]);
  const [active, setActive] = useState(null);
  const [top, setTop] = useState(0);
  const box = useRef(null);
  const wanted = useRef(null);
  const ordered = useMemo(() => sorted(rows, columns.find((column) => column.key === order[0]), order[1]), [rows, order]);
  const isMany = ordered.length > MANY;
  const seen = isMany ? Math.ceil((box.current?.clientHeight || 600) / ROW) : ordered.length;
  const first = isMany ? Math.max(0, Math.min(Math.floor(top / ROW) - AHEAD, ordered.length - seen)) : 0;
  const last = isMany ? Math.min(ordered.length, first + seen + AHEAD * 2) : ordered.length;
  const focusable = active != null && ordered.some((row) => keyOf(row) === active) ? active : ordered[0] && keyOf(ordered[0]);
  useEffect(() => {
    // An effect of an earlier picture may come late: only the row that was asked for takes the focus.
    const row = wanted.current != null && box.current?.querySelector('tr[tabindex="0"]');
    if (row && row.dataset.key === wanted.current) { wanted.current = null; row.focus(); }
  });
  const move = (to) => {
    const at = Math.max(0, Math.min(ordered.length - 1, to));
    setActive(keyOf(ordered[at]));
    wanted.current = String(keyOf(ordered[at]));
    if (!isMany) return;
    const head = 34;
    const { scrollTop, clientHeight } = box.current;
    if (at * ROW < scrollTop) box.current.scrollTop = at * ROW;
    else if ((at + 1) * ROW + head > scrollTop + clientHeight) box.current.scrollTop = (at + 1) * ROW + head - clientHeight;
  };
  const press = (event) => {
    const key = event.target.closest('tr')?.dataset.key;
    if (key == null || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = ordered.findIndex((row) => String(keyOf(row)) === key);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, Home: -Infinity, End: Infinity };
    if (event.key in steps) move(at + steps[event.key]);
    else if (event.key === 'Enter' && event.target.tagName === 'TR' && onOpen) onOpen(ordered[at]);
    else if (!(event.target.tagName === 'TR' && onKey?.(event, ordered[at]))) return;
    event.preventDefault();
  };
  if (rows.length === 0) return html`<p class="quiet empty">${empty}</p>`;
  return html`<div class="table-box ${isMany ? 'many' : ''}" ref=${box} role="region" aria-label=${label} tabindex="0" onScroll=${isMany ? (event) => setTop(event.currentTarget.scrollTop) : undefined}>
    <table aria-label=${label} aria-rowcount=${ordered.length + 1}>
      <thead><tr>${columns.map((column) => html`<${Head} key=${column.key} column=${column} order=${order} setOrder=${setOrder} />`)}</tr></thead>
      <tbody onKeyDown=${press}>
        ${first > 0 && html`<tr key="before" aria-hidden="true" style=${{ height: `${first * ROW}px` }}></tr>`}
        ${ordered.slice(first, last).map((row, at) => {
          const key = keyOf(row);
          return html`<tr key=${key} data-key=${key} aria-rowindex=${first + at + 2} tabindex=${key === focusable ? 0 : -1} class=${key === selected ? 'selected' : ''} onFocus=${() => setActive(key)}>
            ${columns.map((column) => html`<td key=${column.key} class=${classOf(column)}>${column.show ? column.show(row) : column.value(row)}</td>`)}</tr>`;
        })}
        ${last < ordered.length && html`<tr key="after" aria-hidden="true" style=${{ height: `${(ordered.length - last) * ROW}px` }}></tr>`}
      </tbody>
    </table></div>`;
}

const classOf = (column) => [column.num && 'num', column.wide && 'wide', column.grow && 'grow', column.wrap && 'wrap'].filter(Boolean).join(' ');

function Head({ column, order: [key, direction], setOrder }) {
  const isSorted = key === column.key;
  const sort = isSorted ? (direction > 0 ? 'ascending' : 'descending') : undefined;
  if (!column.value) return html`<th scope="col" class=${classOf(column)}>${column.label || html`<span class="unseen">Actions</span>`}</th>`;
  const arrow = html`<span class="arrow" aria-hidden="true">${isSorted ? (direction > 0 ? '▲' : '▼') : ''}</span>`;
  const turn = () => setOrder([column.key, isSorted ? -direction : column.num ? -1 : 1]);
  return html`<th scope="col" class=${classOf(column)} aria-sort=${sort}>
    <button type="button" class="plain" onClick=${turn}>${column.num && arrow}${column.label}${!column.num && arrow}</button></th>`;
}
