// The login page: user and password, or a browser login with an identity provider.
// It never keeps a password, and never leaves the address one came for.
import { html, useEffect, useRef, useState } from './vendor/htm.js';
import { get, request, send } from './api.js';
import { go, parse } from './route.js';
import { Failed } from './widgets.js';

// Why the link that was opened last did not log anyone in.
let linkFailure = null;

export function Login({ onSession, wasLoggedIn }) {
  const [error, setError] = useState(linkFailure);
  const [isBusy, setBusy] = useState(false);
  const [browser, setBrowser] = useState(null);
  const user = useRef(null);
  useEffect(() => { document.title = 'Log in · Sector/Sphere'; user.current?.focus(); }, []);
  const enter = async (event) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const form = event.currentTarget;
    setBusy(true);
    setError(null);
    try {
      onSession(await send('POST', '/login', { user: fields.get('user'), password: fields.get('password') }, { quiet401: true }));
    } catch (failure) {
      setError(failure);
      setBusy(false);
      form.elements.password.value = '';
      form.elements.password.focus();
    }
  };
  const enterByBrowser = async () => {
    setError(null);
    try {
      const begun = await send('POST', '/login/browser', {}, { quiet401: true });
      // Only an address of the web is opened: anything else could run as a script.
      if (!/^https?:\/\//i.test(begun.url)) throw new Error('The server gave an address that is no web address.');
      window.open(begun.url, '_blank', 'noopener,noreferrer');
      setBrowser(begun);
    } catch (failure) { setError(failure); }
  };
  return html`<main class="login" id="main">
    <h1>Sector/Sphere</h1>
    <p class="quiet">${wasLoggedIn ? 'Your session has ended. Log in again to go on where you were.' : 'Log in to see the cloud.'}</p>
    <form onSubmit=${enter}>
      <label>User <input ref=${user} name="user" autocomplete="username" autocapitalize="none" spellcheck=${false} required /></label>
      <label>Password <input name="password" type="password" autocomplete="current-password" required /></label>
      <${Failed} error=${error} />
      <button class="strong" disabled=${isBusy}>Log in</button>
    </form>
    ${browser
      ? html`<${BrowserWait} begun=${browser} onSession=${onSession} onEnd=${(failure) => { setBrowser(null); setError(failure); }} />`
      : html`<p class="or"><button type="button" onClick=${enterByBrowser}>Log in with the browser</button>
          <span class="quiet">for users of an identity provider</span></p>`}
  </main>`;
}

function BrowserWait({ begun, onSession, onEnd }) {
  useEffect(() => {
    let timer = null;
    let isOver = false;
    const ask = async () => {
      try {
        const response = await request('GET', `/login/browser/${encodeURIComponent(begun.id)}`, { quiet401: true });
        if (response.status === 200) { const session = await response.json(); if (!isOver) onSession(session); return; }
      } catch (error) {
        if (isOver) return;
        if (error.status !== 0 && error.status !== 503) { onEnd(error); return; }
      }
      if (!isOver) timer = setTimeout(ask, 2000);
    };
    timer = setTimeout(ask, 1000);
    return () => { isOver = true; clearTimeout(timer); };
  }, [begun.id]);
  return html`<div class="notice notice-info" role="status">
    <p>Log in at the page of the provider that has opened in a new tab. If none has: <a href=${begun.url} target="_blank" rel="noopener noreferrer">open it</a>.</p>
    ${begun.user_code && html`<p>The code to enter there: <strong class="code">${begun.user_code}</strong></p>`}
    <p class="quiet">This page waits and goes on by itself. <button type="button" onClick=${() => onEnd(null)}>Give up</button></p></div>`;
}

/** Who is logged in. A link with a code logs its holder in first. */
export async function askSession() {
  const code = codeOfLink();
  if (code) {
    // It is good once: the address forgets it, whatever comes of it.
    go([], null, { replace: true });
    try {
      return await send('POST', '/login/link', { code }, { quiet401: true });
    } catch (failure) { linkFailure = failure; }
  }
  const session = await get('/session', { quiet401: true });
  linkFailure = null;
  return session;
}

/** Calls back when a link with a code is opened in a page that is open already. */
export function onLoginLink(call) {
  const look = () => { if (codeOfLink()) call(); };
  window.addEventListener('hashchange', look);
  return () => window.removeEventListener('hashchange', look);
}

function codeOfLink() {
  const [room, code] = parse().segments;
  return room === 'login' ? code : undefined;
}
