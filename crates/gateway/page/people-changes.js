// The dialogs that change users, groups, tokens, quotas and rights. What cannot be undone is asked for first, and a new
// token is shown once. They never decide who may change what: the server does, and its refusal is shown in place.
import { html, useRef, useState } from './vendor/htm.js';
import { query, send } from './api.js';
import { Ask, Dialog, Field, Name, Notice, Time } from './widgets.js';

const part = encodeURIComponent;
const userPath = (user) => `/users/${part(user)}`;
const groupPath = (group) => `/groups/${part(group)}`;
const words = (text) => text.split(/[\s,]+/).filter(Boolean);
const DAY = 86400;
const LIVES = [[1, 'a day'], [7, 'a week'], [30, '30 days'], [90, '90 days'], [365, 'a year']];
const UNITS = [['MB', 1e6], ['GB', 1e9], ['TB', 1e12], ['PB', 1e15]];

/** What a dialog of `people.js` is about; `onDone(sentence)` is called when it is done. */
export function Change({ dialog, onClose, onDone }) {
  const Form = FORMS[dialog.kind];
  return html`<${Form} ...${dialog} onClose=${onClose} onDone=${onDone} />`;
}

const Input = ({ value, onInput, marks = {}, ...more }) => html`<input value=${value} spellcheck=${false} autocomplete="off" autocapitalize="none" onInput=${(event) => onInput(event.currentTarget.value)} ...${marks} ...${more} />`;
const Check = ({ label, isOn, onChange }) => html`<label class="choice"><input type="checkbox" checked=${isOn} onChange=${(event) => onChange(event.currentTarget.checked)} /> ${label}</label>`;

function AddUser({ groups, onClose, onDone }) {
  const [form, setForm] = useState({ user: '', password: '', groups: '', addresses: '', admin: false, service: false });
  const set = (key) => (value) => setForm({ ...form, [key]: value });
  const run = () => send('POST', '/users', {
    user: form.user.trim(), password: form.service ? undefined : form.password, groups: words(form.groups), addresses: words(form.addresses), admin: form.admin, service: form.service,
  });
  return html`<${Ask} title="Add a user" fields=${['user', 'password', 'addresses']} onClose=${onClose} onDone=${() => onDone(`${form.user.trim()} is a user now.`)} action=${{ label: 'Add', run }}>
    ${(error) => html`<${Field} of="user" label="Name" error=${error}>${(marks) => html`<${Input} marks=${marks} value=${form.user} onInput=${set('user')} />`}<//>
      <${Check} label="A program, not a person: it has tokens, and never a password" isOn=${form.service} onChange=${set('service')} />
      ${!form.service && html`<${Field} of="password" label="First password" error=${error} hint="Tell it to the person, who can change it on this page.">${(marks) => html`<${Input} marks=${marks} type="password" autocomplete="new-password" value=${form.password} onInput=${set('password')} />`}<//>`}
      <${Field} of="groups" label="Groups" error=${error} hint=${groups?.length ? 'With blanks between them.' : 'There is none yet.'}>${(marks) => html`<${Input} marks=${marks} value=${form.groups} onInput=${set('groups')} />`}<//>
      <${Field} of="addresses" label="Only from these addresses" error=${error} hint="Such as 10.0.0.0/8, with blanks between them. Empty: from anywhere.">${(marks) => html`<${Input} marks=${marks} value=${form.addresses} onInput=${set('addresses')} />`}<//>
      <${Check} label="Administrator of the cloud" isOn=${form.admin} onChange=${set('admin')} />`}<//>`;
}

function SetUser({ row, onClose, onDone }) {
  const [admin, setAdmin] = useState(row.admin);
  const [addresses, setAddresses] = useState(row.addresses.join(' '));
  return html`<${Ask} title="What ${row.user} may" fields=${['addresses']} onClose=${onClose} onDone=${() => onDone(`${row.user} is changed.`)}
    action=${{ label: 'Save', run: () => send('PATCH', userPath(row.user), { admin, addresses: words(addresses) }) }}>
    ${(error) => html`<${Check} label="Administrator of the cloud" isOn=${admin} onChange=${setAdmin} />
      <${Field} of="addresses" label="Only from these addresses" error=${error} hint="Such as 10.0.0.0/8, with blanks between them. Empty: from anywhere.">${(marks) => html`<${Input} marks=${marks} value=${addresses} onInput=${setAddresses} />`}<//>`}<//>`;
}

function EnableUser({ row, onClose, onDone }) {
  const enabled = !row.enabled;
  return html`<${Ask} title=${enabled ? 'Let this user come in again?' : 'Disable this user?'} kind=${enabled ? 'strong' : 'danger'} onClose=${onClose} onDone=${() => onDone(`${row.user} is ${enabled ? 'enabled' : 'disabled'}.`)}
    action=${{ label: enabled ? 'Enable' : 'Disable', run: () => send('PATCH', userPath(row.user), { enabled }) }}>
    <p>${enabled ? html`<${Name} text=${row.user} /> can log in again, with the password and the tokens of before.`
      : html`<${Name} text=${row.user} /> is out within ten seconds everywhere, and running jobs end. Files, password and tokens stay: “Enable” takes it back.`}</p><//>`;
}

function RemoveUser({ row, onClose, onDone }) {
  const [typed, setTyped] = useState('');
  return html`<${Ask} title="Remove this user?" kind="danger" onClose=${onClose} onDone=${() => onDone(`${row.user} is removed.`)}
    action=${{ label: 'Remove for good', disabled: typed !== row.user, run: () => send('DELETE', userPath(row.user)) }}>
    <p><${Name} text=${row.user} /> is removed with all tokens and sessions. This cannot be undone. The files stay, and so does their owner's name.</p>
    <label>Type the name to go on <${Input} value=${typed} onInput=${setTyped} /></label><//>`;
}

function Password({ user, isOwn, onClose, onDone }) {
  const [old, setOld] = useState('');
  const [fresh, setFresh] = useState('');
  const [again, setAgain] = useState('');
  // A wrong password is no reason to log the person out.
  const run = () => send('PUT', `${userPath(user)}/password`, { old: isOwn && old ? old : undefined, new: fresh }, { quiet401: true });
  const differs = again !== '' && again !== fresh;
  return html`<${Ask} title=${isOwn ? 'Change your password' : `A new password for ${user}`} onClose=${onClose} onDone=${() => onDone('The password is changed.')}
    action=${{ label: 'Change it', disabled: !fresh || fresh !== again, run }}>
    ${isOwn && html`<label>Password so far <${Input} type="password" autocomplete="current-password" value=${old} onInput=${setOld} /></label>`}
    <label>New password <${Input} type="password" autocomplete="new-password" value=${fresh} onInput=${setFresh} /></label>
    <label>New password again <${Input} type="password" autocomplete="new-password" value=${again} onInput=${setAgain} /></label>
    ${differs && html`<p class="field-error" role="alert">The two are not the same.</p>`}
    <p class="quiet">${isOwn ? 'Your' : 'The'} other login sessions end.</p><//>`;
}

function NewToken({ user, onClose, onDone }) {
  const [name, setName] = useState('');
  const [days, setDays] = useState(90);
  const [made, setMade] = useState(null);
  if (made) return html`<${ShowToken} made=${made} onClose=${() => onDone(null)} />`;
  return html`<${Ask} title="New token of ${user}" fields=${['user']} onClose=${onClose} onDone=${setMade}
    action=${{ label: 'Make it', disabled: !name.trim(), run: () => send('POST', '/tokens', { user, name: name.trim(), life_seconds: days * DAY }) }}>
    <p>A program logs in with it in place of a password, and has all rights of <${Name} text=${user} />.</p>
    <label>What you call it <${Input} value=${name} onInput=${setName} placeholder="nightly" /></label>
    <label>Good for <select value=${days} onChange=${(event) => setDays(Number(event.currentTarget.value))}>${LIVES.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label><//>`;
}

/** The one time that a token is seen. */
function ShowToken({ made, onClose }) {
  const [copied, setCopied] = useState(null);
  const box = useRef(null);
  const copy = async () => {
    try { await navigator.clipboard.writeText(made.token); setCopied('It is copied.'); } catch (_) {
      // Without TLS a browser lets no page copy: it is marked, and the person copies.
      getSelection().selectAllChildren(box.current);
      setCopied('It is marked: copy it with your keyboard.');
    }
  };
  return html`<${Dialog} title="The token" onClose=${onClose}>
    <${Notice}>It is shown now and never again. Keep it as you would keep a password.<//>
    <code class="secret" ref=${box} tabindex="0" aria-label="Token">${made.token}</code>
    <p class="quiet"><${Name} text=${made.name} /> of <${Name} text=${made.user} />, good until <${Time} at=${made.until} />. <span role="status">${copied}</span></p>
    <div class="buttons"><button type="button" onClick=${copy}>Copy</button><button type="button" class="strong" onClick=${onClose}>I have it</button></div><//>`;
}

function RevokeToken({ user, row, onClose, onDone }) {
  return html`<${Ask} title="Revoke this token?" kind="danger" onClose=${onClose} onDone=${() => onDone('The token is worthless now.')}
    action=${{ label: 'Revoke', run: () => send('DELETE', `/tokens${query({ user, name: row.name })}`) }}>
    <p>Programs that log in with <${Name} text=${row.name} /> of <${Name} text=${user} /> are out within ten seconds, and their jobs end. This cannot be undone.</p><//>`;
}

function AddGroup({ onClose, onDone }) {
  const [group, setGroup] = useState('');
  return html`<${Ask} title="Add a group" fields=${['group']} onClose=${onClose} onDone=${() => onDone('The group is there.')} action=${{ label: 'Add', disabled: !group.trim(), run: () => send('POST', '/groups', { group: group.trim() }) }}>
    ${(error) => html`<${Field} of="group" label="Name" error=${error}>${(marks) => html`<${Input} marks=${marks} value=${group} onInput=${setGroup} />`}<//>`}<//>`;
}

function Members({ row, users, onClose, onDone }) {
  const [wanted, setWanted] = useState(new Set(row.members));
  const all = [...new Set([...users.map((user) => user.user), ...row.members])];
  const toggle = (user) => (isIn) => { const next = new Set(wanted); if (isIn) next.add(user); else next.delete(user); setWanted(next); };
  const run = async () => {
    for (const user of all) {
      if (wanted.has(user) !== row.members.includes(user)) await send(wanted.has(user) ? 'PUT' : 'DELETE', `${groupPath(row.group)}/members/${part(user)}`);
    }
  };
  return html`<${Ask} title="Members of ${row.group}" onClose=${onClose} onDone=${() => onDone('The members are changed.')} action=${{ label: 'Save', run }}>
    <div class="pick" tabindex="0" role="group" aria-label="Users">${all.map((user) => html`<div key=${user}><${Check} label=${html`<${Name} text=${user} />`} isOn=${wanted.has(user)} onChange=${toggle(user)} /></div>`)}</div><//>`;
}

function RemoveGroup({ row, onClose, onDone }) {
  return html`<${Ask} title="Remove this group?" kind="danger" onClose=${onClose} onDone=${() => onDone('The group is removed.')}
    action=${{ label: 'Remove for good', run: () => send('DELETE', groupPath(row.group)) }}>
    <p>All members leave <${Name} text=${row.group} />, and lose what they may by it. This cannot be undone.</p><//>`;
}

function Quota({ row, onClose, onDone }) {
  const [first, ...rest] = splitBytes(row?.bytes);
  const [form, setForm] = useState({ user: row?.user ?? '', size: first, unit: rest[0], files: row?.files == null ? '' : String(row.files) });
  const set = (key) => (value) => setForm({ ...form, [key]: value });
  const isNumber = (text, shape) => text.trim() === '' || shape.test(text.trim());
  const isRight = isNumber(form.size, /^\d{1,15}([.]\d{1,6})?$/) && isNumber(form.files, /^\d{1,15}$/);
  const number = (text, factor) => (text.trim() === '' ? null : Math.round(Number(text) * factor));
  const run = () => send('PUT', '/quotas', { user: form.user.trim(), bytes: number(form.size, UNITS.find(([unit]) => unit === form.unit)[1]), files: number(form.files, 1) });
  return html`<${Ask} title=${row ? `Quota of ${row.user}` : 'Set a quota'} fields=${['user']} onClose=${onClose} onDone=${() => onDone('The quota is set.')} action=${{ label: 'Set it', disabled: !form.user.trim() || !isRight, run }}>
    ${(error) => html`${!row && html`<${Field} of="user" label="User" error=${error}>${(marks) => html`<${Input} marks=${marks} value=${form.user} onInput=${set('user')} />`}<//>`}
      <div class="row-fields"><label>Bytes <${Input} value=${form.size} inputmode="decimal" onInput=${set('size')} /></label>
        <label>Unit <select value=${form.unit} onChange=${(event) => set('unit')(event.currentTarget.value)}>${UNITS.map(([unit]) => html`<option value=${unit}>${unit}</option>`)}</select></label>
        <label>Files <${Input} value=${form.files} inputmode="numeric" onInput=${set('files')} /></label></div>
      ${!isRight && html`<p class="field-error" role="alert">Write a number, or nothing.</p>`}
      <p class="quiet">Empty: no limit. What is there already stays, also above the limit.</p>`}<//>`;
}

/** A number of bytes in the largest unit that says it exactly. */
function splitBytes(value) {
  if (value == null) return ['', 'GB'];
  const [unit, factor] = [...UNITS].reverse().find(([, size]) => value % size === 0 && value >= size) ?? UNITS[0];
  return [String(value / factor), unit];
}

function Rights({ path, acl, own, onClose, onDone }) {
  const [text, setText] = useState(acl.map((item) => `${item.who}:${item.rights}`).join('\n'));
  const list = () => text.split('\n').map((line) => line.trim()).filter(Boolean).join(',');
  return html`<${Ask} title="Who may" fields=${['acl']} onClose=${onClose} onDone=${() => onDone('The rights are changed.')} action=${{ label: 'Save', disabled: !list(), run: () => send('PUT', '/acl', { path, acl: list() }) }}>
    ${(error) => html`<p><${Name} text=${path} /></p>
      <${Field} of="acl" label="One a line" error=${error} hint="Such as user:alice:rw, group:astro:r or everyone:r. r: read, w: write, x: run jobs, a: administer. “none” alone: only owner and administrators.">
        ${(marks) => html`<textarea ...${marks} rows="5" spellcheck=${false} value=${text} onInput=${(event) => setText(event.currentTarget.value)}></textarea>`}<//>
      <p class="quiet">${own ? 'It takes the place of its own list.' : 'It gets a list of its own: changes of the folder above do not reach it then.'}</p>`}<//>`;
}

function ClearRights({ path, onClose, onDone }) {
  return html`<${Ask} title="Follow the folder above again?" onClose=${onClose} onDone=${() => onDone('The rights are those of the folder above.')} action=${{ label: 'Remove its own list', run: () => send('DELETE', `/acl${query({ path })}`) }}>
    <p><${Name} text=${path} /> loses its own list. The list of the folder above holds for it.</p><//>`;
}

const FORMS = { add: AddUser, set: SetUser, enable: EnableUser, remove: RemoveUser, password: Password, token: NewToken, revoke: RevokeToken, group: AddGroup, members: Members, ungroup: RemoveGroup, quota: Quota, rights: Rights, clear: ClearRights };
