// The trash: what was removed, until when it is kept, restoring, and emptying after a question.
// It never empties unasked.
import { html, useState } from './vendor/htm.js';
import { send, useGet } from './api.js';
import { ago, bytes, clean, plural } from './format.js';
import { Table } from './table.js';
import { Ask, Failed, Name, Section, tell, Time, Waiting } from './widgets.js';

export function Trash({ session }) {
  const answer = useGet('/trash');
  const [dialog, setDialog] = useState(null);
  const [to, setTo] = useState('');
  const close = () => setDialog(null);
  const done = (text) => { close(); tell(text); answer.reload(); };
  const rows = answer.data ?? [];
  const mayChange = !session.read_only;
  const ask = (row) => { setTo(row.path); setDialog(row); };
  const columns = [
    { key: 'path', label: 'Was at', grow: true, value: (row) => row.path, show: (row) => html`<${Name} text=${row.path} />${row.kind === 'folder' ? '/' : ''}` },
    { key: 'size', label: 'Size', num: true, value: (row) => row.size_bytes, show: (row) => (row.size_bytes == null ? '–' : bytes(row.size_bytes)) },
    { key: 'user', label: 'Removed by', wide: true, value: (row) => row.user, show: (row) => html`<${Name} text=${row.user} />` },
    { key: 'removed', label: 'Removed', value: (row) => row.removed, show: (row) => html`<${Time} at=${row.removed} />` },
    { key: 'until', label: 'Kept until', wide: true, value: (row) => row.until, show: (row) => html`<${Time} at=${row.until} /> <span class="quiet">${ago(row.until)}</span>` },
    mayChange && { key: 'acts', label: '', show: (row) => html`<button type="button" aria-label="Restore ${clean(row.path)}" onClick=${() => ask(row)}>Restore</button>` },
  ].filter(Boolean);
  const tools = mayChange && rows.length > 0 && html`<button type="button" class="danger" onClick=${() => setDialog('empty')}>Empty the trash</button>`;
  const same = dialog && to === dialog.path;
  return html`<h1>Trash</h1>
    <${Section} title=${plural(rows.length, 'entry', 'entries')} tools=${tools}>
      ${answer.data ? html`<${Failed} error=${answer.error} /><${Table} label="Trash" columns=${columns} rows=${rows} keyOf=${(row) => row.trash_path} sort=${['removed', -1]} onOpen=${mayChange ? ask : undefined} empty="The trash is empty." />` : html`<${Waiting} answer=${answer} />`}<//>
    ${dialog === 'empty' && html`<${Ask} title="Empty the trash?" kind="danger" onClose=${close} onDone=${() => done('The trash is empty.')}
      action=${{ label: 'Remove for good', run: () => send('POST', '/trash/empty', {}) }}><p>All ${plural(rows.length, 'entry', 'entries')} in your trash are removed for good. This cannot be undone.</p><//>`}
    ${dialog && dialog !== 'empty' && html`<${Ask} title="Restore" onClose=${close} onDone=${() => done(`Restored to ${to}`)}
      action=${{ label: 'Restore', disabled: !to.startsWith('/'), run: () => send('POST', '/trash/restore', same ? { path: dialog.trash_path } : { path: dialog.trash_path, to }) }}>
      <label>To <input value=${to} onInput=${(event) => setTo(event.currentTarget.value)} spellcheck=${false} autocomplete="off" required /></label>
      <p class="quiet">Removed from <${Name} text=${dialog.path} />.</p><//>`}`;
}
