// What the tests share: which server is asked, states that are put in its place, and waiting.
// The server is a real one. It never stands in for the page's own code.
import * as made from './generated.js';


export function server() {
  const { SECTOR_WEB_BASE: base, SECTOR_WEB_PORTAL: portal, SECTOR_WEB_USER: user, SECTOR_WEB_PASSWORD: password } = process.env;
  if (!base) throw new Error('Name the web page in SECTOR_WEB_BASE, and an administrator in SECTOR_WEB_USER and SECTOR_WEB_PASSWORD; `cargo xtask test web` does it all.');
  return { base: base.replace(/\/$/, ''), portal: portal?.replace(/\/$/, ''), user, password, folder: process.env.SECTOR_WEB_FOLDER ?? '/web-test' };
}

const API = '**/api/v1';
const json = (route, status, value) => route.fulfill({ status, contentType: 'application/json', body: JSON.stringify(value) });

/** The big cloud in place of the server's own. */
export function bigOverview(second = Date.now() / 1000) {
  const nodes = made.bigNodes();
  return { time: new Date().toISOString(), health: made.bigHealth(nodes), nodes, load: made.loadOf(nodes, second), links: made.linksOf(nodes, second), jobs: [made.jobOf('aaaa000011112222', 'running', 100000)], work: made.workOf(nodes) };
}

export const events = (page, ...list) => page.route(`${API}/live`, (route) => route.fulfill({ contentType: 'text/event-stream', body: list.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join('') }));
export const unroute = (page, path) => page.unroute(`${API}${path}`);
export const answer = (page, path, status, value) => page.route(`${API}${path}`, (route) => json(route, status, value));
export const cut = (page, path) => page.route(`${API}${path}`, (route) => route.abort('connectionreset'));
export const refused = { error: { reason: 'no_right', message: 'bob has no right to see this', path: null } };

/** A job with its parts, in place of the server's own; cancelling it ends it. */
export async function job(page, { id = 'aaaa000011112222', segments = 400, nodes = 8, state = 'running', more = {} } = {}) {
  const seen = { state, cancels: [] };
  await page.route(`${API}/jobs/${id}**`, (route) => {
    const path = new URL(route.request().url()).pathname;
    if (path.endsWith('/cancel')) { seen.cancels.push(route.request().headers()); seen.state = 'cancelled'; return route.fulfill({ status: 204 }); }
    if (path.endsWith('/segments')) return json(route, 200, made.segmentsOf(segments, nodes));
    if (path.endsWith('/errors')) return json(route, 200, state === 'failed' ? made.jobErrors() : []);
    if (path.endsWith('/logs')) return json(route, 200, state === 'failed' ? made.jobLogs() : { segments: [], left_out: 0 });
    return json(route, 200, made.jobOf(id, seen.state, segments, more));
  });
  return seen;
}

/** A file stored without the page's own list of uploads. */
export async function store(page, path, data) {
  const result = await page.evaluate(async ([path, list]) => {
    const bytes = new Uint8Array(list);
    const send = async (method, at, body, headers = {}) => {
      const response = await fetch(`api/v1${at}`, { method, body, headers: { 'X-Sector-Request': '1', ...headers } });
      return { status: response.status, body: response.status === 204 ? null : await response.json().catch(() => null) };
    };
    const asJson = { 'Content-Type': 'application/json' };
    const begun = await send('POST', '/uploads', JSON.stringify({ path, bytes: bytes.length, replace: true }), asJson);
    if (begun.status !== 201) return begun;
    if (bytes.length) await send('PATCH', `/uploads/${begun.body.id}`, bytes, { 'Upload-Offset': '0', 'Content-Type': 'application/octet-stream' });
    return send('POST', `/uploads/${begun.body.id}/finish`, '{}', asJson);
  }, [path, [...Buffer.from(data)]]);
  if (result.status >= 300) throw new Error(`storing ${path}: ${result.status} ${JSON.stringify(result.body)}`);
}

export async function makeFolder(page, path) {
  await page.evaluate((at) => fetch('api/v1/folders', { method: 'POST', body: JSON.stringify({ path: at, parents: true }), headers: { 'X-Sector-Request': '1', 'Content-Type': 'application/json' } }), path);
}

export async function until(what, check, millis = 10000) {
  const end = Date.now() + millis;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const go = async (page, base, at) => { await page.goto(`${base}/${at}`); };
export const filesAt = (path, options = '') => `#/files${path.split('/').map(encodeURIComponent).join('/')}${options}`;
