// Users, tokens and quotas. What one has no right to see is said, not hidden.
// It never shows a token itself, and changes nothing: that is for the command line.
import { html, useState } from './vendor/htm.js';
import { query, useGet } from './api.js';
import { bytes, clean, count } from './format.js';
import { Table } from './table.js';
import { Bar, Facts, Failed, Name, Section, State, Time } from './widgets.js';

export function People({ session }) {
  const users = useGet('/users');
  const quotas = useGet('/quotas', 30000);
  const [user, setUser] = useState(session.user);
  const tokens = useGet(`/tokens${query({ user })}`);
  return html`<h1>People</h1>
    <${Section} title="You"><${Facts} items=${[
      ['User', html`<${Name} text=${session.user} />`],
      ['Groups', session.groups?.length ? html`<${Name} text=${session.groups.join(', ')} />` : 'none'],
      ['Administrator', session.admin ? 'yes' : 'no'],
    ]} /><//>
    <${Section} title="Users"><${Shown} answer=${users}>${(rows) => html`<${UserTable} rows=${rows} user=${user} onChoose=${setUser} />`}<//><//>
    <${Section} title=${html`Tokens of <${Name} text=${user} />`}><${Shown} answer=${tokens}>${(rows) => html`<${TokenTable} rows=${rows} />`}<//><//>
    <${Section} title="Quotas"><${Shown} answer=${quotas}>${(rows) => html`<${QuotaTable} rows=${rows} />`}<//><//>`;
}

function Shown({ answer, children }) {
  if (!answer.data) return answer.error ? html`<${Failed} error=${answer.error} />` : html`<p class="quiet" aria-busy="true">Loading …</p>`;
  return html`<${Failed} error=${answer.error} />${children(answer.data)}`;
}

function UserTable({ rows, user, onChoose }) {
  const columns = [
    { key: 'user', label: 'User', value: (row) => row.user, show: (row) => html`<${Name} text=${row.user} />` },
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

function TokenTable({ rows }) {
  const time = (key, label, none) => ({ key, label, value: (row) => row[key] ?? '', show: (row) => (row[key] ? html`<${Time} at=${row[key]} />` : none) });
  const columns = [{ key: 'name', label: 'Name', grow: true, value: (row) => row.name, show: (row) => html`<${Name} text=${row.name} />` },
    time('made', 'Made', 'not known'), time('used', 'Last used', 'never'), time('until', 'Valid until', 'no end')];
  return html`<${Table} label="Tokens" columns=${columns} rows=${rows} keyOf=${(row) => row.name} sort=${['name', 1]} empty="There is none." />`;
}

function QuotaTable({ rows }) {
  const use = (used, limit, show) => (limit == null ? html`${show(used)} <span class="quiet">no limit</span>`
    : html`<${Bar} share=${used / Math.max(1, limit)} kind=${used >= limit ? 'bar-full' : ''} label="Used" text="${show(used)} of ${show(limit)}${used >= limit ? ', used up' : ''}" />`);
  const columns = [
    { key: 'whose', label: 'Of', grow: true, value: (row) => row.user ?? row.folder, show: (row) => html`<span class="quiet">${row.user ? 'user' : 'folder'}</span> <${Name} text=${row.user ?? row.folder} />` },
    { key: 'bytes', label: 'Bytes', value: (row) => row.used_bytes, show: (row) => use(row.used_bytes, row.bytes, bytes) },
    { key: 'files', label: 'Files', value: (row) => row.used_files, show: (row) => use(row.used_files, row.files, count) },
  ];
  return html`<${Table} label="Quotas" columns=${columns} rows=${rows} keyOf=${(row) => `${row.user} ${row.folder}`} sort=${['bytes', -1]} empty="There is none." />`;
}
