// Requests to the server and the one kind of error they end in. A 401 anywhere brings up the login page.
// It never asks anybody but the server that the page came from, and never retries by itself.
import { useCallback, useEffect, useRef, useState } from './vendor/htm.js';

// Beside this file, also for the page of another room, which lies in a folder.
const BASE = new URL('api/v1', import.meta.url).pathname;

export class ApiError extends Error {
  constructor(status, body, headers = null) {
    super(body?.error?.message || words(status));
    this.status = status;
    this.reason = body?.error?.reason ?? '';
    this.body = body;
    this.retryAfter = Number(headers?.get('Retry-After')) || null;
    this.requestId = headers?.get('X-Request-Id') ?? null;
  }
}

function words(status) {
  if (status === 0) return 'The web server does not answer. Check the network; the page tries again.';
  if (status === 401) return 'You are not logged in.';
  if (status === 403) return 'You have no right to this.';
  if (status === 404) return 'There is no such thing.';
  if (status === 429) return 'Too many requests; wait a moment.';
  if (status === 503) return 'The master cannot be reached.';
  if (status === 507) return 'There is no room left, or the quota is used up.';
  return `The server answered ${status}.`;
}

const loggedOut = new Set();
/** Calls back when a request was refused because nobody is logged in. */
export function onLoggedOut(call) {
  loggedOut.add(call);
  return () => loggedOut.delete(call);
}
export const tellLoggedOut = () => loggedOut.forEach((call) => call());

export const address = (path) => `${BASE}${path}`;
export const query = (options) => {
  const wanted = Object.entries(options).filter(([, value]) => value !== '' && value != null);
  return wanted.length ? `?${new URLSearchParams(wanted)}` : '';
};
export const contentPath = (path) => `/content${path.split('/').map(encodeURIComponent).join('/')}`;

export async function request(method, path, { body, signal, headers = {}, quiet401 = false } = {}) {
  const all = { ...headers };
  if (method !== 'GET' && method !== 'HEAD') all['X-Sector-Request'] = '1';
  if (body !== undefined) all['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(address(path), { method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: 'same-origin' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, null);
  }
  if (response.ok) return response;
  if (response.status === 401 && !quiet401) tellLoggedOut();
  throw new ApiError(response.status, await readError(response), response.headers);
}

async function readError(response) {
  try { return await response.json(); } catch (_) { return null; }
}

const asJson = (response) => response.json();

export async function get(path, options, read = asJson) {
  const response = await request('GET', path, options);
  try {
    return await read(response);
  } catch (error) {
    // The connection can break in the middle of an answer.
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, null);
  }
}

export async function send(method, path, body, options) {
  const response = await request(method, path, { ...options, body });
  if (response.status === 204) return null;
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/**
 * An answer for a component: `{data, error, loading, reload}`. It asks again every `every` milliseconds if that is
 * given, keeps the last answer while it asks and when it fails, and forgets it when the address changes.
 */
export function useGet(path, every = 0, read = asJson) {
  const [state, setState] = useState({ path: null, data: null, error: null });
  const [round, setRound] = useState(0);
  const current = useRef(path);
  current.current = path;
  const reload = useCallback(() => setRound((number) => number + 1), []);
  useEffect(() => {
    if (path == null) return undefined;
    const stop = new AbortController();
    let timer = null;
    const ask = async () => {
      const began = performance.now();
      let wait = every;
      try {
        const data = await get(path, { signal: stop.signal }, read);
        if (stop.signal.aborted) return;
        setState({ path, data, error: null });
        // Long answers are asked for less often, so that the page stays fluid.
        wait = Math.max(every, (performance.now() - began) * 20);
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((old) => ({ path, data: old.path === path ? old.data : null, error }));
        // Without the master or the network the page comes back by itself.
        if (!every && (error.status === 503 || error.status === 0)) wait = 5000;
        else if (error.status && error.status !== 503) wait = 0;
      }
      if (wait && !stop.signal.aborted) timer = setTimeout(ask, wait);
    };
    ask();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [path, round, every]);
  const isCurrent = state.path === path;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, loading: path != null && !isCurrent, reload };
}
