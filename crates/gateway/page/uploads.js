// The list of uploads at the lower edge: progress, questions, retry and cancel.
// It never sends anything itself.
import { html, useEffect, useState } from './vendor/htm.js';
import { bytes, plural } from './format.js';
import { cancel, clearOver, decide, isOver, retry, watch } from './upload.js';
import { Bar, Name } from './widgets.js';
import { nameOf } from './route.js';

const SHOWN_MAX = 60;

export function Uploads() {
  const [uploads, setUploads] = useState([]);
  const [isFolded, setFolded] = useState(false);
  useEffect(() => watch(setUploads), []);
  if (uploads.length === 0) return null;
  const open = uploads.filter((upload) => !isOver(upload)).length;
  const asking = uploads.filter((upload) => upload.state === 'asking');
  const order = [...asking, ...uploads.filter((upload) => upload.state !== 'asking')];
  return html`<section class="uploads" aria-label="Uploads">
    <div class="panel-head"><h2>Uploads</h2><span class="quiet" role="status">${open ? `${open} of ${uploads.length} under way` : plural(uploads.length, 'upload')}</span>
      ${asking.length > 1 && html`<button type="button" onClick=${() => asking.forEach((upload) => decide(upload.id, true))}>Replace all ${asking.length}</button>
        <button type="button" onClick=${() => asking.forEach((upload) => decide(upload.id, false))}>Keep all</button>`}
      <button type="button" aria-expanded=${!isFolded} onClick=${() => setFolded(!isFolded)}>${isFolded ? 'Show' : 'Fold'}</button>
      ${uploads.some(isOver) && html`<button type="button" onClick=${clearOver}>Clear finished</button>`}</div>
    ${!isFolded && html`<ul>${order.slice(0, SHOWN_MAX).map((upload) => html`<${Row} key=${upload.id} upload=${upload} />`)}</ul>`}
    ${!isFolded && order.length > SHOWN_MAX && html`<p class="quiet">and ${order.length - SHOWN_MAX} more</p>`}</section>`;
}

const WORDS = { waiting: 'waits for its turn', sending: '', pausing: '', asking: 'a file of this name is there already; replace it?', finishing: 'being stored', done: 'stored', failed: 'failed', cancelled: 'cancelled' };

function Row({ upload }) {
  const { id, state } = upload;
  const name = nameOf(upload.path);
  const button = (label, act) => html`<button type="button" aria-label="${label} ${name}" onClick=${act}>${label}</button>`;
  return html`<li class="upload upload-${state}">
    <span class="upload-name" title=${upload.path}><${Name} text=${name} /></span>
    <${Bar} share=${upload.size ? upload.sent / upload.size : Number(state === 'done')} label="Upload of ${name}" text="${bytes(upload.sent)} of ${bytes(upload.size)}" />
    <span class="upload-words">${[WORDS[state], state === 'asking' ? '' : upload.message].filter(Boolean).join(': ')}</span>
    <span class="upload-buttons">
      ${state === 'asking' && html`${button('Replace', () => decide(id, true))}${button('Keep', () => decide(id, false))}`}
      ${state === 'failed' && button('Retry', () => retry(id))}
      ${!isOver(upload) && state !== 'asking' && button('Cancel', () => cancel(id))}</span></li>`;
}
