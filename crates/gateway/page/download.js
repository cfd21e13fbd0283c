// A link that downloads a file. It asks first whether the bytes can be had, so that a refusal is said in words.
// It never holds a file in memory.
import { html } from './vendor/htm.js';
import { address, contentPath, request } from './api.js';
import { clean } from './format.js';
import { nameOf } from './route.js';
import { tell } from './widgets.js';

export function Download({ path, name = nameOf(path), label, isButton }) {
  const target = address(contentPath(path));
  const ask = async (event) => {
    // With a key held down the browser does what it always does.
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    try {
      await request('HEAD', contentPath(path));
    } catch (error) {
      if (error.status !== 401) tell(`${name} cannot be downloaded: ${error.message}`, 'bad');
      return;
    }
    const link = document.createElement('a');
    link.href = target;
    link.download = name;
    link.click();
  };
  return html`<a class=${isButton ? 'button' : ''} href=${target} download=${name} aria-label=${label ?? `Download ${clean(name)}`} onClick=${ask}>Download</a>`;
}
