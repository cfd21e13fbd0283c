// What happens, as the page tells it: live, chosen, bounded, and as text.
import assert from 'node:assert/strict';
import { login, newPage } from './browser.js';
import { go, makeFolder, store, until } from './kit.js';

const row = (page, words) => page.locator('table[aria-label="Events"] tbody tr', { hasText: words });

/** Events in place of the server's own; the stream then stays as it is. */
async function told(page, list) {
  const body = list.map((event) => `id: ${event.number}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`).join('');
  let isFirst = true;
  await page.route('**/api/v1/events?**', (route) => {
    if (route.request().headers().accept !== 'text/event-stream') return route.fulfill({ json: { events: [], last: 1, more: false } });
    const answer = isFirst ? body : ': nothing new\n\n';
    isFirst = false;
    return route.fulfill({ contentType: 'text/event-stream', body: answer });
  });
}

const published = (number) => ({ number, time: new Date(1700000000000 + number).toISOString(), kind: 'file_published', subject: `/many/${number}`, user: 'ann', version: 1, bytes: 10 });

export const tests = {
  async 'a file that is written appears on the list of events, and its path chooses it'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password, '#/events?since=');
    await page.waitForSelector('.tools .live-live');
    await makeFolder(page, target.folder);
    const name = `${target.folder}/events-${Date.now().toString(36)}`;
    await store(page, `${name}-a.txt`, 'first');
    await row(page, `${name}-a.txt`).waitFor();
    assert.match(await row(page, `${name}-a.txt`).textContent(), /file published/);
    await page.fill('input[name=path]', `${name}-b.txt`);
    await page.locator('select[name=since]').selectOption('10m');
    await page.click('button:has-text("Show")');
    await page.waitForSelector('.tools .live-live');
    await store(page, `${name}-b.txt`, 'second');
    await row(page, `${name}-b.txt`).waitFor();
    assert.equal(await row(page, `${name}-a.txt`).count(), 0);
    await row(page, `${name}-b.txt`).locator('a').click();
    await until('the file', async () => page.url().includes('#/files'));
    assert.deepEqual(page.complaints, []);
  },

  async 'what cannot be chosen is refused in a sentence'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password, '#/events?since=1h&path=no-path');
    await page.waitForSelector('main .notice-bad');
    assert.match(await page.textContent('main .notice-bad'), /path/);
    await page.waitForSelector('.tools .live:has-text("refused")');
  },

  async 'the list is bounded, can be held, and tells of a gap'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await told(page, [...Array.from({ length: 1200 }, (_, at) => published(at + 1)), { number: 1201, kind: 'gap', subject: 'events', after: 1200 }, published(1202)]);
    await login(page, target.base, target.user, target.password, '#/events');
    await row(page, '/many/1202').waitFor();
    await page.waitForSelector('h2:has-text("The newest 500")');
    assert.equal(await page.getAttribute('table[aria-label="Events"]', 'aria-rowcount'), '501');
    assert.ok((await page.locator('table[aria-label="Events"] tbody tr').count()) < 100, 'only what is in view is on the page');
    await row(page, 'not known any more').waitFor();
    await page.click('button:has-text("Hold")');
    await page.click('button:has-text("Go on")');
    await page.waitForSelector('button:has-text("Hold")');
    assert.deepEqual(page.complaints, []);
  },

  async 'names in events are text'({ browser, target }) {
    const page = await newPage(browser, target.base);
    const evil = '<img src=x onerror=window.hacked=1>';
    await told(page, [{ ...published(1), subject: `/${evil}`, user: evil }, { number: 2, time: new Date().toISOString(), kind: 'health_changed', subject: 'cloud', state: 'unhealthy', cause: `${evil} \`${evil}\``, count: 1 }]);
    await go(page, target.base, '#/events');
    await login(page, target.base, target.user, target.password, '#/events');
    await row(page, 'health changed').waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('main img').count(), 0);
    assert.deepEqual(page.complaints, []);
  },
};
