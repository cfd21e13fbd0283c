// The frame of the portal's page: who asks, its three rooms, and the jobs that this browser knows of.
// It never draws a room itself.
import { html, render, useEffect, useState } from '../vendor/htm.js';
import { onLoggedOut, send } from '../api.js';
import { askSession, Login } from '../login.js';
import { go, link, useRoute } from '../route.js';
import { Failed, Guard, Messages, Name, Theme } from '../widgets.js';
import { Coverage } from './coverage.js';
import { Lists } from './lists.js';
import { Search } from './search.js';

const ROOMS = [['', 'Search'], ['lists', 'Lists and jobs'], ['coverage', 'Coverage']];
const KEPT = 'portal-jobs';
const KEPT_MAX = 50;

function App() {
  const [session, setSession] = useState(undefined);
  const [error, setError] = useState(null);
  const look = async () => {
    setError(null);
    try { setSession(await askSession()); } catch (failure) { if (failure.status === 401) setSession(null); else setError(failure); }
  };
  useEffect(() => { look(); return onLoggedOut(() => setSession(null)); }, []);
  if (session === undefined) return html`<main class="start"><h1 class="quiet">Sky images</h1>${error ? html`<${Failed} error=${error} retry=${look} />` : html`<p>Loading …</p>`}</main>`;
  if (session === null) return html`<${Login} onSession=${setSession} wasLoggedIn=${false} />`;
  const leave = async () => { try { await send('POST', '/logout'); } catch (failure) { if (failure.status !== 401) { setError(failure); return; } } look(); };
  return html`<${Frame} session=${session} leave=${leave} enter=${() => setSession(null)} />`;
}

function Frame({ session, leave, enter }) {
  const { segments: [room = ''], options } = useRoute();
  const [ids, setIds] = useKept();
  const title = ROOMS.find(([key]) => key === room)?.[1] ?? 'Not found';
  useEffect(() => { document.title = `${title} · Sky images`; }, [title]);
  const begun = (id) => { setIds([{ id, created: new Date().toISOString() }, ...ids]); go(['lists']); };
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main').focus(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/">Sky images</a>
      <nav aria-label="Rooms"><ul>${ROOMS.map(([key, label]) => html`<li><a href=${link(key ? [key] : [])} aria-current=${key === room ? 'page' : undefined}>${label}</a></li>`)}</ul></nav>
      <div class="who"><a href="../#/">Files of the cloud</a><${Theme} />
        ${session.read_only ? html`<button type="button" onClick=${enter}>Log in</button>` : html`<span class="user"><${Name} text=${session.user} /></span><button type="button" onClick=${leave}>Log out</button>`}</div>
    </header>
    <main id="main" tabindex="-1"><${Guard} key=${room}>
      ${room === '' && html`<${Search} options=${options} begun=${begun} />`}
      ${room === 'lists' && html`<${Lists} session=${session} ids=${ids} setIds=${setIds} />`}
      ${room === 'coverage' && html`<${Coverage} />`}
      ${title === 'Not found' && html`<h1>Not found</h1><p>There is no such page. <a href="#/">Go to the search</a>.</p>`}<//></main>
    <${Messages} />
    <footer class="quiet">For programs: <code>sia2/query</code>, <code>datalink/links</code>, <code>soda/sync</code>, <code>soda/async</code> and <code>cutout</code> at this address · version ${session.version}</footer>`;
}

/** The jobs that a visitor has begun: only who knows a job's name can see it. */
function useKept() {
  const [ids, setIds] = useState(() => { try { return JSON.parse(localStorage.getItem(KEPT)) ?? []; } catch (_) { return []; } });
  const keep = (next) => {
    const kept = next.slice(0, KEPT_MAX);
    setIds(kept);
    try { localStorage.setItem(KEPT, JSON.stringify(kept)); } catch (_) { /* known until the page is closed */ }
  };
  return [ids, keep];
}

const root = document.getElementById('page');
root.textContent = '';
render(html`<${App} />`, root);
