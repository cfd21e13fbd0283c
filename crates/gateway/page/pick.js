// A dialog that picks files, folders or a place for a new folder out of the cloud.
// It never changes anything.
import { html, useState } from './vendor/htm.js';
import { query, useGet } from './api.js';
import { bytes, plural } from './format.js';
import { below, nameOf, parentOf, segmentsOf } from './route.js';
import { Dialog, Name, Waiting } from './widgets.js';

const PAGE = 500;

/**
 * `onPick(path)` gets a path; of `kind` 'any' a file or a folder, of 'file' a file, of 'folder' a folder. `isWanted`
 * leaves other files out.
 */
export function Pick({ title, start = '/', kind = 'any', isWanted = () => true, onPick, onClose }) {
  const [folder, setFolder] = useState(start);
  const answer = useGet(`/files${query({ path: folder, limit: PAGE })}`);
  const entries = (answer.data?.entries ?? []).filter((entry) => entry.kind === 'folder' || (kind !== 'folder' && isWanted(entry)));
  const parts = segmentsOf(folder);
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <nav class="crumbs" aria-label="Folders of the choice"><button type="button" class="plain link" onClick=${() => setFolder('/')}>all files</button>${parts.map((name, at) => html` / <button type="button" class="plain link" onClick=${() => setFolder(`/${parts.slice(0, at + 1).join('/')}`)}><${Name} text=${name} /></button>`)}</nav>
    <div class="pick" tabindex="0" role="region" aria-label="Entries">
      ${answer.data ? html`<ul class="plain-list">
        ${folder !== '/' && html`<li><button type="button" class="plain link" onClick=${() => setFolder(parentOf(folder))}>.. (up)</button></li>`}
        ${entries.map((entry) => html`<li key=${entry.path}>${entry.kind === 'folder'
          ? html`<button type="button" class="plain link entry-folder" onClick=${() => setFolder(entry.path)}><${Name} text=${nameOf(entry.path)} />/</button>`
          : html`<button type="button" class="plain link" onClick=${() => onPick(entry.path)}><${Name} text=${nameOf(entry.path)} /></button> <span class="quiet">${bytes(entry.size_bytes)}</span>`}</li>`)}</ul>
        ${entries.length === 0 && html`<p class="quiet">${kind === 'folder' ? 'There is no folder in it.' : 'There is nothing to choose in it.'}</p>`}
        ${answer.data.next && html`<p class="quiet">The first ${plural(PAGE, 'entry', 'entries')} are shown. Type the path where you miss one.</p>`}` : html`<${Waiting} answer=${answer} />`}</div>
    <p class="quiet hint-line">${kind === 'folder' ? 'A click opens a folder.' : 'A click opens a folder, or chooses a file.'}</p>
    <div class="buttons"><button type="button" onClick=${onClose}>Back</button>
      ${kind !== 'file' && html`<button type="button" class="strong" disabled=${kind === 'any' && folder === '/'} onClick=${() => onPick(folder)}>Choose this folder</button>`}</div><//>`;
}

/** A path below a folder that has been chosen, which need not be there yet. */
export const within = (folder, name) => (folder === '/' ? `/${name}` : below(folder, name));
