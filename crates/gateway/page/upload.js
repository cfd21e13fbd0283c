// Uploads in pieces: goes on after a cut where the server says, pauses longer after each failure, can be cancelled.
// It never reads a whole file into memory and never replaces a file unasked.
import { address, ApiError, get, request, send } from './api.js';

const PIECE = 8 * 1024 * 1024;
const AT_ONCE = 2;
const PAUSE_MAX_MILLIS = 30000;

// state: waiting, sending, pausing, asking (exists already), finishing, done, failed, cancelled.
let uploads = [];
const listeners = new Set();
let number = 0;
const doneCalls = new Set();

export function watch(listener) {
  listeners.add(listener);
  listener(uploads);
  return () => listeners.delete(listener);
}

/** Calls back with the path of each file that is now in the cloud. */
export function onDone(call) {
  doneCalls.add(call);
  return () => doneCalls.delete(call);
}

function tell() {
  uploads = [...uploads];
  listeners.forEach((listener) => listener(uploads));
}

function change(upload, part) {
  Object.assign(upload, part);
  tell();
}

export function add(file, path) {
  number += 1;
  uploads.push({ id: number, file, path, size: file.size, sent: 0, state: 'waiting', message: '', replace: false, server: recall(file, path), failures: 0, stop: null, began: 0 });
  tell();
  next();
}

export function cancel(id) {
  const upload = uploads.find((item) => item.id === id);
  if (!upload || isOver(upload)) return;
  const server = upload.server;
  forget(upload);
  change(upload, { state: 'cancelled', message: '' });
  upload.stop?.abort();
  upload.wake?.();
  if (server) send('DELETE', `/uploads/${encodeURIComponent(server)}`).catch(() => { /* it runs out by itself */ });
  next();
}

/** Another user must not go on with the uploads of this one. */
export const cancelAll = () => uploads.forEach((upload) => cancel(upload.id));

/** The answer to “it exists already”. */
export function decide(id, replaces) {
  const upload = uploads.find((item) => item.id === id);
  if (upload?.state !== 'asking') return;
  if (!replaces) { change(upload, { state: 'cancelled', message: 'kept the file that is there' }); next(); return; }
  change(upload, { state: 'waiting', replace: true });
  next();
}

export function retry(id) {
  const upload = uploads.find((item) => item.id === id);
  if (upload?.state !== 'failed') return;
  change(upload, { state: 'waiting', message: '', failures: 0 });
  next();
}

export function clearOver() {
  uploads = uploads.filter((item) => !isOver(item));
  tell();
}

export const isOver = (upload) => ['done', 'failed', 'cancelled'].includes(upload.state);
const isBusy = (upload) => ['sending', 'pausing', 'finishing'].includes(upload.state);

function next() {
  while (uploads.filter(isBusy).length < AT_ONCE) {
    const upload = uploads.find((item) => item.state === 'waiting');
    if (!upload) return;
    run(upload);
  }
}

async function run(upload) {
  change(upload, { state: 'sending', began: Date.now(), stop: new AbortController() });
  while (upload.state !== 'cancelled') {
    try {
      await attempt(upload);
      break;
    } catch (error) {
      if (upload.state === 'cancelled') break;
      if (!(await recover(upload, error))) break;
    }
  }
  next();
}

/** From where the server stands to the end. */
async function attempt(upload) {
  if (upload.server) await askOffset(upload);
  if (!upload.server) {
    const begun = await send('POST', '/uploads', { path: upload.path, bytes: upload.size, replace: upload.replace }, { signal: upload.stop.signal });
    upload.server = begun.id;
    remember(upload);
    change(upload, { sent: begun.offset ?? 0 });
  }
  change(upload, { state: 'sending', message: '' });
  while (upload.sent < upload.size) {
    const from = upload.sent;
    const offset = await sendPiece(upload, from);
    if (offset > from) upload.failures = 0;
    change(upload, { sent: offset });
  }
  change(upload, { state: 'finishing' });
  upload.hasAskedToFinish = true;
  await send('POST', `/uploads/${encodeURIComponent(upload.server)}/finish`, {}, { signal: upload.stop.signal });
  finished(upload);
}

function finished(upload) {
  forget(upload);
  change(upload, { state: 'done', sent: upload.size, message: '' });
  doneCalls.forEach((call) => call(upload.path));
}

async function askOffset(upload) {
  try {
    const { offset, bytes, path } = await get(`/uploads/${encodeURIComponent(upload.server)}`, { signal: upload.stop.signal });
    if (bytes !== upload.size || path !== upload.path) { forget(upload); return; }
    change(upload, { sent: offset });
  } catch (error) {
    // 403: it was begun by another user of this browser.
    if (error.status !== 404 && error.status !== 403) throw error;
    forget(upload);
    // The answer to the last request may have been lost on its way, although the file is there.
    if (upload.hasAskedToFinish && await isStored(upload)) throw new Stored();
    change(upload, { sent: 0 });
  }
}

class Stored extends Error {}

async function isStored(upload) {
  try {
    const entry = await get(`/stat?path=${encodeURIComponent(upload.path)}`);
    return entry.size_bytes === upload.size && new Date(entry.modified).getTime() >= upload.began - 60000;
  } catch (_) { return false; }
}

/** Whether to go on after an error; waits as long as is right. */
async function recover(upload, error) {
  if (error instanceof Stored) { finished(upload); return false; }
  if (error.status === 409 && Number.isFinite(error.body?.offset)) { change(upload, { sent: error.body.offset }); return count(upload); }
  if (error.status === 409 && !upload.server) {
    if (error.reason && error.reason !== 'exists') { change(upload, { state: 'failed', message: error.message }); return false; }
    change(upload, { state: 'asking', message: '' });
    return false;
  }
  // After a cut the server may still be at the last piece.
  const isBusy = error.status === 409 && error.reason === 'busy' && upload.server;
  const passes = isBusy || error.status === 0 || error.status === 401 || error.status === 429 || error.status === 408 || (error.status >= 500 && error.status !== 507);
  // An upload that the server no longer knows begins again.
  if (error.status === 404 && upload.server) { forget(upload); return count(upload); }
  if (!passes) {
    const server = upload.server;
    forget(upload);
    if (server) send('DELETE', `/uploads/${encodeURIComponent(server)}`).catch(() => { /* it runs out by itself */ });
    change(upload, { state: 'failed', message: error.message || String(error) });
    return false;
  }
  const pause = error.retryAfter ? error.retryAfter * 1000 : Math.min(PAUSE_MAX_MILLIS, 500 * 2 ** upload.failures);
  upload.failures += 1;
  const why = error.status === 401 ? 'Log in again to go on' : error.status === 0 ? 'The connection was cut' : error.message.replace(/\.$/, '');
  change(upload, { state: 'pausing', message: `${why}; goes on by itself` });
  await sleep(upload, pause);
  return upload.state !== 'cancelled';
}

/** Against a server that goes on to refuse: at most some rounds without a pause. */
function count(upload) {
  upload.failures += 1;
  if (upload.failures < 8) return true;
  change(upload, { state: 'failed', message: 'The server and this page do not agree on how far the upload is.' });
  return false;
}

function sleep(upload, millis) {
  return new Promise((resolve) => {
    const done = () => { clearTimeout(timer); window.removeEventListener('online', done); resolve(); };
    const timer = setTimeout(done, millis);
    window.addEventListener('online', done);
    upload.wake = done;
  });
}

/** One piece, with progress while it is sent; resolves to the server's new offset. */
function sendPiece(upload, from) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    const stop = () => call.abort();
    upload.stop.signal.addEventListener('abort', stop, { once: true });
    call.open('PATCH', address(`/uploads/${encodeURIComponent(upload.server)}`));
    call.setRequestHeader('X-Sector-Request', '1');
    call.setRequestHeader('Upload-Offset', String(from));
    call.setRequestHeader('Content-Type', 'application/octet-stream');
    call.upload.onprogress = (event) => change(upload, { sent: from + event.loaded });
    call.onerror = () => reject(new ApiError(0, null));
    call.onabort = () => reject(new ApiError(0, null));
    call.onload = () => {
      upload.stop.signal.removeEventListener('abort', stop);
      let body = null;
      try { body = JSON.parse(call.responseText); } catch (_) { /* no JSON: the status says enough */ }
      if (call.status === 200 && Number.isFinite(body?.offset)) resolve(body.offset);
      else reject(new ApiError(call.status, body, { get: (name) => call.getResponseHeader(name) }));
      if (call.status === 401) request('GET', '/session').catch(() => { /* the login page is on its way */ });
    };
    call.send(upload.file.slice(from, Math.min(from + PIECE, upload.size)));
  });
}

// The server's name of an upload is kept, so that the same file dropped again after a reload goes on.
const keyOf = (file, path) => `upload ${path} ${file.size} ${file.lastModified}`;

function recall(file, path) {
  try { return localStorage.getItem(keyOf(file, path)); } catch (_) { return null; }
}

function remember(upload) {
  try { localStorage.setItem(keyOf(upload.file, upload.path), upload.server); } catch (_) { /* not kept */ }
}

function forget(upload) {
  upload.server = null;
  try { localStorage.removeItem(keyOf(upload.file, upload.path)); } catch (_) { /* was not kept */ }
}

window.addEventListener('beforeunload', (event) => {
  if (uploads.some((upload) => !isOver(upload))) event.preventDefault();
});
