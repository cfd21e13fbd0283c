// The frame of the page: session, navigation, the line that says when the state is old, and which screen is shown.
// It never draws a screen itself.
import { html, render, useEffect, useRef, useState } from './vendor/htm.js';
import { onLoggedOut, send } from './api.js';
import { Audit } from './audit.js';
import { Events } from './events.js';
import { Files } from './files.js';
import { clock, ago, plural } from './format.js';
import { Job } from './job.js';
import { JobForm } from './jobform.js';
import { Jobs } from './jobs.js';
import * as live from './live.js';
import { askSession, Login, onLoginLink } from './login.js';
import { NodePage } from './node.js';
import { Overview } from './overview.js';
import { People } from './people.js';
import { link, useRoute } from './route.js';
import { Trash } from './trash.js';
import { cancelAll } from './upload.js';
import { Uploads } from './uploads.js';
import { Ask, Failed, Guard, Messages, Name, Sentence, Theme, tell } from './widgets.js';
import { Work } from './work.js';

const ROOMS = [['', 'Overview'], ['files', 'Files'], ['jobs', 'Jobs'], ['work', 'Work'], ['events', 'Events'], ['trash', 'Trash'], ['people', 'People'], ['audit', 'Audit']];

function App() {
  const [session, setSession] = useState(undefined);
  const [error, setError] = useState(null);
  const [last, setLast] = useState(null);
  const ask = async () => {
    setError(null);
    try { enter(await askSession()); } catch (failure) { if (failure.status === 401) setSession(null); else setError(failure); }
  };
  const enter = (found) => {
    // What another user saw must not be shown to this one.
    if (last && last !== found.user) { live.forget(); cancelAll(); }
    setLast(found.user);
    setSession(found);
    setError(null);
    live.start();
  };
  useEffect(() => { ask(); return onLoginLink(ask); }, []);
  useEffect(() => onLoggedOut(() => { live.stop(); setSession(null); }), []);
  useEffect(() => {
    if (!error) return undefined;
    const timer = setTimeout(ask, 5000);
    return () => clearTimeout(timer);
  }, [error]);
  if (session === undefined) {
    return html`<main class="start"><h1 class="quiet">Sector/Sphere</h1>${error ? html`<${Failed} error=${error} retry=${ask} />` : html`<p>Loading …</p>`}</main>`;
  }
  if (session === null) return html`<${Login} onSession=${enter} wasLoggedIn=${last != null} />`;
  const leave = async () => {
    cancelAll();
    try { await send('POST', '/logout'); } catch (failure) { if (failure.status !== 401) { tell(failure.message, 'bad'); return; } }
    live.forget();
    setLast(null);
    setSession(null);
  };
  return html`<${Frame} session=${session} onLeave=${leave} />`;
}

function Frame({ session, onLeave }) {
  const route = useRoute();
  const room = route.segments[0] ?? '';
  const state = live.useLive();
  const isOld = state.status === 'unreachable' || state.status === 'cut';
  const [isLeaving, setLeaving] = useState(false);
  const running = session.logout_ends_jobs ? (state.overview?.jobs ?? []).filter((job) => job.user === session.user && job.state === 'running').length : 0;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main').focus(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/">Sector/Sphere</a>
      <nav aria-label="Rooms"><ul>${ROOMS.map(([key, label]) => html`<li><a href=${link(key ? [key] : [])} aria-current=${key === room || (key === '' && room === 'nodes') ? 'page' : undefined}>${label}</a></li>`)}</ul></nav>
      <div class="who"><${LiveSign} state=${state} /><${Theme} />
        <span class="user"><${Name} text=${session.user} />${session.admin ? html` <span class="quiet">(administrator)</span>` : ''}</span>
        <button type="button" onClick=${() => (running > 0 ? setLeaving(true) : onLeave())}>Log out</button></div>
    </header>
    ${isLeaving && html`<${Ask} title="Log out, and end your jobs?" kind="danger" onClose=${() => setLeaving(false)} onDone=${() => setLeaving(false)}
      action=${{ label: 'Log out', back: 'Stay', run: onLeave }}>
      <p>${plural(running, 'job')} of yours still ${running === 1 ? 'runs' : 'run'}. What you start here ends, without results, when you log out. You can close the page instead.</p><//>`}
    <${Banner} state=${state} session=${session} />
    <main id="main" tabindex="-1" class=${isOld ? 'old' : ''}>
      <${Guard} key=${room}><${Screen} route=${route} session=${session} /><//>
    </main>
    <${Uploads} />
    <${Messages} />
    <footer class="quiet">Cloud ${session.cloud} · version ${session.version}</footer>`;
}

function Screen({ route, session }) {
  const [room = '', id] = route.segments;
  const at = useRef(null);
  useEffect(() => {
    const title = { nodes: id, jobs: id === 'new' ? 'New job' : id ? `Job ${id}` : 'Jobs' }[room] ?? ROOMS.find(([key]) => key === room)?.[1] ?? 'Not found';
    document.title = `${title} · Sector/Sphere`;
    // A reader that follows the focus must hear that the screen has changed; not on the first one.
    if (at.current !== null && at.current !== room + (id ?? '') && room !== 'files') document.getElementById('main')?.focus({ preventScroll: true });
    at.current = room + (id ?? '');
  }, [room, id]);
  if (room === '') return html`<${Overview} />`;
  if (room === 'nodes' && id) return html`<${NodePage} id=${id} key=${id} />`;
  if (room === 'files') return html`<${Files} segments=${route.segments.slice(1)} show=${route.options.get('show')} session=${session} />`;
  if (room === 'jobs' && id === 'new') return html`<${JobForm} options=${route.options} session=${session} />`;
  if (room === 'jobs') return id ? html`<${Job} id=${id} key=${id} session=${session} output=${route.options.get('output')} />` : html`<${Jobs} options=${route.options} session=${session} />`;
  if (room === 'work') return html`<${Work} />`;
  if (room === 'events') return html`<${Events} options=${route.options} />`;
  if (room === 'trash') return html`<${Trash} session=${session} />`;
  if (room === 'people') return html`<${People} session=${session} />`;
  if (room === 'audit') return html`<${Audit} options=${route.options} />`;
  return html`<h1>Not found</h1><p>There is no such page. <a href="#/">Go to the overview</a>.</p>`;
}

function LiveSign({ state }) {
  const words = { waiting: 'connecting', live: 'live', unreachable: 'master gone', cut: 'no connection' }[state.status];
  return html`<span class="live live-${state.status}" title=${state.received ? `Newest state: ${clock(state.received)}` : ''}><span aria-hidden="true">${state.status === 'live' ? '●' : '○'}</span> ${words}</span>`;
}

function Banner({ state, session }) {
  const [, tick] = useState(0);
  const isOld = state.status === 'unreachable' || state.status === 'cut';
  useEffect(() => {
    if (!isOld) return undefined;
    const timer = setInterval(() => tick((number) => number + 1), 1000);
    return () => clearInterval(timer);
  }, [isOld]);
  if (!isOld) return session.read_only ? html`<div class="banner banner-info" role="status">This page is read-only: nothing can be changed here.</div>` : null;
  const last = state.received ? `What you see is the state of ${clock(state.received)} (${ago(state.received)}). ` : '';
  const what = state.status === 'unreachable'
    ? html`<strong>The master cannot be reached</strong>${state.message ? html`: <${Sentence} text=${state.message} />` : ''}. `
    : html`<strong>The web server does not answer.</strong> Check the network. `;
  return html`<div class="banner banner-bad" role="alert">${what}<span aria-live="off">${last}</span>The page comes back by itself.</div>`;
}

render(html`<${App} />`, clearStart());

function clearStart() {
  const root = document.getElementById('page');
  root.textContent = '';
  return root;
}
