// The form that starts a job: inputs, functions with their parameters, and the folder for the results. What the server
// refuses is said at the field it is about. It never starts a job unasked, and never checks what the server checks.
import { html, useEffect, useRef, useState } from './vendor/htm.js';
import { ApiError, contentPath, request, send, useGet } from './api.js';
import { Pick, within } from './pick.js';
import { go } from './route.js';
import { Failed, Field, fieldOf, Name, Notice, Section, Sentence } from './widgets.js';

const RECORDS = [['', 'as the files say'], ['file', 'whole files'], ['lines', 'lines of text'], ['fixed', 'records of so many bytes'], ['index', 'records of an index'], ['parquet', 'row groups of Parquet']];
const RESULTS = [['file', 'one piece (file)'], ['lines', 'lines of text'], ['fixed', 'records of so many bytes']];
const SOURCE_SHOWN = 256 * 1024;
const blank = () => ({ kind: 'built-in', name: '', program: '', file: '', inFile: '', params: {}, other: '', results: 'file', bytes: '' });

export function JobForm({ options, session }) {
  const known = useGet('/functions');
  const [inputs, setInputs] = useState(options.getAll('input').join('\n'));
  const [stages, setStages] = useState([blank()]);
  const [output, setOutput] = useState('');
  const [more, setMore] = useState({ records: '', bytes: '', beside: '', side: '', buckets: '', segment: '', errors: '0' });
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [picking, setPicking] = useState(null);
  const form = useRef(null);
  const at = fieldOf(error);
  useEffect(() => {
    // The first field that is wrong, also for those who hear the page.
    if (error) form.current?.querySelector('[aria-invalid="true"]')?.focus();
  }, [error]);
  if (session.read_only) return html`<h1>New job</h1><${Notice}>This page is read-only: log in to start a job.<//>`;
  const setStage = (number, part) => setStages(stages.map((stage, index) => (index === number ? { ...stage, ...part } : stage)));
  const start = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const job = await send('POST', '/jobs', bodyOf({ inputs, stages, output, more, known: known.data ?? [] }));
      go(['jobs', job.id], { output: output.trim() });
    } catch (failure) { setError(failure); setBusy(false); }
  };
  const field = { error };
  const change = (part) => setMore({ ...more, ...part });
  return html`<p class="crumbs"><a href="#/jobs">Jobs</a> / <span aria-current="page">New job</span></p><h1>New job</h1>
    <form class="job-form" ref=${form} onSubmit=${start} noValidate>
    <${Section} title="Input">
      <${Field} of="inputs" label="Files, folders or globs, one a line" ...${field} hint="A folder is all files below it. “*” stands for part of a name, “**” for folders too: /logs/2026-*/*.csv">
        ${(attributes) => html`<textarea ...${attributes} rows="3" spellcheck=${false} value=${inputs} onInput=${(event) => setInputs(event.currentTarget.value)}></textarea>`}<//>
      <button type="button" onClick=${() => setPicking({ what: 'input' })}>Choose from the files</button>
    <//>
    ${stages.map((stage, number) => html`<${Section} key=${number} title=${stages.length > 1 ? `Function of stage ${number}` : 'Function'} tools=${stages.length > 1 && html`<button type="button" onClick=${() => setStages(stages.filter((_, index) => index !== number))}>Remove this stage</button>`}>
      <${Stage} stage=${stage} known=${known.data ?? []} set=${(part) => setStage(number, part)} number=${number} error=${error} at=${at} onPick=${() => setPicking({ what: 'function', number })} /><//>`)}
    <p><button type="button" onClick=${() => setStages([...stages, blank()])}>Add a further stage</button> <span class="quiet">which reads the results of the one before</span></p>
    <${Failed} error=${known.error} retry=${known.reload} />
    <${Section} title="Results">
      <${Field} of="output" label="Folder for the results" ...${field} hint="A folder that is not there yet, or is empty.">
        ${(attributes) => html`<input ...${attributes} spellcheck=${false} autocomplete="off" value=${output} placeholder="/results/first" onInput=${(event) => setOutput(event.currentTarget.value)} />`}<//>
      <button type="button" onClick=${() => setPicking({ what: 'output' })}>Choose where</button>
    <//>
    <${More} more=${more} change=${change} error=${error} at=${at} />
    ${error && !at && html`<${Failed} error=${error} />`}
    ${error && at && html`<${Notice} kind="bad">The job was not started: see the field that is marked.<//>`}
    <p class="quiet">${session.logout_ends_jobs
      ? 'A node of the cloud drives the job: you can close this page. It ends, without results, when you log out, and twelve hours after your login.'
      : 'A node of the cloud drives the job: you can close this page, and log out.'}</p>
    <button class="strong" disabled=${isBusy}>Start the job</button></form>
    ${picking?.what === 'input' && html`<${Pick} title="Choose input" onClose=${() => setPicking(null)} onPick=${(path) => { setInputs(inputs.trim() ? `${inputs.trimEnd()}\n${path}` : path); setPicking(null); }} />`}
    ${picking?.what === 'output' && html`<${Pick} title="Choose where the folder for the results shall be" kind="folder" onClose=${() => setPicking(null)} onPick=${(path) => { setOutput(within(path, 'results')); setPicking(null); }} />`}
    ${picking?.what === 'function' && html`<${Pick} title="Choose a file with a function" kind="file" isWanted=${(entry) => /\.(py|so)$/.test(entry.path)} onClose=${() => setPicking(null)} onPick=${(path) => { setStage(picking.number, { file: path }); setPicking(null); }} />`}`;
}

function Stage({ stage, known, set, number, error, at, onPick }) {
  const KINDS = [['built-in', 'built in'], ['file', 'in a file in the cloud'], ['program', 'a program']];
  const functions = useFunctions(stage.kind === 'file' ? stage.file : '');
  const chosen = known.find((one) => one.name === stage.name);
  const isWrong = at === 'functions';
  const params = chosen?.parameters ?? [];
  const text = (key, label, attributes) => html`<label>${label} <input value=${stage[key]} spellcheck=${false} autocomplete="off" onInput=${(event) => set({ [key]: event.currentTarget.value })} ...${attributes} /></label>`;
  const marks = { 'aria-invalid': isWrong ? 'true' : undefined, 'aria-describedby': isWrong ? `stage-${number}-error` : undefined };
  return html`<fieldset class="kinds"><legend class="quiet">The function is</legend>${KINDS.map(([kind, label]) => html`<label class="choice"><input type="radio" name="kind-${number}" checked=${stage.kind === kind} onChange=${() => set({ kind })} /> ${label}</label>`)}</fieldset>
    <div class="row-fields">
      ${stage.kind === 'built-in' && html`<label>Function <select value=${stage.name} onChange=${(event) => set({ name: event.currentTarget.value, params: {} })} ...${marks}><option value="">choose one</option>${known.map((one) => html`<option value=${one.name}>${one.name}</option>`)}</select></label>`}
      ${stage.kind === 'file' && html`${text('file', 'File (.py or .so)', { placeholder: '/functions/count.py', ...marks })}<button type="button" onClick=${onPick}>Choose from the files</button>
        ${text('inFile', 'Function in it', { list: `functions-${number}` })}<datalist id="functions-${number}">${functions.map((name) => html`<option value=${name}></option>`)}</datalist>`}
      ${stage.kind === 'program' && text('program', 'Program with its arguments', { placeholder: "awk '/error/'", class: 'wide-input', ...marks })}
    </div>
    ${isWrong && html`<p class="field-error" id="stage-${number}-error"><${Sentence} text=${error.message} /></p>`}
    ${stage.kind === 'built-in' && chosen && html`<p class="quiet hint-line"><${Sentence} text=${chosen.does} /></p>`}
    ${stage.kind === 'program' && html`<p class="quiet hint-line">Each node runs it in its sandbox: the records come in at standard input, and what it prints is the result. An exit code other than 0 is a failure.</p>`}
    ${functions.length > 0 && stage.kind === 'file' && html`<p class="quiet hint-line">In this file: ${functions.map((name, index) => html`${index > 0 && ', '}<button type="button" class="plain link" onClick=${() => set({ inFile: name })}><${Name} text=${name} /></button>`)}</p>`}
    ${stage.kind === 'built-in' && params.length > 0 && html`<div class="row-fields" role="group" aria-label="Parameters">${params.map((name) => html`<label>${name} <input value=${stage.params[name] ?? ''} spellcheck=${false} autocomplete="off" onInput=${(event) => set({ params: { ...stage.params, [name]: event.currentTarget.value } })} /></label>`)}</div>`}
    ${(stage.kind !== 'built-in' || (chosen && !chosen.parameters)) && html`<label class="block">Parameters, NAME=VALUE, one a line <textarea rows="2" spellcheck=${false} value=${stage.other} onInput=${(event) => set({ other: event.currentTarget.value })}></textarea></label>`}
    ${at === 'params' && html`<p class="field-error" role="alert"><${Sentence} text=${error.message} /></p>`}
    <div class="row-fields"><label>Its results are <select value=${stage.results} onChange=${(event) => set({ results: event.currentTarget.value })}>${RESULTS.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
      ${stage.results === 'fixed' && text('bytes', 'Bytes of a record', { inputmode: 'numeric' })}</div>
    ${at === 'result_records' && html`<p class="field-error" role="alert"><${Sentence} text=${error.message} /></p>`}`;
}

function More({ more, change, error, at }) {
  const field = { error };
  const input = (key, attributes) => (marks) => html`<input ...${marks} ...${attributes} spellcheck=${false} autocomplete="off" value=${more[key]} onInput=${(event) => change({ [key]: event.currentTarget.value })} />`;
  const isHere = ['records', 'side', 'buckets', 'segment_bytes', 'max_errors'].includes(at);
  return html`<details class="panel" open=${isHere || undefined}><summary>More: records, buckets, side files, errors</summary>
    <${Field} of="records" label="The input's records are" ...${field}>${(marks) => html`<select ...${marks} value=${more.records} onChange=${(event) => change({ records: event.currentTarget.value })}>${RECORDS.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select>`}<//>
    ${more.records === 'fixed' && html`<label>Bytes of a record <input value=${more.bytes} inputmode="numeric" onInput=${(event) => change({ bytes: event.currentTarget.value })} /></label>`}
    <${Field} of="beside" label="A second input, read together with the first, one path a line" ...${field} hint="It must have equally many records.">${(marks) => html`<textarea ...${marks} rows="2" spellcheck=${false} value=${more.beside} onInput=${(event) => change({ beside: event.currentTarget.value })}></textarea>`}<//>
    <${Field} of="side" label="Files that every call may read, NAME=PATH, one a line" ...${field}>${(marks) => html`<textarea ...${marks} rows="2" spellcheck=${false} value=${more.side} onInput=${(event) => change({ side: event.currentTarget.value })}></textarea>`}<//>
    <${Field} of="buckets" label="Buckets for the results of a stage" ...${field} hint="Empty: two a node between stages, and none for a single stage.">${input('buckets', { inputmode: 'numeric' })}<//>
    <${Field} of="segment_bytes" label="Smallest and largest segment" ...${field} hint="MIN:MAX, for example 8MiB:128MiB.">${input('segment', { placeholder: '8MiB:128MiB' })}<//>
    <${Field} of="max_errors" label="Go on although the function fails on so many segments" ...${field} hint="A file errors.jsonl beside the results says what went wrong.">${input('errors', { inputmode: 'numeric' })}<//></details>`;
}

/** The names of the functions that a file of Python defines. */
function useFunctions(file) {
  const [found, setFound] = useState({ file: '', names: [] });
  useEffect(() => {
    if (!/^\/.*\.py$/.test(file)) return undefined;
    const stop = new AbortController();
    const look = async () => {
      const response = await request('GET', contentPath(file), { signal: stop.signal, headers: { Range: `bytes=0-${SOURCE_SHOWN - 1}` } });
      const text = await response.text();
      setFound({ file, names: [...text.matchAll(/^(?:async )?def +([^\W\d]\w*) *\(/gmu)].map((match) => match[1]).filter((name) => !name.startsWith('_')) });
    };
    // A file that is not there, or may not be read, is said when the job is started.
    look().catch(() => { /* no names to offer */ });
    return () => stop.abort();
  }, [file]);
  return found.file === file ? found.names : [];
}

const lines = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);
/** The number in a field, which may be empty. What is none has no place in the request. */
function numberOr(text, field) {
  if (text.trim() === '') return undefined;
  if (!/^\d{1,9}$/.test(text.trim())) throw new ApiError(400, { error: { reason: 'invalid', message: 'Write a whole number, or nothing.', field } });
  return Number(text);
}
const framing = (kind, size) => (kind === 'fixed' ? `fixed:${size.trim()}` : kind);

function bodyOf({ inputs, stages, output, more, known }) {
  const streams = [lines(inputs), lines(more.beside)].filter((stream, at) => at === 0 || stream.length > 0);
  const functions = stages.map((stage) => ({ 'built-in': stage.name, file: `${stage.file.trim()}:${stage.inFile.trim()}`, program: `cmd:${stage.program}` }[stage.kind]));
  const params = stages.flatMap((stage, number) => {
    const named = stage.kind === 'built-in' && known.find((one) => one.name === stage.name)?.parameters;
    const given = named ? named.filter((name) => stage.params[name]).map((name) => `${name}=${stage.params[name]}`) : lines(stage.other);
    return given.map((one) => `${number}:${one}`);
  });
  return {
    inputs: streams, functions, params, output: output.trim(), side: lines(more.side),
    records: more.records ? framing(more.records, more.bytes) : undefined, result_records: stages.map((stage) => framing(stage.results, stage.bytes)),
    buckets: numberOr(more.buckets, 'buckets'), segment_bytes: more.segment.trim() || undefined, max_errors: numberOr(more.errors, 'max_errors') ?? 0,
  };
}

