// A cutout as a card: its picture, what it is of, and the files to take away.
// It never decides what is cut.
import { html, useState } from '../vendor/htm.js';
import { Name, Sentence } from '../widgets.js';

/** `address(format)` gives the file of a format; `children` are further lines. */
export function Part({ title, address, children, pick, problem }) {
  return html`<li class="part">
    <div class="part-picture">${problem ? html`<p><${Sentence} text=${problem} /></p>` : html`<${Picture} address=${address('image/png')} title=${title} />`}</div>
    <div class="part-words">
      <p><${Name} text=${title} /></p>
      ${children}
      <div class="part-links">
        ${!problem && ['FITS', 'PNG', 'JPEG'].map((kind) => html`<a href=${address(kind.toLowerCase())} download aria-label="${kind} of ${title}">${kind}</a>`)}
        ${pick && html`<label><input type="checkbox" checked=${pick.isOn} onChange=${pick.turn} aria-label="Choose ${title}" /> choose</label>`}
      </div>
    </div></li>`;
}

function Picture({ address, title }) {
  const [hasFailed, setFailed] = useState(false);
  // A browser shows no picture both for a fault and where image and region have nothing in common.
  if (hasFailed) return html`<p>No picture: the image has no part of this place, or cannot be read.</p>`;
  return html`<img src=${address} alt="Part of ${title}" loading="lazy" decoding="async" onError=${() => setFailed(true)} />`;
}
