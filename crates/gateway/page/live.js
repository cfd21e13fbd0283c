// The stream of server-sent events: the newest overview, and whether it still is one. It connects again by itself.
// It never throws the last state away: what is old is shown as old.
import { useEffect, useState } from './vendor/htm.js';
import { address, request, tellLoggedOut } from './api.js';

const SILENCE_MILLIS = 15000;
const PAUSE_MAX_MILLIS = 15000;

// status: waiting (nothing yet), live, unreachable (the master), cut (the web server).
let state = { status: 'waiting', message: '', overview: null, received: 0, since: 0 };
let source = null;
let isWanted = false;
let pause = 1000;
let timer = null;
let watch = null;
let lastEvent = 0;
const listeners = new Set();

function set(change) {
  const since = change.status && change.status !== state.status ? Date.now() : state.since;
  state = { ...state, ...change, since };
  listeners.forEach((listener) => listener(state));
}

export function start() {
  isWanted = true;
  open();
}

function open() {
  if (source || !isWanted) return;
  clearTimeout(timer);
  lastEvent = Date.now();
  watch ??= setInterval(watchSilence, 2000);
  source = new EventSource(address('/live'));
  source.addEventListener('overview', (event) => take(event.data));
  source.addEventListener('unreachable', (event) => {
    lastEvent = Date.now();
    pause = 1000;
    set({ status: 'unreachable', message: read(event.data)?.message ?? '' });
  });
  source.onerror = fail;
}

export function stop() {
  isWanted = false;
  close();
}

function close() {
  clearTimeout(timer);
  clearInterval(watch);
  watch = null;
  source?.close();
  source = null;
}

/** Forgets everything: another user must not see the last one's state. */
export function forget() {
  stop();
  set({ status: 'waiting', message: '', overview: null, received: 0 });
}

function read(text) {
  try { return JSON.parse(text); } catch (_) { return null; }
}

function take(text) {
  const overview = read(text);
  if (!overview) return;
  lastEvent = Date.now();
  pause = 1000;
  // Parts that have not changed may be left out.
  set({ status: 'live', message: '', overview: { ...state.overview, ...overview }, received: lastEvent });
}

function watchSilence() {
  if (source && Date.now() - lastEvent > SILENCE_MILLIS) fail();
}

/** The browser does not say why a stream ended, so a login that has run out is asked for. */
async function fail() {
  close();
  // A stream may end in good order and be begun again at once: that is no trouble yet.
  if (pause > 1000 && state.status !== 'unreachable') set({ status: 'cut', message: '' });
  timer = setTimeout(async () => {
    pause = Math.min(pause * 2, PAUSE_MAX_MILLIS);
    try {
      await request('GET', '/session', { quiet401: true });
    } catch (error) {
      if (error.status === 401) { tellLoggedOut(); return; }
      if (error.status === 0) set({ status: 'cut', message: '' });
    }
    open();
  }, pause);
}

// A page that nobody sees does not take the stream.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) close();
  else open();
});
window.addEventListener('online', () => { pause = 1000; open(); });

export function useLive() {
  const [seen, setSeen] = useState(state);
  useEffect(() => {
    listeners.add(setSeen);
    setSeen(state);
    return () => listeners.delete(setSeen);
  }, []);
  return seen;
}
