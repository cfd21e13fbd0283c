// What is marked as slow, why, and until when. It never changes a mark: that is for the command line.
import { html } from './vendor/htm.js';
import { link } from './route.js';
import { Table } from './table.js';
import { Name, Section, Sentence, State, Time } from './widgets.js';

/** Links with the reason of their mark, where they have one; a mark holds for both directions. */
export function markedLinks(links, marks) {
  const slow = (marks ?? []).filter((mark) => mark.kind === 'link' && mark.state === 'slow');
  if (!slow.length) return links;
  const markOf = ({ from, to }) => slow.find(({ sites }) => sites.includes(from) && sites.includes(to) && from !== to);
  return links.map((item) => ({ ...item, marked: markOf(item)?.reason || (markOf(item) && 'slow') }));
}

export function Marks({ marks }) {
  if (!marks?.length) return null;
  const columns = [
    { key: 'what', label: 'What', value: (row) => row.what, show: (row) => (row.node ? html`<a href=${link(['nodes', row.node])}><${Name} text=${row.what} /></a>` : html`<${Name} text=${row.what} />`) },
    { key: 'state', label: 'State', value: (row) => row.state, show: (row) => html`<${State} of=${row.state === 'slow' ? 'warning' : 'off'} text=${row.state} />` },
    { key: 'reason', label: 'Why', value: (row) => row.reason, show: (row) => html`<${Sentence} text=${row.reason} />` },
    { key: 'by', label: 'By', value: (row) => row.by ?? '', show: (row) => (row.by ? html`<${Name} text=${row.by} />` : 'measured') },
    { key: 'until', label: 'Until', wide: true, value: (row) => row.until ?? '', show: (row) => (row.until ? html`<${Time} at=${row.until} />` : 'cleared') },
  ];
  return html`<${Section} title="Slow, and used less"><${Table} label="Marks" columns=${columns} rows=${marks} keyOf=${(row) => row.what} sort=${['what', 1]} /><//>`;
}
