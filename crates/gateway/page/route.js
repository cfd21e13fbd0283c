// Where the page is: the part of the address behind `#`, as path segments and options.
// It never keeps state of its own: the address is the state.
import { useEffect, useState } from './vendor/htm.js';

export function parse(hash = location.hash) {
  const [path, options = ''] = hash.replace(/^#\/?/, '').split('?');
  return { segments: path.split('/').filter(Boolean).map(decode), options: new URLSearchParams(options) };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch (_) { return text; }
}

/** An address within the page. */
export function link(segments, options) {
  const query = options ? new URLSearchParams(options).toString() : '';
  return `#/${segments.map(encodeURIComponent).join('/')}${query ? `?${query}` : ''}`;
}

export function go(segments, options, { replace = false } = {}) {
  const address = link(segments, options);
  if (replace) {
    history.replaceState(null, '', address);
    window.dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = address;
  }
}

export function useRoute() {
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const follow = () => setRoute(parse());
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);
  return route;
}

/** `/a/b` of its segments, and back. */
export const pathOf = (segments) => `/${segments.join('/')}`;
export const segmentsOf = (path) => path.split('/').filter(Boolean);
export const nameOf = (path) => segmentsOf(path).at(-1) ?? '/';
export const parentOf = (path) => pathOf(segmentsOf(path).slice(0, -1));
export const below = (folder, name) => `${folder === '/' ? '' : folder}/${name}`;
