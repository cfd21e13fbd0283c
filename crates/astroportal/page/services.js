// Requests to the portal's services, whose answers are XML, JSON and files. Faults are sentences of the server.
// It never asks anybody but the server that the page came from.
import { ApiError, tellLoggedOut } from '../api.js';

const PORTAL = new URL('..', import.meta.url);

/** The address of a service with its parameters; of one whose value is a list, each. */
export function addressOf(path, parameters = {}) {
  const address = new URL(path, PORTAL);
  for (const [name, value] of Object.entries(parameters)) for (const one of [value].flat()) if (one != null && one !== '') address.searchParams.append(name, one);
  return address.href;
}

/** Forms are read by the byte: a list of a hundred thousand rows must not become three times as long. */
const formOf = (form) => Object.entries(form).map(([name, value]) => `${name}=${value.replace(/[%&+#\r\n\u0080-\uffff]+/g, encodeURIComponent)}`).join('&');

export async function ask(path, { parameters, form, method = form ? 'POST' : 'GET', signal } = {}) {
  const headers = method === 'GET' ? {} : { 'X-Sector-Request': '1' };
  if (form) headers['Content-Type'] = 'application/x-www-form-urlencoded';
  let response;
  try {
    response = await fetch(addressOf(path, parameters), { method, headers, body: form && formOf(form), signal, credentials: 'same-origin' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, null);
  }
  if (response.ok) return response;
  if (response.status === 401) tellLoggedOut();
  throw new ApiError(response.status, { error: { message: await sentence(response) } }, response.headers);
}

/** A fault without the word that programs read before it. */
async function sentence(response) {
  const text = await response.text();
  const kind = response.headers.get('Content-Type') ?? '';
  const said = kind.includes('xml') ? parse(text).querySelector('INFO[name="QUERY_STATUS"]')?.textContent : kind.includes('json') ? JSON.parse(text).error?.message : text;
  return (said ?? '').trim().replace(/^\w+(Error|Fault|Unavailable|NotSupported): /, '');
}

const parse = (text) => new DOMParser().parseFromString(text, 'application/xml');

/** The images of the index that have a part of a circle, or are of a target: objects by the names of ObsCore. */
export async function findImages(parameters, signal) {
  const table = parse(await (await ask('sia2/query', { parameters, signal })).text());
  const names = [...table.getElementsByTagName('FIELD')].map((field) => field.getAttribute('name'));
  const rows = [...table.getElementsByTagName('TR')].map((row) => Object.fromEntries([...row.children].map((cell, at) => [names[at], cell.textContent])));
  const isCut = [...table.querySelectorAll('INFO[name="QUERY_STATUS"]')].some((info) => info.getAttribute('value') === 'OVERFLOW');
  return { rows, isCut };
}

const JOBS = 'soda/async';
const UWS = 'http://www.ivoa.net/xml/UWS/v1.0';
const jobPath = (id, rest = '') => `${JOBS}/${encodeURIComponent(id)}${rest}`;
const child = (node, name) => node.getElementsByTagNameNS(UWS, name)[0]?.textContent ?? '';

/** Begins a job, and returns its name. */
export async function beginJob(form) {
  const made = await ask(JOBS, { form: { ...form, PHASE: 'RUN' } });
  // What follows is what was sent.
  await made.body?.cancel();
  return decodeURIComponent(new URL(made.url).pathname.split('/').at(-1));
}

/** The jobs of who is logged in, newest first. */
export async function listJobs(signal) {
  const list = parse(await (await ask(JOBS, { parameters: { LAST: '50' }, signal })).text());
  return [...list.getElementsByTagNameNS(UWS, 'jobref')].map((job) => ({ id: job.getAttribute('id'), phase: child(job, 'phase'), created: child(job, 'creationTime') }));
}

/** How a job stands, without what it was asked: that may be megabytes. */
export async function watchJob(id, signal) {
  const text = async (what) => (await ask(jobPath(id, `/${what}`), { signal })).text();
  const phase = await text('phase');
  const results = parse(await text('results')).getElementsByTagNameNS(UWS, 'result');
  const files = [...results].map((result) => ({ name: result.getAttribute('id'), kind: result.getAttribute('mime-type'), bytes: Number(result.getAttribute('size')), address: addressOf(jobPath(id, `/results/${encodeURIComponent(result.getAttribute('id'))}`)) }));
  return { id, phase, files, error: phase === 'ERROR' ? await text('error') : '' };
}

export const stopJob = (id) => ask(jobPath(id, '/phase'), { form: { PHASE: 'ABORT' } });
export const removeJob = (id) => ask(jobPath(id), { method: 'DELETE' });
export const isOver = (phase) => ['COMPLETED', 'ERROR', 'ABORTED', 'ARCHIVED'].includes(phase);
