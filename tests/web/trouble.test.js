// A master or a web server that is gone, missing rights, too many requests, a cloud without anything.
import assert from 'node:assert/strict';
import { login, newPage } from './browser.js';
import { answer, bigOverview, cut, events, go, refused, unroute, until } from './kit.js';

const isGrey = (page) => page.evaluate(() => getComputedStyle(document.getElementById('main')).filter !== 'none');

export const tests = {
  async 'without the master the page says so, keeps the last state grey, and comes back'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await events(page, ['overview', bigOverview()]);
    await login(page, target.base, target.user, target.password);
    await page.waitForSelector('.health-sentence');
    await unroute(page, '/live');
    await events(page, ['unreachable', { message: 'the master does not answer; start it again' }]);
    await page.waitForSelector('.banner-bad:has-text("The master cannot be reached")', { timeout: 15000 });
    assert.match(await page.textContent('.banner-bad'), /the state of \d\d:\d\d:\d\d/);
    assert.match(await page.textContent('.health-sentence'), /node-6 is lost/);
    assert.ok(await isGrey(page));
    await unroute(page, '/live');
    await page.waitForSelector('.live-live', { timeout: 15000 });
    await until('no banner', async () => (await page.locator('.banner-bad').count()) === 0);
    assert.ok(!(await isGrey(page)));
  },

  async 'without the web server the page says so and comes back'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password);
    await page.waitForSelector('.health-sentence');
    await cut(page, '/**');
    await page.evaluate(() => window.dispatchEvent(new Event('offline')));
    // The stream that is open does not end by itself here, so it is begun anew as after a pause.
    await page.evaluate(() => { Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); });
    await page.waitForSelector('.banner-bad:has-text("web server does not answer")', { timeout: 15000 });
    await unroute(page, '/**');
    await page.waitForSelector('.live-live', { timeout: 30000 });
  },

  async 'the page opens while the master is gone and fills when it is back'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await events(page, ['unreachable', { message: 'no answer' }]);
    await answer(page, '/files**', 503, { error: { reason: 'unreachable', message: 'the master cannot be reached', path: null } });
    await login(page, target.base, target.user, target.password, '#/files');
    await page.waitForSelector('main .notice:has-text("cannot be reached")');
    await unroute(page, '/files**');
    await unroute(page, '/live');
    await page.waitForSelector('table[aria-label="Files"], .empty', { timeout: 15000 });
  },

  async 'what one has no right to is said in words'({ browser, target }) {
    const page = await newPage(browser, target.base);
    for (const path of ['/users', '/audit**', '/files**', '/tokens**']) await answer(page, path, 403, refused);
    await login(page, target.base, target.user, target.password);
    for (const at of ['#/people', '#/audit', '#/files/private']) {
      await go(page, target.base, at);
      await page.waitForSelector('main .notice:has-text("bob has no right")');
    }
    await unroute(page, '/files**');
    await answer(page, '/uploads', 403, refused);
    await go(page, target.base, '#/files');
    await page.setInputFiles('input[type=file]', { name: 'x.txt', mimeType: 'text/plain', buffer: Buffer.from('x') });
    await page.waitForSelector('.upload-failed:has-text("no right")');
  },

  async 'a download that is refused says why'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await answer(page, '/files**', 200, { entries: [{ path: '/secret.txt', kind: 'file', size_bytes: 4, version: 1, digest: 'aa', modified: '2026-01-01T00:00:00Z', owner: 'eve', acl: true, records: 'lines', copies_wanted: 2 }], next: null });
    await answer(page, '/content/**', 403, refused);
    await login(page, target.base, target.user, target.password, '#/files');
    await page.click('tr:has-text("secret.txt") a:has-text("Download")');
    await page.waitForSelector('.messages:has-text("secret.txt cannot be downloaded")');
  },

  async 'a quota that is used up ends an upload with its reason'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await answer(page, '/uploads', 507, { error: { reason: 'quota', message: 'the quota of alice is used up; remove files', path: '/x' } });
    await login(page, target.base, target.user, target.password, '#/files');
    await page.waitForSelector('button:has-text("Upload")');
    await page.setInputFiles('input[type=file]', { name: 'x.txt', mimeType: 'text/plain', buffer: Buffer.from('x') });
    await page.waitForSelector('.upload-failed:has-text("quota of alice")');
  },

  async 'a page that is read-only offers no change'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password);
    await answer(page, '/session', 200, { user: 'bob', groups: [], admin: false, cloud: 'c:1', version: '0.1.0', read_only: true });
    await page.goto(`${target.base}/#/files`);
    await page.reload();
    await page.waitForSelector('.banner:has-text("read-only")');
    await page.waitForSelector('table[aria-label="Files"], .empty');
    assert.equal(await page.locator('button:has-text("Upload"), button:has-text("Remove"), button:has-text("New folder")').count(), 0);
  },

  async 'an empty cloud is shown without a fault'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await events(page, ['overview', { time: new Date().toISOString(), health: { status: 'critical', reasons: ['no node is up; start one'], used_bytes: 0, free_bytes: 0 }, nodes: [], load: { nodes: [], sample_seconds: 1, time: null }, links: [], jobs: [], work: [] }]);
    for (const [path, body] of [['/jobs**', []], ['/trash', []], ['/users', []], ['/quotas', []], ['/tokens**', []], ['/audit**', []], ['/files**', { entries: [], next: null }]]) await answer(page, path, 200, body);
    await login(page, target.base, target.user, target.password);
    await page.waitForSelector('.health-critical:has-text("no node is up; start one")');
    for (const at of ['#/files', '#/jobs', '#/work', '#/trash', '#/people', '#/audit']) {
      await go(page, target.base, at);
      await page.waitForSelector('.empty, .quiet');
    }
    assert.deepEqual(page.complaints, []);
  },
};
