// Small parts that every screen uses: text, notices, bars, dialogs. Text from outside is always shown as text.
// They never ask the server.
import { html, useEffect, useErrorBoundary, useRef, useState } from './vendor/htm.js';
import { bytes, clean, dateTime, percent } from './format.js';

/** A name from outside: on one line and from left to right, so that its ending stands at its end in every script. */
export const Name = ({ text }) => html`<bdi class="name" dir="ltr">${clean(text)}</bdi>`;

/** A moment; its day is left out on a phone if it is today. */
export function Time({ at, show }) {
  const moment = new Date(at ?? NaN);
  if (Number.isNaN(moment.getTime())) return '–';
  const [day, time] = dateTime(at).split(' ');
  const isToday = dateTime(Date.now()).startsWith(day);
  return html`<time dateTime=${moment.toISOString()} title=${moment.toISOString()}>${show ? show(at) : html`<span class=${isToday ? 'today' : ''}>${day} </span>${time}`}</time>`;
}

/** A sentence whose parts between backticks are commands. */
export function Sentence({ text }) {
  return String(text ?? '').split('`').map((part, at) => (at % 2 ? html`<code>${clean(part)}</code>` : html`<bdi>${clean(part)}</bdi>`));
}

export function Notice({ kind = 'info', children }) {
  return html`<div class="notice notice-${kind}" role=${kind === 'bad' ? 'alert' : 'status'}>${children}</div>`;
}

export function Failed({ error, retry }) {
  if (!error) return null;
  const kind = error.status === 403 ? 'info' : 'bad';
  return html`<${Notice} kind=${kind}><${Sentence} text=${error.message} />${error.status >= 500 && error.requestId && html` <span class="quiet">(request ${clean(error.requestId)})</span>`}${retry && html` <button type="button" onClick=${retry}>Try again</button>`}<//>`;
}

/** What stands in for an answer: still on its way, or failed with nothing to show. */
export function Waiting({ answer }) {
  if (answer.error) return html`<${Failed} error=${answer.error} retry=${answer.reload} />`;
  return html`<p class="quiet" aria-busy="true">Loading …</p>`;
}

const STATE_MARKS = { ok: '●', done: '●', up: '●', idle: '○', off: '–', running: '▶', warning: '▲', blocked: '▲', joining: '…', critical: '✕', failed: '✕', failing: '✕', lost: '✕', cancelled: '■', missing: '✕', corrupt: '✕', stale: '▲', writing: '…' };

/** A state in words, with a sign before it. */
export const State = ({ of, text }) => html`<span class="state state-${of}"><span aria-hidden="true">${STATE_MARKS[of] ?? '○'}</span> ${text ?? of}</span>`;

export function Bar({ share, text, label, kind = '' }) {
  const width = Math.min(1, Math.max(0, Number.isFinite(share) ? share : 0));
  return html`<span class="bar ${kind}">
    <span class="bar-track" role="progressbar" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(width * 100)}>
      <span class="bar-fill" style=${{ width: `${width * 100}%` }}></span></span>
    <span class="bar-text">${text ?? percent(width)}</span></span>`;
}

export const Fill = ({ used, free, label }) => html`<${Bar} share=${used / Math.max(1, used + free)} label=${label}
  text="${bytes(used)} of ${bytes(used + free)}" />`;

/** Pairs of a word and a value. */
export function Facts({ items }) {
  return html`<dl class="facts">${items.filter(Boolean).map(([word, value]) => html`<div><dt>${word}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Section({ title, tools, children, id }) {
  return html`<section class="panel" aria-label=${typeof title === 'string' ? title : undefined} id=${id}>
    <div class="panel-head"><h2>${title}</h2>${tools}</div>${children}</section>`;
}

/** A dialog that keeps the focus inside and closes with Escape. */
export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    if (!dialog.open) dialog.showModal();
    return () => { if (dialog.open) dialog.close(); if (before?.isConnected) before.focus(); };
  }, []);
  return html`<dialog ref=${box} aria-label=${clean(title)} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <h2>${clean(title)}</h2>${children}</dialog>`;
}

/**
 * A question with a button that does it; stays open and says why when it fails. A refusal that is about one of its
 * `fields` is said there: `children` is then a function that gets the error.
 */
export function Ask({ title, children, action, kind = 'strong', fields = [], onDone, onClose }) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try { onDone(await action.run()); } catch (failure) { setError(failure); setBusy(false); }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${run}>${typeof children === 'function' ? children(error) : children}
      ${!fields.includes(fieldOf(error)) && html`<${Failed} error=${error} />`}
      <div class="buttons"><button type="button" onClick=${onClose}>${action.back ?? 'Back'}</button>
        <button class=${kind} disabled=${isBusy || action.disabled}>${action.label}</button></div>
    </form><//>`;
}

/** The field of a request that a refusal is about. */
export const fieldOf = (error) => error?.body?.error?.field ?? null;

/** A field with its hint and, if the server has refused it, why. `children` gets the attributes of the input. */
export function Field({ of, label, hint, error, children }) {
  const isWrong = of != null && fieldOf(error) === of;
  const id = `field-${of}`;
  const told = [hint && `${id}-hint`, isWrong && `${id}-error`].filter(Boolean).join(' ');
  return html`<div class="field ${isWrong ? 'field-wrong' : ''}"><label for=${id}>${label}</label>
    ${children({ id, 'aria-invalid': isWrong ? 'true' : undefined, 'aria-describedby': told || undefined })}
    ${hint && html`<p class="quiet hint-line" id="${id}-hint">${hint}</p>`}
    ${isWrong && html`<p class="field-error" id="${id}-error" role="alert"><${Sentence} text=${error.message} /></p>`}</div>`;
}

// Short messages at the lower edge: what was done, or why not.
let told = [];
const listeners = new Set();
export function tell(text, kind = 'info') {
  const item = { text, kind, id: Math.random() };
  told = [...told.slice(-3), item];
  listeners.forEach((listener) => listener(told));
  setTimeout(() => dismiss(item.id), kind === 'bad' ? 15000 : 6000);
}

function dismiss(id) {
  told = told.filter((item) => item.id !== id);
  listeners.forEach((listener) => listener(told));
}

export function Messages() {
  const [items, setItems] = useState(told);
  useEffect(() => { listeners.add(setItems); return () => listeners.delete(setItems); }, []);
  return html`<div class="messages" aria-live="polite">${items.map((item) => html`<div key=${item.id} class="notice notice-${item.kind}">
    <${Sentence} text=${item.text} /><button type="button" class="plain" aria-label="Close message" onClick=${() => dismiss(item.id)}>✕</button></div>`)}</div>`;
}

/** A fault of the page itself must not leave an empty window. */
export function Guard({ children }) {
  const [error, reset] = useErrorBoundary();
  if (!error) return children;
  return html`<${Notice} kind="bad">This screen has failed: ${String(error.message ?? error)} <button type="button" onClick=${reset}>Show it again</button><//>`;
}

/** The choice of light or dark; `theme.js` obeys it before the first paint. */
export function Theme() {
  const [wish, setWish] = useState(() => stored() ?? 'auto');
  useEffect(() => {
    const system = matchMedia('(prefers-color-scheme: dark)');
    const apply = () => { document.documentElement.dataset.theme = wish === 'auto' ? (system.matches ? 'dark' : 'light') : wish; };
    apply();
    system.addEventListener('change', apply);
    return () => system.removeEventListener('change', apply);
  }, [wish]);
  const choose = (event) => {
    const next = event.currentTarget.value;
    setWish(next);
    try { if (next === 'auto') localStorage.removeItem('theme'); else localStorage.setItem('theme', next); } catch (_) { /* not kept */ }
  };
  return html`<select aria-label="Light or dark" value=${wish} onChange=${choose}>
    <option value="auto">Auto</option><option value="light">Light</option><option value="dark">Dark</option></select>`;
}

function stored() {
  try { return localStorage.getItem('theme'); } catch (_) { return null; }
}
