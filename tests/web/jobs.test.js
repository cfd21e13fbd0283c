// Jobs: following one, its time line, cancelling, errors with their record.
import assert from 'node:assert/strict';
import { login, newPage } from './browser.js';
import { go, job, until } from './kit.js';

export const tests = {
  async 'the list of jobs shows and filters'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password, '#/jobs');
    await page.waitForSelector('h1:has-text("Jobs")');
    const asked = page.waitForRequest(/\/jobs\?.*state=failed/);
    await page.selectOption('.tools select', 'failed');
    await asked;
    assert.match(page.url(), /state=failed/);
    assert.deepEqual(page.complaints, []);
  },

  async 'a job is followed: stages, time line, stragglers, skew'({ browser, target }) {
    const page = await newPage(browser, target.base);
    const seen = await job(page, { segments: 3000 });
    await login(page, target.base, target.user, target.password, '#/jobs/aaaa000011112222');
    await page.waitForSelector('.time-line canvas');
    const text = await page.textContent('main');
    assert.match(text, /Stragglers \(\d+\)/);
    assert.match(text, /\d\.\d ×/);
    assert.match(text, /95 % below/);
    seen.state = 'done';
    await page.waitForSelector('.head-line .state-done', { timeout: 8000 });
    assert.deepEqual(page.complaints, []);
  },

  async 'a hundred thousand segments are drawn and zoomed without a halt'({ browser, target, note }) {
    const page = await newPage(browser, target.base);
    await job(page, { segments: 100000, nodes: 1000, state: 'done' });
    await login(page, target.base, target.user, target.password);
    const began = Date.now();
    await go(page, target.base, '#/jobs/aaaa000011112222');
    await page.waitForSelector('.time-line canvas', { timeout: 30000 });
    const shown = Date.now() - began;
    const box = await page.locator('.time-line canvas').boundingBox();
    const frames = await page.evaluate(async ({ x, y }) => {
      const canvas = document.querySelector('.time-line canvas');
      const list = [];
      let last = performance.now();
      for (let at = 0; at < 60; at += 1) {
        canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: at < 30 ? -100 : 100, ctrlKey: true, bubbles: true, cancelable: true, clientX: x, clientY: y }));
        document.querySelector('.line-scroll').scrollTop = at * 40;
        await new Promise(requestAnimationFrame);
        list.push(performance.now() - last);
        last = performance.now();
      }
      return list.sort((a, b) => a - b);
    }, { x: box.x + box.width / 2, y: box.y + 100 });
    const draws = await page.evaluate(() => performance.getEntriesByName('line-draw').map((entry) => entry.duration).sort((a, b) => a - b));
    note(`100,000 segments: shown ${shown} ms after the click, one picture ${draws.at(-1).toFixed(1)} ms at most, frame while zooming ${frames[30].toFixed(1)} ms (median), ${frames.at(-1).toFixed(0)} ms (worst)`);
    await page.click('button:has-text("Show as a table")');
    await page.waitForSelector('table[aria-label="Segments"]');
    assert.ok((await page.locator('table[aria-label="Segments"] tbody tr').count()) < 100);
  },

  async 'a job is cancelled only after a question'({ browser, target }) {
    const page = await newPage(browser, target.base);
    const seen = await job(page);
    await login(page, target.base, target.user, target.password, '#/jobs/aaaa000011112222');
    await page.click('button:has-text("Cancel the job")');
    await page.click('dialog button:has-text("Let it run")');
    assert.equal(seen.cancels.length, 0);
    await page.click('button:has-text("Cancel the job")');
    await page.click('dialog button.danger');
    await page.waitForSelector('.head-line .state-cancelled', { timeout: 8000 });
    assert.equal(seen.cancels.length, 1);
    assert.equal(seen.cancels[0]['x-sector-request'], '1');
  },

  async 'errors and logs of a job are shown as text with their record'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await job(page, { id: 'bbbb000011112222', state: 'failed', more: { title: '<script>window.hacked=1</script>', errors: ['<img src=x onerror=window.hacked=1> failed'], failed_segments: 1, error_slice: '/out/errors.jsonl' } });
    await login(page, target.base, target.user, target.password, '#/jobs/bbbb000011112222');
    await page.waitForSelector('.log pre:has-text("ValueError")');
    const text = await page.textContent('main');
    assert.match(text, /record 1203, segment 77/);
    assert.match(text, /\\u\{1b\}\[31m red \\u\{202e\} turned/);
    await until('the error', () => text.includes('<img src=x onerror=window.hacked=1> failed'));
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('main img, main script, main b').count(), 0);
    assert.deepEqual(page.complaints, []);
  },
};
