// Users, groups, tokens and quotas, and what an administrator changes of them. What one has no right to see is said, not
// hidden. It never shows a token but the new one, once.
import { html, useState } from './vendor/htm.js';
import { query, useGet } from './api.js';
import { bytes, clean, count } from './format.js';
import { Change } from './people-changes.js';
import { Table } from './table.js';
import { Bar, Facts, Failed, Name, Section, State, tell, Time } from './widgets.js';

export function People({ session }) {
  const users = useGet('/users');
  const groups = useGet(session.admin ? '/groups' : null);
  const quotas = useGet('/quotas', 30000);
  const [user, setUser] = useState(session.user);
  const tokens = useGet(`/tokens${query({ user })}`);
  const [dialog, setDialog] = useState(null);
  const isAdmin = session.admin && !session.read_only;
  const isOwn = user === session.user;
  const row = users.data?.find((found) => found.user === user);
  const ask = (kind, more = {}) => () => setDialog({ kind, ...more });
  const done = (sentence) => {
    const wasRemoved = dialog?.kind === 'remove';
    setDialog(null);
    if (sentence) tell(sentence);
    if (wasRemoved) setUser(session.user);
    [users, groups, quotas, tokens].forEach((answer) => answer.reload());
  };
  const button = (label, kind, more, style = '') => html`<button type="button" class=${style} onClick=${ask(kind, more)}>${label}</button>`;
  return html`<h1>People</h1>
    <${Section} title="You" tools=${!session.read_only && button('Change your password', 'password', { user: session.user, isOwn: true })}><${Facts} items=${[
      ['User', html`<${Name} text=${session.user} />`],
      ['Groups', session.groups?.length ? html`<${Name} text=${session.groups.join(', ')} />` : 'none'],
      ['Administrator', session.admin ? 'yes' : 'no'],
    ]} /><//>
    <${Section} title="Users" tools=${isAdmin && button('Add a user', 'add', { groups: groups.data }, 'strong')}><${Shown} answer=${users}>${(rows) => html`<${UserTable} rows=${rows} user=${user} onChoose=${setUser} />
      ${isAdmin && html`<p class="quiet hint">Choose a user to see the tokens, and to change what the user may.</p>`}`}<//><//>
    <${Section} id="chosen-user" title=${html`<${Name} text=${user} />`} tools=${isAdmin && row && html`<div class="tools">
      ${button('Rights and addresses', 'set', { row })}${!row.service && !row.provider && !isOwn && button('Set a password', 'password', { user, isOwn: false })}
      ${button(row.enabled ? 'Disable' : 'Enable', 'enable', { row })}${button('Remove', 'remove', { row }, 'danger')}</div>`}>
      <div class="panel-head"><h3>Tokens</h3>${!session.read_only && (isOwn || isAdmin) && button('New token', 'token', { user })}</div>
      <${Shown} answer=${tokens}>${(rows) => html`<${TokenTable} rows=${rows} onRevoke=${!session.read_only && (isOwn || isAdmin) ? (token) => setDialog({ kind: 'revoke', user, row: token }) : null} />`}<//><//>
    ${session.admin && html`<${Section} title="Groups" tools=${isAdmin && button('Add a group', 'group')}><${Shown} answer=${groups}>${(rows) => html`<${GroupTable} rows=${rows} onAsk=${isAdmin ? (kind, group) => setDialog({ kind, row: group, users: users.data ?? [] }) : null} />`}<//><//>`}
    <${Section} title="Quotas" tools=${isAdmin && button('Set a quota', 'quota')}><${Shown} answer=${quotas}>${(rows) => html`<${QuotaTable} rows=${rows} onChange=${isAdmin ? (quota) => setDialog({ kind: 'quota', row: quota }) : null} />`}<//><//>
    ${dialog && html`<${Change} key=${dialog.kind} dialog=${dialog} onClose=${() => setDialog(null)} onDone=${done} />`}`;
}

function Shown({ answer, children }) {
  if (!answer.data) return answer.error ? html`<${Failed} error=${answer.error} />` : html`<p class="quiet" aria-busy="true">Loading …</p>`;
  return html`<${Failed} error=${answer.error} />${children(answer.data)}`;
}

function UserTable({ rows, user, onChoose }) {
  const columns = [
    { key: 'user', label: 'User', value: (row) => row.user, show: (row) => html`<button type="button" class="plain link choose" aria-pressed=${row.user === user} onClick=${() => onChoose(row.user)}><${Name} text=${row.user} /></button>` },
    { key: 'groups', label: 'Groups', wide: true, value: (row) => row.groups.join(', '), show: (row) => html`<${Name} text=${row.groups.join(', ') || '–'} />` },
    { key: 'kind', label: 'Kind', value: kindOf, show: kindOf },
    { key: 'enabled', label: 'State', value: (row) => Number(row.enabled), show: (row) => html`<${State} of=${row.enabled ? 'ok' : 'off'} text=${row.enabled ? 'enabled' : 'disabled'} />` },
    { key: 'login', label: 'Logs in by', wide: true, grow: true, value: loginOf, show: (row) => html`<${Name} text=${loginOf(row)} />` },
    { key: 'addresses', label: 'Only from', wide: true, value: (row) => row.addresses.join(', '), show: (row) => row.addresses.join(', ') || 'anywhere' },
    { key: 'tokens', label: 'Tokens', num: true, value: (row) => row.tokens, show: (row) => html`<button type="button" class="plain link" aria-label="${count(row.tokens)} of ${clean(row.user)}" aria-pressed=${row.user === user} onClick=${() => onChoose(row.user)}>${count(row.tokens)}</button>` },
  ];
  return html`<${Table} label="Users" columns=${columns} rows=${rows} keyOf=${(row) => row.user} sort=${['user', 1]} onOpen=${(row) => onChoose(row.user)} selected=${user} />`;
}

const kindOf = (row) => (row.service ? 'service' : row.admin ? 'administrator' : 'user');
const loginOf = (row) => [row.password && 'password', row.provider && `provider ${row.provider}`, row.tokens > 0 && 'token'].filter(Boolean).join(', ') || 'nothing yet';

function TokenTable({ rows, onRevoke }) {
  const time = (key, label, none) => ({ key, label, value: (row) => row[key] ?? '', show: (row) => (row[key] ? html`<${Time} at=${row[key]} />` : none) });
  const columns = [{ key: 'name', label: 'Name', grow: true, value: (row) => row.name, show: (row) => html`<${Name} text=${row.name} />` },
    time('made', 'Made', 'not known'), time('used', 'Last used', 'never'), time('until', 'Valid until', 'no end'),
    onRevoke && { key: 'acts', label: '', show: (row) => html`<button type="button" aria-label="Revoke ${clean(row.name)}" onClick=${() => onRevoke(row)}>Revoke</button>` }].filter(Boolean);
  return html`<${Table} label="Tokens" columns=${columns} rows=${rows} keyOf=${(row) => row.name} sort=${['name', 1]} empty="There is none." />`;
}

function GroupTable({ rows, onAsk }) {
  const columns = [{ key: 'group', label: 'Group', value: (row) => row.group, show: (row) => html`<${Name} text=${row.group} />` },
    { key: 'members', label: 'Members', grow: true, wrap: true, value: (row) => row.members.length, show: (row) => html`<${Name} text=${row.members.join(', ') || '–'} />` },
    onAsk && { key: 'acts', label: '', show: (row) => html`<span class="acts"><button type="button" class="plain" aria-label="Members of ${clean(row.group)}" onClick=${() => onAsk('members', row)}>Members</button>
      <button type="button" class="plain" aria-label="Remove ${clean(row.group)}" onClick=${() => onAsk('ungroup', row)}>Remove</button></span>` }].filter(Boolean);
  return html`<${Table} label="Groups" columns=${columns} rows=${rows} keyOf=${(row) => row.group} sort=${['group', 1]} empty="There is none." />`;
}

function QuotaTable({ rows, onChange }) {
  const use = (used, limit, show) => (limit == null ? html`${show(used)} <span class="quiet">no limit</span>`
    : html`<${Bar} share=${used / Math.max(1, limit)} kind=${used >= limit ? 'bar-full' : ''} label="Used" text="${show(used)} of ${show(limit)}${used >= limit ? ', used up' : ''}" />`);
  const columns = [
    { key: 'whose', label: 'Of', grow: true, value: (row) => row.user ?? row.folder, show: (row) => html`<span class="quiet">${row.user ? 'user' : 'folder'}</span> <${Name} text=${row.user ?? row.folder} />` },
    { key: 'bytes', label: 'Bytes', value: (row) => row.used_bytes, show: (row) => use(row.used_bytes, row.bytes, bytes) },
    { key: 'files', label: 'Files', value: (row) => row.used_files, show: (row) => use(row.used_files, row.files, count) },
    onChange && { key: 'acts', label: '', show: (row) => (row.user ? html`<button type="button" aria-label="Change the quota of ${clean(row.user)}" onClick=${() => onChange(row)}>Change</button>` : html`<span class="quiet">sector policy</span>`) },
  ].filter(Boolean);
  return html`<${Table} label="Quotas" columns=${columns} rows=${rows} keyOf=${(row) => `${row.user} ${row.folder}`} sort=${['bytes', -1]} empty="There is none." />`;
}
