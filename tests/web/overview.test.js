// The heat map, the way back through a day, links, and the page of a node.
import assert from 'node:assert/strict';
import { login, newPage } from './browser.js';
import { bigOverview, events, go, until } from './kit.js';
import * as made from './generated.js';

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0;

async function bigPage(browser, target, options) {
  const page = await newPage(browser, target.base, options);
  await events(page, ['overview', bigOverview()]);
  await login(page, target.base, target.user, target.password);
  await page.waitForSelector('.heat-canvas');
  return page;
}

export const tests = {
  async 'the overview says in one sentence how the cloud is'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password);
    assert.match(await page.textContent('.health-sentence'), /The cloud (is well|needs attention|is in trouble): ./);
    assert.deepEqual(page.complaints, []);
  },

  async 'arrow keys move over the heat map and Enter opens a node'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password);
    await page.focus('.heat-canvas');
    const first = await page.textContent('.read-out a');
    await page.keyboard.press('ArrowRight');
    const second = await until('another node', async () => { const text = await page.textContent('.read-out a'); return text !== first && text; });
    await page.keyboard.press('Enter');
    await page.waitForSelector('.charts, .panel:has-text("reported no load")');
    assert.ok(decodeURIComponent(page.url()).endsWith(`#/nodes/${second}`), page.url());
    assert.match(await page.textContent('main'), /Background work/);
    assert.deepEqual(page.complaints, []);
  },

  async 'the slider asks for an earlier moment and Now returns to live'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password);
    const asked = page.waitForRequest((request) => /\/load\?ago=(3[56]\d\d)$/.test(request.url()));
    await page.locator('#time').evaluate((input) => { input.value = '-3600'; input.dispatchEvent(new Event('input', { bubbles: true })); });
    await asked;
    await until('the time', async () => /ago/.test(await page.textContent('.time-bar output')));
    await page.click('.time-bar button:has-text("Now")');
    assert.match(await page.textContent('.time-bar output'), /live/);
  },

  async 'a thousand nodes are drawn within a frame and stay fluid'({ browser, target, note }) {
    const page = await bigPage(browser, target);
    await until('some pictures', async () => (await page.evaluate(() => performance.getEntriesByName('heat-draw').length)) > 3);
    const frames = await page.evaluate(async () => {
      const canvas = document.querySelector('.heat-canvas');
      const list = [];
      let last = performance.now();
      for (let at = 0; at < 90; at += 1) {
        canvas.dispatchEvent(new PointerEvent('pointermove', { pointerType: 'mouse', bubbles: true, clientX: canvas.getBoundingClientRect().left + at * 9, clientY: canvas.getBoundingClientRect().top + 60 + (at % 20) * 8 }));
        await new Promise(requestAnimationFrame);
        list.push(performance.now() - last);
        last = performance.now();
      }
      return list;
    });
    const draws = await page.evaluate(() => performance.getEntriesByName('heat-draw').map((entry) => entry.duration));
    note(`1,000 nodes: draw ${median(draws).toFixed(1)} ms (median), frame ${median(frames).toFixed(1)} ms (median), ${Math.max(...frames).toFixed(0)} ms (worst), while the pointer moves`);
    assert.match(await page.textContent('.signs'), /down/);
  },

  async 'the table holds the same nodes, sorts, and keeps few rows on the page'({ browser, target }) {
    const page = await bigPage(browser, target);
    await page.click('button:has-text("Table")');
    await page.waitForSelector('table[aria-label="Nodes"]');
    assert.equal(await page.getAttribute('table[aria-label="Nodes"]', 'aria-rowcount'), '1001');
    assert.ok((await page.locator('table[aria-label="Nodes"] tbody tr').count()) < 100);
    await page.click('th button:has-text("Used")');
    assert.match(await page.textContent('table[aria-label="Nodes"] tbody tr:first-child'), /full/);
    await page.focus('table[aria-label="Nodes"] tbody tr[tabindex="0"]');
    await page.keyboard.press('End');
    await until('the last row', () => page.evaluate(() => document.activeElement?.getAttribute('aria-rowindex') === '1001'));
  },

  async 'links carry rate, round trip and loss as text; a phone gets a list'({ browser, target }) {
    const page = await bigPage(browser, target);
    assert.match(await page.textContent('.link-map'), /MiB\/s.*ms · loss/);
    assert.equal(await page.locator('.link-map line.bad').count(), 1);
    const phone = await bigPage(browser, target, { size: 'phone' });
    await phone.waitForSelector('table[aria-label="Links between sites"]');
    assert.equal(await phone.locator('.link-map').count(), 0);
  },

  async 'the page of a node in trouble says what is wrong'({ browser, target }) {
    const page = await newPage(browser, target.base);
    const state = bigOverview();
    state.nodes[0] = { ...state.nodes[0], id: '<img src=x onerror=window.hacked=1>', state: 'lost', sandbox_missing: ['seccomp'], links: [{ site: 'tokyo', transfers: 2, waiting: 1, limit_bytes_per_second: null }] };
    await events(page, ['overview', state]);
    await page.route('**/api/v1/load/**', (route) => route.fulfill({ contentType: 'application/json', body: JSON.stringify({ sample_seconds: 10, samples: [null, made.sampleOf(0.3), made.sampleOf(0.5)] }) }));
    await login(page, target.base, target.user, target.password, `#/nodes/${encodeURIComponent('<img src=x onerror=window.hacked=1>')}`);
    await page.waitForSelector('.u-over');
    const text = await page.textContent('main');
    assert.match(text, /down/);
    assert.match(text, /lacks seccomp/);
    assert.match(text, /no limit/);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.deepEqual(page.complaints, []);
    await go(page, target.base, '#/nodes/no-such-node');
    await page.waitForSelector('text=There is no node of this name');
  },
};
