// For everybody: axe without a serious finding, phones, keyboard, light and dark, and first paint.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { login, newPage } from './browser.js';
import { bigOverview, events, go, job, until } from './kit.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PAGES = ['#/', '#/nodes/node-1', '#/files', '#/jobs', '#/jobs/bbbb000011112222', '#/jobs/new', '#/work', '#/events?since=1d', '#/trash', '#/people', '#/audit', '#/nowhere'];

export async function findings(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return violations.filter((item) => ['serious', 'critical'].includes(item.impact)).map((item) => `${item.id}: ${item.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

async function open(browser, target, options) {
  const page = await newPage(browser, target.base, options);
  await job(page, { id: 'bbbb000011112222', state: 'failed', segments: 400 });
  await events(page, ['overview', bigOverview()]);
  await login(page, target.base, target.user, target.password);
  return page;
}

const axeIn = (theme, size) => async ({ browser, target }) => {
  const page = await newPage(browser, target.base, { theme, size });
  await go(page, target.base, '#/');
  await page.waitForSelector('input[name=user]');
  const all = (await findings(page)).map((text) => `login ${text}`);
  await page.context().close();
  const inside = await open(browser, target, { theme, size });
  for (const at of PAGES) {
    await go(inside, target.base, at);
    await inside.waitForTimeout(700);
    if (at === '#/') { await inside.click('button:has-text("Table")'); all.push(...(await findings(inside)).map((text) => `table ${text}`)); await inside.click('button:has-text("Map")'); }
    all.push(...(await findings(inside)).map((text) => `${at} ${text}`));
  }
  await inside.evaluate(() => { location.hash = '#/files'; });
  await inside.click('button:has-text("New folder")');
  all.push(...(await findings(inside)).map((text) => `dialog ${text}`));
  await inside.keyboard.press('Escape');
  await inside.evaluate(() => { location.hash = '#/jobs/new'; });
  await inside.click('button:has-text("Start the job")');
  await inside.waitForSelector('.field-error');
  all.push(...(await findings(inside)).map((text) => `refused form ${text}`));
  await inside.click('button:has-text("Choose from the files")');
  all.push(...(await findings(inside)).map((text) => `choice ${text}`));
  await inside.keyboard.press('Escape');
  await inside.evaluate(() => { location.hash = '#/people'; });
  await inside.click('button:has-text("Add a user")');
  all.push(...(await findings(inside)).map((text) => `new user ${text}`));
  assert.deepEqual(all, []);
  assert.deepEqual(inside.complaints, []);
};

export const tests = {
  'axe finds nothing serious in light': axeIn('light', 'desk'),
  'axe finds nothing serious in dark': axeIn('dark', 'desk'),
  'axe finds nothing serious on a phone': axeIn('light', 'phone'),

  async 'no page is wider than a phone'({ browser, target }) {
    const page = await open(browser, target, { size: 'phone' });
    for (const at of PAGES) {
      await go(page, target.base, at);
      await page.waitForTimeout(500);
      const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      assert.ok(wide <= seen, `${at}: ${wide} > ${seen}`);
    }
  },

  async 'the keyboard reaches the content, and every screen has a heading'({ browser, target }) {
    const page = await open(browser, target);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    for (const at of PAGES) {
      await go(page, target.base, at);
      await page.waitForSelector('h1', { state: 'attached' });
      assert.equal(await page.locator('h1').count(), 1, at);
      assert.match(await page.title(), / · Sector\/Sphere$/);
    }
  },

  async 'the switch for light and dark holds after a reload'({ browser, target }) {
    const page = await open(browser, target, { theme: 'light' });
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), 'light');
    await page.selectOption('header select', 'dark');
    await until('dark', async () => (await theme()) === 'dark');
    await page.reload();
    assert.equal(await theme(), 'dark');
    await page.waitForSelector('header select');
    await page.selectOption('header select', 'auto');
    await until('light', async () => (await theme()) === 'light');
    await page.emulateMedia({ colorScheme: 'dark' });
    await until('dark again', async () => (await theme()) === 'dark');
  },

  async 'little is loaded'({ browser, target, note }) {
    const page = await open(browser, target);
    await page.goto('about:blank');
    await page.goto(`${target.base}/#/`);
    await page.waitForSelector('.heat-canvas');
    const [paint, bytes, files, full] = await page.evaluate(() => {
      const list = performance.getEntriesByType('resource').filter((entry) => !entry.name.includes('/api/'));
      return [performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0, list.reduce((sum, entry) => sum + entry.decodedBodySize, 0), list.length, performance.now()];
    });
    note(`first paint ${paint.toFixed(0)} ms, heat map of 1,000 nodes ${full.toFixed(0)} ms, ${files} files of ${bytes} bytes`);
    assert.ok(bytes < 600_000 && files < 60, `${bytes} bytes in ${files} files`);
  },
};
