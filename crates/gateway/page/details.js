// What is known of one file or folder: digest, copies on the topology, versions, rights, and a preview.
// It never changes the file, and its rights only after a dialog.
import { html, useEffect, useRef, useState } from './vendor/htm.js';
import { query, useGet } from './api.js';
import { bytes, clean, count, natural, plural } from './format.js';
import { Download } from './download.js';
import { Change } from './people-changes.js';
import { Preview } from './preview.js';
import { link, nameOf, segmentsOf } from './route.js';
import { Facts, Failed, Name, State, tell, Time, Waiting } from './widgets.js';

const RIGHTS = { r: 'read', w: 'write', x: 'run jobs on', a: 'administer' };
const rightWords = (rights) => [...(rights ?? '')].map((mark) => RIGHTS[mark] ?? mark).join(', ') || 'nothing';

export function Details({ path, mayChange, onClose, onAsk }) {
  const answer = useGet(`/stat${query({ path })}`);
  const entry = answer.data;
  const head = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    head.current?.focus();
    return () => { if (before?.isConnected) before.focus(); };
  }, []);
  return html`<aside class="panel details" aria-label="Details of ${clean(nameOf(path))}" onKeyDown=${(event) => { if (event.key === 'Escape') onClose(); }}>
    <div class="panel-head"><h2 ref=${head} tabindex="-1"><${Name} text=${nameOf(path)} /></h2>
      ${entry?.kind === 'file' && html`<${Download} path=${path} isButton />`}
      ${onAsk && html`<a class="button" href=${link(['jobs', 'new'], { input: path })}>Run a job</a><button type="button" onClick=${() => onAsk('rename')}>Rename</button><button type="button" onClick=${() => onAsk('remove')}>Remove</button>`}
      <button type="button" onClick=${onClose}>Close</button></div>
    ${entry ? html`<${Known} entry=${entry} mayChange=${mayChange} />` : html`<${Waiting} answer=${answer} />`}</aside>`;
}

function Known({ entry, mayChange }) {
  const isFile = entry.kind === 'file';
  return html`
    <${Facts} items=${[
      ['Path', html`<${Name} text=${entry.path} />`],
      isFile && ['Size', html`${bytes(entry.size_bytes)} <span class="quiet">(${count(entry.size_bytes)} bytes)</span>`],
      ['Modified', html`<${Time} at=${entry.modified} />`],
      ['Owner', html`<${Name} text=${entry.owner} />`],
      isFile && ['Records', entry.records ?? 'not said'],
      isFile && ['Digest (BLAKE3)', html`<code class="digest">${entry.digest}</code>`],
    ]} />
    ${isFile && html`<h3>Preview</h3><${Preview} entry=${entry} />`}
    ${isFile && html`<h3>Copies</h3><${Copies} entry=${entry} />`}
    ${isFile && html`<h3>Earlier versions</h3><${Versions} path=${entry.path} />`}
    <h3>Who may</h3><${Rights} path=${entry.path} mayChange=${mayChange} />`;
}

/** Copies by site and rack, so that one sees at once what a site that is lost would take along. */
function Copies({ entry }) {
  const copies = entry.copies ?? [];
  const sites = [...new Set(copies.map((copy) => copy.site))].sort(natural);
  const good = copies.filter((copy) => copy.state === 'ok').length;
  const short = entry.copies_wanted != null && good < entry.copies_wanted;
  return html`<p><${State} of=${short ? 'warning' : 'ok'} text=${`${good} of ${plural(entry.copies_wanted ?? good, 'copy', 'copies')}`} /> on ${plural(sites.length, 'site')}${short ? '; the master copies it as soon as there is room' : ''}.</p>
    <ul class="copies">${sites.map((site) => html`<li><strong><${Name} text=${site} /></strong>
      <ul>${copies.filter((copy) => copy.site === site).sort((a, b) => natural(a.node, b.node)).map((copy) => html`<li>
        <a href=${link(['nodes', copy.node])}><${Name} text=${copy.node} /></a> <span class="quiet"><${Name} text=${copy.rack} /></span> <${State} of=${copy.state} /></li>`)}</ul></li>`)}</ul>`;
}

function Versions({ path }) {
  const answer = useGet(`/versions${query({ path })}`);
  if (!answer.data) return html`<${Waiting} answer=${answer} />`;
  if (answer.data.length === 0) return html`<p class="quiet">None is kept.</p>`;
  return html`<ul class="plain-list">${answer.data.map((row) => html`<li key=${row.version}>
    <${Download} path=${row.trash_path} name=${nameOf(path)} label="Download the version replaced at ${clean(row.replaced)}" />
    ${' '}${bytes(row.size_bytes)}, replaced <${Time} at=${row.replaced} /> by <${Name} text=${row.replaced_by} />, kept until <${Time} at=${row.until} />
    <br /><code><${Name} text=${row.trash_path} /></code></li>`)}</ul>`;
}

function Rights({ path, mayChange }) {
  const [dialog, setDialog] = useState(null);
  const answer = useGet(`/acl${query({ path })}`);
  if (!answer.data) return html`<${Waiting} answer=${answer} />`;
  const { acl, owner, own, from, yours } = answer.data;
  const source = own ? 'its own list' : from ? html`the list of <a href=${link(['files', ...segmentsOf(from)])}><${Name} text=${from} /></a>` : 'the settings of the cloud';
  return html`<${Failed} error=${answer.error} /><p>You may: ${rightWords(yours)}. By ${source}; the owner is <${Name} text=${owner} />.</p>
    <ul class="plain-list">${acl.map((item) => html`<li><strong><${Name} text=${item.who} /></strong> may ${rightWords(item.rights)}</li>`)}</ul>
    ${mayChange && html`<p class="tools"><button type="button" onClick=${() => setDialog({ kind: 'rights', path, acl, own })}>Change who may</button>${own && html`<button type="button" onClick=${() => setDialog({ kind: 'clear', path })}>Follow the folder above</button>`}</p>`}
    ${dialog && html`<${Change} dialog=${dialog} onClose=${() => setDialog(null)} onDone=${(sentence) => { setDialog(null); tell(sentence); answer.reload(); }} />`}`;
}
