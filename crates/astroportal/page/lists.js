// Lists of positions or of parts of images: checked, shown, and cut by a job; and the jobs, watched until they end.
// It never reads a list itself: the server says what its rows mean.
import { html, useEffect, useRef, useState } from '../vendor/htm.js';
import { bytes, count, dateTime, plural } from '../format.js';
import { Ask, Failed, Name, Notice, Section, State, tell } from '../widgets.js';
import { Part } from './part.js';
import { addressOf, ask, beginJob, isOver, listJobs, removeJob, stopJob, watchJob } from './services.js';

const EXAMPLE = 'name,ra,dec,size\nM 51,13:29:52.7,+47:11:43,10\n,202.2,47.4,3\n';
const FILE_BYTES_MAX = 30e6;
const PERIOD_MILLIS = 1000;

export function Lists({ session, ids, setIds }) {
  return html`<${ListForm} begun=${(id) => setIds([{ id, created: new Date().toISOString() }, ...ids])} /><${Jobs} session=${session} ids=${ids} setIds=${setIds} />`;
}

function ListForm({ begun }) {
  const [text, setText] = useState('');
  const [view, setView] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const file = useRef(null);
  const change = (next) => { setText(next); setView(null); setError(null); };
  const load = async (event) => {
    const [chosen] = event.currentTarget.files;
    if (!chosen) return;
    if (chosen.size > FILE_BYTES_MAX) setError({ message: `The list has ${bytes(chosen.size)}, more than ${bytes(FILE_BYTES_MAX)}: split it, or use \`sector images cutouts\`.` });
    else change(await chosen.text());
    file.current.value = '';
  };
  const run = (what) => async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try { await what(); } catch (failure) { setError(failure); }
    setBusy(false);
  };
  const check = run(async () => setView(await (await ask('portal/list', { form: { TUPLES: text } })).json()));
  const begin = run(async () => { begun(await beginJob({ TUPLES: text })); change(''); tell('The job has begun.'); });
  return html`<${Section} title="Cut a list">
    <form class="list-form" onSubmit=${begin}>
      <label for="list">A table with a heading, as CSV or VOTable: <code>ra,dec</code>, perhaps with <code>size</code> in arc minutes, <code>filter</code> and <code>name</code>; or of images, with <code>path</code> and a part: <code>x,y,height,width</code>, <code>section</code> or <code>region</code>.</label>
      <textarea id="list" value=${text} onInput=${(event) => change(event.currentTarget.value)} spellcheck=${false} placeholder=${EXAMPLE}></textarea>
      <div class="tools">
        <button type="button" onClick=${() => file.current.click()}>Choose a file</button><input ref=${file} class="unseen" type="file" accept=".csv,.txt,.vot,.xml,text/csv" onChange=${load} tabindex="-1" aria-label="A list as a file" />
        <button type="button" onClick=${check} disabled=${isBusy || !text.trim()}>Check and preview</button>
        <button class="strong" disabled=${isBusy || !text.trim()}>Cut it</button>
      </div>
      <${Failed} error=${error} />
    </form>
    ${view && html`<${ListView} view=${view} />`}<//>`;
}

function ListView({ view }) {
  const wrong = view.first.filter((row) => row.problem).length;
  return html`<p role="status">${plural(view.rows, 'row')}${view.refused > 0 && html`, and <strong class="error-text">${count(view.refused)} that make no sense</strong>`}.
      ${wrong > view.refused && html` Of the first ${count(view.first.length)}, ${count(wrong - view.refused)} lie where no image is.`}</p>
    <ul class="grid">${view.first.map((row) => html`<${Part} key=${row.tuple} title=${row.name || `row ${row.tuple}`} problem=${row.problem}
        address=${(format) => addressOf('portal/part', { PATH: row.path, PART: row.selection, RESPONSEFORMAT: format })}>
      <p class="quiet">${row.path ? html`<${Name} text=${row.path} />` : ''}</p><//>`)}</ul>`;
}

const PHASES = { PENDING: 'not begun', QUEUED: 'waiting for its turn', EXECUTING: 'running', COMPLETED: 'done', ERROR: 'failed', ABORTED: 'stopped', HELD: 'waits for you to come back' };
const MARKS = { EXECUTING: 'running', COMPLETED: 'done', ERROR: 'failed', ABORTED: 'cancelled', QUEUED: 'idle', PENDING: 'idle', HELD: 'blocked' };

function Jobs({ session, ids, setIds }) {
  const [jobs, setJobs] = useState([]);
  const [error, setError] = useState(null);
  const [round, setRound] = useState(0);
  const known = useRef(new Map());
  useEffect(() => {
    const stop = new AbortController();
    let timer = null;
    const look = async () => {
      try {
        const listed = session.read_only ? ids : await listJobs(stop.signal);
        const all = [];
        for (const job of listed) {
          const before = known.current.get(job.id);
          try {
            const now = before && isOver(before.phase) ? before : { ...job, ...(await watchJob(job.id, stop.signal)) };
            known.current.set(job.id, now);
            all.push(now);
          } catch (failure) {
            // Its time has come, or it was removed elsewhere.
            if (failure.status !== 404) throw failure;
            if (session.read_only) setIds(ids.filter(({ id }) => id !== job.id));
          }
        }
        setJobs(all);
        setError(null);
        if (all.some((job) => !isOver(job.phase))) timer = setTimeout(look, PERIOD_MILLIS);
      } catch (failure) {
        if (stop.signal.aborted) return;
        setError(failure);
        timer = setTimeout(look, 5 * PERIOD_MILLIS);
      }
    };
    look();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [session, ids, round]);
  const again = () => setRound((number) => number + 1);
  return html`<${Section} title="Jobs"><${Failed} error=${error} />
    ${jobs.length === 0 && !error && html`<p class="quiet empty">None yet.${session.read_only ? ' Your jobs are known to this browser alone: it keeps their names.' : ''}</p>`}
    ${jobs.map((job) => html`<${JobLine} key=${job.id} job=${job} again=${again} gone=${() => { known.current.delete(job.id); if (session.read_only) setIds(ids.filter(({ id }) => id !== job.id)); else again(); }} />`)}<//>`;
}

function JobLine({ job, again, gone }) {
  const [isAsking, setAsking] = useState(false);
  const act = async (what) => { try { await what(); again(); } catch (failure) { tell(failure.message, 'bad'); } };
  const made = job.files.reduce((all, file) => all + file.bytes, 0);
  return html`<div class="job-line">
    <span><${State} of=${MARKS[job.phase] ?? 'idle'} text=${PHASES[job.phase] ?? job.phase} /> <span class="quiet">${dateTime(job.created)}${job.files.length > 0 && ` · ${plural(job.files.length, 'file')}, ${bytes(made)}`}</span></span>
    <span class="acts">${!isOver(job.phase) && html`<button type="button" class="plain" onClick=${() => act(() => stopJob(job.id))}>Stop</button>`}
      <button type="button" class="plain" onClick=${() => setAsking(true)}>Remove</button></span>
    ${job.error && html`<p class="error-text">${job.error}</p>`}
    <ul class="results">${job.files.slice(0, 60).map((file) => html`<li key=${file.name}><a href=${file.address} download=${file.name}><${Name} text=${file.name} /></a> <span class="quiet">${bytes(file.bytes)}</span></li>`)}
      ${job.files.length > 60 && html`<li class="quiet">and ${count(job.files.length - 60)} more</li>`}</ul>
    ${isAsking && html`<${Ask} title="Remove this job?" kind="danger" onClose=${() => setAsking(false)} onDone=${() => { setAsking(false); gone(); }} action=${{ label: 'Remove', run: () => removeJob(job.id) }}><p>Its files go with it.</p><//>`}
  </div>`;
}
