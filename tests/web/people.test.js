// Users, groups, tokens, quotas and rights, changed on the page by an administrator; and one's own tokens by everybody.
import assert from 'node:assert/strict';
import { login, newPage } from './browser.js';
import { answer, filesAt, go, makeFolder, store, until } from './kit.js';

const PASSWORD = 'a horse of another colour';
let number = 0;
const fresh = (kind) => { number += 1; return `${kind}-${Date.now().toString(36)}-${number}`; };
const row = (page, table, name) => page.locator(`table[aria-label="${table}"] tbody tr`, { hasText: name });
const told = (page, words) => page.waitForSelector(`.messages .notice:has-text("${words}")`);

async function peoplePage(browser, target, options) {
  const page = await newPage(browser, target.base, options);
  await login(page, target.base, target.user, target.password, '#/people');
  await page.waitForSelector('table[aria-label="Users"]');
  return page;
}

async function addUser(page, user, { service = false } = {}) {
  await page.click('button:has-text("Add a user")');
  await page.fill('dialog #field-user', user);
  if (service) await page.getByLabel('A program, not a person').check();
  else await page.fill('dialog #field-password', PASSWORD);
  await page.click('dialog button:has-text("Add")');
  await told(page, `${user} is a user now`);
  await row(page, 'Users', user).locator('button.choose').click();
  await page.waitForSelector(`#chosen-user h2:has-text("${user}")`);
}

export const tests = {
  async 'a user is added, changed, disabled, enabled, and removed only by the name typed'({ browser, target }) {
    const page = await peoplePage(browser, target);
    const user = fresh('ann');
    await addUser(page, user);
    await page.click('#chosen-user button:has-text("Rights and addresses")');
    await page.fill('dialog #field-addresses', 'not an address');
    await page.click('dialog button:has-text("Save")');
    assert.match(await page.textContent('dialog #field-addresses-error'), /10\.0\.0\.0\/8/);
    await page.fill('dialog #field-addresses', '127.0.0.0/8 10.1.0.0/16');
    await page.click('dialog button:has-text("Save")');
    await until('the addresses', async () => /127\.0\.0\.0\/8, 10\.1\.0\.0\/16/.test(await row(page, 'Users', user).textContent()));
    await page.click('#chosen-user button:has-text("Disable")');
    await page.click('dialog button.danger');
    await until('disabled', async () => /disabled/.test(await row(page, 'Users', user).textContent()));
    await page.click('#chosen-user button:has-text("Enable")');
    await page.click('dialog button.strong');
    await until('enabled', async () => /enabled/.test(await row(page, 'Users', user).textContent()));
    await page.click('#chosen-user button:has-text("Remove")');
    assert.ok(await page.locator('dialog button.danger').isDisabled());
    await page.getByLabel('Type the name to go on').fill(user);
    await page.click('dialog button.danger');
    await until('gone', async () => (await row(page, 'Users', user).count()) === 0);
    assert.deepEqual(page.complaints, []);
  },

  async 'what is refused is said in place, and at its field'({ browser, target }) {
    const page = await peoplePage(browser, target);
    await page.click('button:has-text("Add a user")');
    await page.fill('dialog #field-user', 'no blanks allowed');
    await page.fill('dialog #field-password', PASSWORD);
    await page.click('dialog button:has-text("Add")');
    await page.waitForSelector('dialog #field-user-error');
    await page.fill('dialog #field-user', target.user);
    await page.click('dialog button:has-text("Add")');
    assert.match(await page.textContent('dialog .notice-bad'), /there is|exists|already/i);
    await page.fill('dialog #field-user', fresh('bob'));
    await page.fill('dialog #field-password', 'short');
    await page.click('dialog button:has-text("Add")');
    await until('the sentence', async () => /password/i.test(await page.locator('dialog .notice, dialog .field-error').first().textContent()));
    assert.equal(await page.inputValue('dialog #field-password'), 'short', 'nothing that was typed is lost');
    await page.keyboard.press('Escape');
    await page.click('button:has-text("Set a quota")');
    await page.fill('dialog #field-user', 'nobody-of-this-name');
    await page.getByLabel('Files').fill('5');
    await page.click('dialog button:has-text("Set it")');
    assert.match(await page.textContent('dialog #field-user-error'), /there is no user/);
    assert.deepEqual(page.complaints, []);
  },

  async 'a token is shown once, logs in, and is worthless when it is revoked'({ browser, target }) {
    const page = await peoplePage(browser, target);
    const user = fresh('robot');
    await addUser(page, user, { service: true });
    await page.click('#chosen-user button:has-text("New token")');
    await page.getByLabel('What you call it').fill('nightly');
    await page.click('dialog button:has-text("Make it")');
    const token = await page.textContent('dialog .secret');
    assert.match(token, /^[0-9a-f]{64}$/);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.click('dialog button:has-text("Copy")');
    await page.waitForSelector('dialog [role=status]:has-text("copied")');
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), token);
    await page.click('dialog button:has-text("I have it")');
    await row(page, 'Tokens', 'nightly').waitFor();
    assert.ok(!(await page.content()).includes(token), 'nowhere else on the page');
    const ask = () => fetch(`${target.base}/api/v1/session`, { headers: { authorization: `Basic ${Buffer.from(`${user}:${token}`).toString('base64')}` } });
    const session = await ask();
    assert.equal(session.status, 200);
    assert.equal((await session.json()).user, user);
    await page.click('button[aria-label="Revoke nightly"]');
    await page.click('dialog button:has-text("Back")');
    assert.equal(await row(page, 'Tokens', 'nightly').count(), 1, 'asked first');
    await page.click('button[aria-label="Revoke nightly"]');
    await page.click('dialog button.danger');
    await page.waitForSelector('#chosen-user >> text=There is none.');
    await until('a token that is worthless', async () => (await ask()).status === 401, 20000);
    assert.deepEqual(page.complaints, []);
  },

  async 'groups and quotas are set'({ browser, target }) {
    const page = await peoplePage(browser, target);
    const [user, group] = [fresh('carl'), fresh('astro')];
    await addUser(page, user);
    await page.click('button:has-text("Add a group")');
    await page.fill('dialog #field-group', group);
    await page.click('dialog button:has-text("Add")');
    await page.click(`button[aria-label="Members of ${group}"]`);
    await page.locator('dialog label.choice', { hasText: user }).locator('input').check();
    await page.click('dialog button:has-text("Save")');
    await until('a member', async () => (await row(page, 'Groups', group).textContent()).includes(user));
    await page.click('button:has-text("Set a quota")');
    await page.fill('dialog #field-user', user);
    await page.getByLabel('Bytes').fill('1.5');
    await page.getByLabel('Unit').selectOption('GB');
    await page.getByLabel('Files').fill('1000');
    await page.click('dialog button:has-text("Set it")');
    await until('the quota', async () => /1\.4 GiB.*1.000/s.test(await row(page, 'Quotas', user).textContent()));
    const quotas = await page.evaluate(async () => (await fetch('api/v1/quotas')).json());
    assert.equal(quotas.find((quota) => quota.user === user).bytes, 1.5e9);
    await page.click(`button[aria-label="Change the quota of ${user}"]`);
    assert.equal(await page.inputValue('dialog input[inputmode=decimal]'), '1500');
    await page.click('dialog button:has-text("Back")');
    await page.click(`button[aria-label="Remove ${group}"]`);
    await page.click('dialog button.danger');
    await until('no group', async () => (await row(page, 'Groups', group).count()) === 0);
    assert.deepEqual(page.complaints, []);
  },

  async 'everybody makes tokens of their own, and changes nobody else'({ browser, target }) {
    const admin = await peoplePage(browser, target);
    const user = fresh('dora');
    await addUser(admin, user);
    const page = await newPage(browser, target.base);
    await login(page, target.base, user, PASSWORD, '#/people');
    await page.waitForSelector(`#chosen-user h2:has-text("${user}")`);
    for (const words of ['Add a user', 'Set a quota', 'Add a group', 'Disable', 'Remove']) assert.equal(await page.locator(`button:has-text("${words}")`).count(), 0, words);
    await page.click('button:has-text("New token")');
    await page.getByLabel('What you call it').fill('mine');
    await page.click('dialog button:has-text("Make it")');
    await page.click('dialog button:has-text("I have it")');
    await row(page, 'Tokens', 'mine').waitFor();
    const change = (method, path, body, headers = { 'X-Sector-Request': '1' }) => page.evaluate(async ([method, path, body, headers]) => (await fetch(`api/v1${path}`, { method, headers, body: body && JSON.stringify(body) })).status, [method, path, body, headers]);
    assert.equal(await change('POST', '/users', { user: 'x', password: PASSWORD }), 403);
    assert.equal(await change('PUT', '/quotas', { user, bytes: null, files: null }), 403);
    assert.equal(await change('POST', '/tokens', { user: target.user, name: 'theirs' }), 403);
    assert.equal(await change('DELETE', `/users/${target.user}`), 403);
    assert.equal(await change('DELETE', `/tokens?user=${user}&name=mine`, null, {}), 403, 'without the header of the page');
    await page.click('button:has-text("Change your password")');
    await page.getByLabel('Password so far').fill('wrong');
    await page.getByLabel('New password', { exact: true }).fill(`${PASSWORD} too`);
    await page.getByLabel('New password again').fill(`${PASSWORD} too`);
    await page.click('dialog button:has-text("Change it")');
    await page.waitForSelector('dialog .notice');
    await page.getByLabel('Password so far').fill(PASSWORD);
    await page.click('dialog button:has-text("Change it")');
    await told(page, 'The password is changed');
    assert.deepEqual(page.complaints, []);
  },

  async 'who may is changed at a file, and taken back'({ browser, target }) {
    const page = await peoplePage(browser, target);
    const folder = `${target.folder}/${fresh('rights')}`;
    await makeFolder(page, folder);
    await store(page, `${folder}/a.txt`, 'x');
    await go(page, target.base, filesAt(folder, '?show=a.txt'));
    await page.click('button:has-text("Change who may")');
    await page.fill('dialog #field-acl', 'user:nobody-of-this-name:rw');
    await page.click('dialog button:has-text("Save")');
    assert.match(await page.textContent('dialog #field-acl-error'), /there is no user/);
    await page.fill('dialog #field-acl', 'everyone');
    await page.click('dialog button:has-text("Save")');
    await until('how to write it', async () => /user:alice:rw/.test(await page.textContent('dialog #field-acl-error')));
    await page.fill('dialog #field-acl', `everyone:r\nuser:${target.user}:rwxa`);
    await page.click('dialog button:has-text("Save")');
    await page.waitForSelector('.details li:has-text("everyone may read")');
    await page.click('button:has-text("Follow the folder above")');
    await page.click('dialog button:has-text("Remove its own list")');
    await until('the list of above', async () => (await page.locator('button:has-text("Follow the folder above")').count()) === 0);
    assert.deepEqual(page.complaints, []);
  },

  async 'names of people are text everywhere'({ browser, target }) {
    const page = await newPage(browser, target.base);
    const user = '<img src=x onerror=window.hacked=1>';
    await answer(page, '/users', 200, [{ user, groups: ['<script>window.hacked=1</script>'], admin: false, enabled: true, service: false, password: true, tokens: 1, addresses: [], provider: null }]);
    await answer(page, '/groups', 200, [{ group: '"><svg onload=window.hacked=1>', members: [user] }]);
    await answer(page, '/quotas', 200, [{ user, folder: null, used_bytes: 1, used_files: 1, bytes: 5, files: null }]);
    await page.route('**/api/v1/tokens?**', (route) => route.fulfill({ status: 200, contentType: 'application/json', body: JSON.stringify([{ name: user, made: null, until: null, used: null }]) }));
    await page.route('**/api/v1/users/**', (route) => route.fulfill({ status: 409, contentType: 'application/json', body: JSON.stringify({ error: { reason: 'failed', message: `${user} stays`, path: null } }) }));
    await login(page, target.base, target.user, target.password, '#/people');
    await row(page, 'Users', user).locator('button.choose').click();
    for (const words of ['Rights and addresses', 'Disable', 'New token', 'Remove']) {
      await page.click(`#chosen-user button:has-text("${words}")`);
      await page.waitForSelector('dialog[open]');
      if (words === 'Disable') { await page.click('dialog button.danger'); await page.waitForSelector('dialog .notice:has-text("stays")'); }
      await page.keyboard.press('Escape');
    }
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('main img, main script, main svg, dialog img').count(), 0);
    assert.deepEqual(page.complaints, []);
  },
};
