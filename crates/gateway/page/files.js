// The file browser: folders, sorting, upload by drag or button, new folders, renaming, removing to the trash.
// It never removes for good, and never changes anything unasked.
import { html, useEffect, useRef, useState } from './vendor/htm.js';
import { get, query, send, useGet } from './api.js';
import { Details } from './details.js';
import { Download } from './download.js';
import { bytes, clean, count, plural } from './format.js';
import { useLive } from './live.js';
import { below, go, link, nameOf, parentOf, pathOf, segmentsOf } from './route.js';
import { Table } from './table.js';
import { add, onDone } from './upload.js';
import { Ask, Failed, Name, Section, tell, Time, Waiting } from './widgets.js';

const PAGE = 1000;

export function Files({ segments, show, session }) {
  const folder = pathOf(segments);
  const answer = useGet(`/files${query({ path: folder, limit: PAGE })}`);
  const [more, setMore] = useState({ folder, of: null, entries: [], next: undefined, error: null });
  const [dialog, setDialog] = useState(null);
  const [words, setWords] = useState('');
  const { status } = useLive();
  const picker = useRef(null);
  const mayChange = !session.read_only;
  const isCurrent = more.of === answer.data && more.folder === folder;
  const entries = [...(answer.data?.entries ?? []), ...(isCurrent ? more.entries : [])];
  const after = isCurrent ? more.next : answer.data?.next;
  const chosen = show && entries.find((entry) => nameOf(entry.path) === show);
  useEffect(() => onDone((path) => { if (parentOf(path) === folder) answer.reload(); }), [folder]);
  useEffect(() => { setWords(''); }, [folder]);
  // The master is back: what is shown may be old.
  useEffect(() => { if (status === 'live' && (answer.error || answer.data)) answer.reload(); }, [status]);
  const only = entries.length === 1 ? entries[0] : null;
  useEffect(() => {
    // An address that names a file shows the file in its folder.
    if (only?.kind === 'file' && only.path === folder) go(['files', ...segments.slice(0, -1)], { show: segments.at(-1) }, { replace: true });
  }, [only, folder]);
  const loadMore = async () => {
    try {
      const page = await get(`/files${query({ path: folder, after, limit: PAGE })}`);
      setMore({ folder, of: answer.data, entries: [...(isCurrent ? more.entries : []), ...page.entries], next: page.next, error: null });
    } catch (error) { setMore({ ...more, error }); }
  };
  const close = () => setDialog(null);
  const done = (text) => { close(); tell(text); answer.reload(); };
  const drop = useDrop(mayChange, folder);
  const tools = html`<div class="tools">
    <label>Filter <input type="search" value=${words} placeholder="part of a name" onInput=${(event) => setWords(event.currentTarget.value)} /></label>
    <button type="button" onClick=${answer.reload}>Read again</button>
    ${mayChange && html`<button type="button" onClick=${() => setDialog({ kind: 'folder' })}>New folder</button>
      <button type="button" class="strong" onClick=${() => picker.current.click()}>Upload</button>
      <input ref=${picker} type="file" multiple class="unseen" tabindex="-1" aria-label="Files to upload" onChange=${(event) => { for (const file of event.currentTarget.files) add(file, below(folder, file.name)); event.currentTarget.value = ''; }} />`}</div>`;
  const openEntry = (entry) => { location.hash = linkOf(entry, segments); };
  const rows = words ? entries.filter((entry) => nameOf(entry.path).toLowerCase().includes(words.toLowerCase())) : entries;
  const keys = (event, entry) => {
    if (event.key === 'Backspace') { if (segments.length) go(['files', ...segments.slice(0, -1)]); return true; }
    if (!mayChange) return false;
    if (event.key === 'Delete') setDialog({ kind: 'remove', entry });
    else if (event.key === 'F2') setDialog({ kind: 'rename', entry });
    else return false;
    return true;
  };
  const size = entries.reduce((sum, entry) => sum + (entry.size_bytes ?? 0), 0);
  return html`<div class="files ${drop.isOver ? 'dropping' : ''}" ...${drop.listeners}>
    <h1 class="unseen">Files in ${clean(folder)}</h1>
    <${Crumbs} segments=${segments} />
    <div class="split ${show ? 'with-details' : ''}">
    <${Section} title=${answer.data ? `${plural(entries.length, 'entry', 'entries')}${after ? ' so far' : ''}, ${bytes(size)}` : 'Files'} tools=${tools}>
      ${answer.data ? html`<${Failed} error=${answer.error} retry=${answer.reload} />
        <${EntryTable} rows=${rows} segments=${segments} selected=${chosen?.path} onOpen=${openEntry} onKey=${keys} mayChange=${mayChange} setDialog=${setDialog}
          empty=${words ? 'No name matches.' : mayChange ? 'This folder is empty. Drag files here to upload them.' : 'This folder is empty.'} />` : html`<${Waiting} answer=${answer} />`}
      ${after && html`<button type="button" onClick=${loadMore}>Show the next ${count(PAGE)}</button>`}
      <${Failed} error=${more.error} />
      ${mayChange && html`<p class="quiet hint">Drag files or folders here to upload. On a row: Enter opens, F2 renames, Delete moves to the trash, Backspace goes up.</p>`}
    <//>
    ${show && (chosen || answer.data) && html`<${Details} key=${below(folder, show)} path=${below(folder, show)} mayChange=${mayChange} onClose=${() => go(['files', ...segments])} onAsk=${mayChange && chosen ? (kind) => setDialog({ kind, entry: chosen }) : null} />`}
    </div>
    ${drop.isOver && html`<div class="drop-words" aria-hidden="true">Drop to upload into ${clean(folder)}</div>`}
    <${Dialogs} dialog=${dialog} folder=${folder} onClose=${close} onDone=${done} /></div>`;
}

const linkOf = (entry, segments) => (entry.kind === 'folder' ? link(['files', ...segmentsOf(entry.path)]) : link(['files', ...segments], { show: nameOf(entry.path) }));

function Crumbs({ segments }) {
  return html`<nav class="crumbs" aria-label="Folders"><a href="#/files">all files</a>${segments.map((name, at) => html` / ${at === segments.length - 1 ? html`<span aria-current="page"><${Name} text=${name} /></span>` : html`<a href=${link(['files', ...segments.slice(0, at + 1)])}><${Name} text=${name} /></a>`}`)}</nav>`;
}

function EntryTable({ rows, segments, selected, onOpen, onKey, mayChange, setDialog, empty }) {
  const columns = [
    { key: 'name', label: 'Name', grow: true, value: (entry) => (entry.kind === 'folder' ? ' ' : '') + nameOf(entry.path), show: (entry) => html`<a class="entry entry-${entry.kind}" href=${linkOf(entry, segments)}><${Name} text=${nameOf(entry.path)} />${entry.kind === 'folder' ? '/' : ''}</a>` },
    { key: 'size', label: 'Size', num: true, value: (entry) => entry.size_bytes, show: (entry) => (entry.kind === 'folder' ? '–' : bytes(entry.size_bytes)) },
    { key: 'modified', label: 'Modified', wide: true, value: (entry) => entry.modified, show: (entry) => html`<${Time} at=${entry.modified} />` },
    { key: 'owner', label: 'Owner', wide: true, value: (entry) => entry.owner, show: (entry) => html`<${Name} text=${entry.owner} />` },
    { key: 'copies', label: 'Copies', num: true, wide: true, value: (entry) => entry.copies_wanted, show: (entry) => entry.copies_wanted ?? '–' },
    { key: 'acts', label: '', show: (entry) => html`<span class="acts">
      ${entry.kind === 'file' ? html`<${Download} path=${entry.path} />`
        : html`<a href=${link(['files', ...segments], { show: nameOf(entry.path) })} aria-label="Details of ${clean(nameOf(entry.path))}">Details</a>`}
      ${mayChange && html`<button type="button" class="plain" aria-label="Rename ${clean(nameOf(entry.path))}" onClick=${() => setDialog({ kind: 'rename', entry })}>Rename</button>
        <button type="button" class="plain" aria-label="Remove ${clean(nameOf(entry.path))}" onClick=${() => setDialog({ kind: 'remove', entry })}>Remove</button>`}</span>` },
  ];
  return html`<${Table} label="Files" columns=${columns} rows=${rows} keyOf=${(entry) => entry.path} sort=${['name', 1]} onOpen=${onOpen} onKey=${onKey} selected=${selected} empty=${empty} />`;
}

function Dialogs({ dialog, folder, onClose, onDone }) {
  const [name, setName] = useState('');
  useEffect(() => { setName(dialog?.kind === 'rename' ? dialog.entry.path : ''); }, [dialog]);
  if (!dialog) return null;
  const { kind, entry } = dialog;
  const input = (label) => html`<label>${label} <input value=${name} onInput=${(event) => setName(event.currentTarget.value)} spellcheck=${false} autocomplete="off" required /></label>`;
  if (kind === 'folder') {
    const path = below(folder, name.trim());
    return html`<${Ask} title="New folder" onClose=${onClose} onDone=${() => onDone('The folder is made.')}
      action=${{ label: 'Make it', disabled: !name.trim(), run: () => send('POST', '/folders', { path, parents: true }) }}>${input('Name')}
      <p class="quiet">In ${clean(folder)}. A name with “/” makes folders within folders.</p><//>`;
  }
  if (kind === 'rename') {
    return html`<${Ask} title="Rename" onClose=${onClose} onDone=${() => onDone('Renamed.')}
      action=${{ label: 'Rename', disabled: !name.startsWith('/') || name === entry.path, run: () => send('POST', '/rename', { from: entry.path, to: name }) }}>
      ${input('Path')}<p class="quiet">Another folder in the path moves it there.</p><//>`;
  }
  const isFolder = entry.kind === 'folder';
  return html`<${Ask} title=${isFolder ? 'Move the folder to the trash?' : 'Move the file to the trash?'} kind="danger" onClose=${onClose} onDone=${() => onDone('It is in the trash, and can be restored from there.')}
    action=${{ label: 'Move to the trash', run: () => send('DELETE', `/files${query({ path: entry.path, recursive: isFolder })}`) }}>
    <p><${Name} text=${entry.path} />${isFolder ? ' and all below it' : ''} goes to the trash and can be restored until the trash is emptied.</p><//>`;
}

/** Files and folders that are dragged onto the browser. */
function useDrop(mayChange, folder) {
  const [depth, setDepth] = useState(0);
  const hasFiles = (event) => mayChange && [...(event.dataTransfer?.types ?? [])].includes('Files');
  const listeners = {
    onDragEnter: (event) => { if (hasFiles(event)) { event.preventDefault(); setDepth((old) => old + 1); } },
    onDragLeave: (event) => { if (hasFiles(event)) setDepth((old) => Math.max(0, old - 1)); },
    onDragOver: (event) => { if (hasFiles(event)) event.preventDefault(); },
    onDrop: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setDepth(0);
      takeDropped(event.dataTransfer, folder).catch((error) => tell(error.message, 'bad'));
    },
  };
  return { isOver: depth > 0, listeners };
}

async function takeDropped(transfer, folder) {
  const roots = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...transfer.files];
  if (!roots.some((root) => root.isDirectory)) {
    plain.forEach((file) => add(file, below(folder, file.name)));
    return;
  }
  for (const root of roots) await takeEntry(root, folder);
}

async function takeEntry(entry, folder) {
  const path = below(folder, entry.name);
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    add(file, path);
    return;
  }
  try { await send('POST', '/folders', { path, parents: true }); } catch (error) { if (error.reason !== 'exists') throw error; }
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (part.length === 0) return;
    for (const child of part) await takeEntry(child, path);
  }
}
