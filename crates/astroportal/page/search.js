// Search by position, or by the name of a target as headers say it: the images found as a grid, and a job of the chosen
// ones. The address is the state. It never asks who else knows a name.
import { html, useEffect, useMemo, useState } from '../vendor/htm.js';
import { count, plural } from '../format.js';
import { go } from '../route.js';
import { Failed, Notice, Section, Sentence, tell } from '../widgets.js';
import { Part } from './part.js';
import { addressOf, beginJob, findImages } from './services.js';
import { parsePlace, placeWords } from './sky.js';

const FIRST = 48;
const FOUND_MAX = 2000;

export function Search({ options, begun }) {
  const place = options.get('at') ?? '';
  const size = Number(options.get('size')) || 3;
  const band = options.get('filter') ?? '';
  const send = (event) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    go([], { at: fields.get('at').trim(), size: fields.get('size') || '3', ...(fields.get('filter').trim() && { filter: fields.get('filter').trim() }) });
  };
  return html`<${Section} title="Search">
      <form class="search-form" onSubmit=${send} key=${`${place} ${size} ${band}`}>
        <label class="grow">Position or target
          <input name="at" defaultValue=${place} required autocomplete="off" spellcheck=${false} placeholder="202.47 47.2, or 13:29:53 +47:11:43, or M 51" /></label>
        <label>Size, arc minutes <input class="short" name="size" type="number" min="0.01" max="600" step="any" defaultValue=${String(size)} /></label>
        <label>Filter <input class="short" name="filter" defaultValue=${band} autocomplete="off" spellcheck=${false} /></label>
        <button class="strong">Search</button>
      </form><//>
    ${place ? html`<${Found} place=${place} size=${size} band=${band} begun=${begun} key=${`${place} ${size} ${band}`} />`
      : html`<p class="quiet">Write a place of the sky, or choose one on the map of the <a href="#/coverage">coverage</a>.</p>`}`;
}

function Found({ place, size, band, begun }) {
  const position = useMemo(() => parsePlace(place), [place]);
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [round, setRound] = useState(0);
  const [shown, setShown] = useState(FIRST);
  const [chosen, setChosen] = useState(new Set());
  useEffect(() => {
    const stop = new AbortController();
    const wanted = position ? { POS: `CIRCLE ${position.ra} ${position.dec} ${size / 120}` } : { TARGET: place };
    setError(null);
    findImages({ ...wanted, MAXREC: String(FOUND_MAX) }, stop.signal).then(setFound, (failure) => { if (!stop.signal.aborted) setError(failure); });
    return () => stop.abort();
  }, [position, place, size, round]);
  if (error) return html`<${Failed} error=${error} retry=${() => setRound(round + 1)} />`;
  if (!found) return html`<p class="quiet" aria-busy="true">Searching …</p>`;
  const rows = found.rows.filter((row) => !band || row.filter === band);
  if (rows.length === 0) {
    return html`<${Notice}>${position ? html`No image${band && ` of filter ${band}`} has a part of this place (${placeWords(position)}).`
      : html`No image has the target <${Sentence} text=${`“${place}”`} />. Targets are found as the headers of images write them; a position always works, like <code>13:29:53 +47:11:43</code>.`}<//>`;
  }
  const regionOf = (row) => (position ?? { ra: Number(row.s_ra), dec: Number(row.s_dec) });
  const cut = (row, format) => addressOf('soda/sync', { ID: row.obs_publisher_did, ...circle(regionOf(row), size), RESPONSEFORMAT: format });
  const turn = (id) => setChosen((old) => { const next = new Set(old); if (!next.delete(id)) next.add(id); return next; });
  const wanted = chosen.size ? rows.filter((row) => chosen.has(row.obs_publisher_did)) : rows;
  const cutAll = async () => {
    const lines = wanted.map((row) => { const { ra, dec } = regionOf(row); return [row.obs_publisher_did.replace(/#\d+$/, ''), row.obs_publisher_did.split('#').at(-1), ra, dec, size].map(quoted).join(','); });
    try { begun(await beginJob({ TUPLES: `path,ext,ra,dec,size\n${lines.join('\n')}\n` })); } catch (failure) { tell(failure.message, 'bad'); }
  };
  return html`<${Section} title=${`${plural(rows.length, 'image')}${found.isCut ? ', and more' : ''}${position ? ` at ${placeWords(position)}` : ''}`}
      tools=${html`<button type="button" onClick=${cutAll}>Cut ${chosen.size ? `the ${count(wanted.length)} chosen` : 'all'} into an archive</button>`}>
    ${found.isCut && html`<${Notice}>Only the first ${count(FOUND_MAX)} are shown. Make the place smaller, or use <code>sector images find</code>.<//>`}
    <ul class="grid">${rows.slice(0, shown).map((row) => html`<${Part} key=${row.obs_publisher_did} title=${row.obs_publisher_did.split('/').at(-1)} address=${(format) => cut(row, format)}
        problem=${row.s_ra === '' ? 'The image does not say where on the sky it lies.' : null}
        pick=${{ isOn: chosen.has(row.obs_publisher_did), turn: () => turn(row.obs_publisher_did) }}>
      <p class="quiet">${[row.target_name, row.filter && `filter ${row.filter}`, row.facility_name, dateOf(row.t_min), row.t_exptime && `${Number(row.t_exptime)} s`].filter(Boolean).join(' · ')}</p>
    <//>`)}</ul>
    ${rows.length > shown && html`<p><button type="button" onClick=${() => setShown(shown + FIRST)}>Show ${count(Math.min(FIRST, rows.length - shown))} more</button></p>`}<//>`;
}

const circle = ({ ra, dec }, size) => ({ CIRCLE: `${ra} ${dec} ${size / 120}` });
const quoted = (cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : cell);

/** The day of a modified Julian date. */
function dateOf(mjd) {
  if (mjd === '' || mjd == null) return '';
  return new Date((Number(mjd) - 40587) * 86400e3).toISOString().slice(0, 10);
}
