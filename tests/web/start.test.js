// Starting a job from the form: inputs, functions, parameters, the place of the results, and what is refused.
import assert from 'node:assert/strict';
import { login, newPage } from './browser.js';
import { answer, go, makeFolder, store, until } from './kit.js';

let number = 0;

async function formPage(browser, target, options) {
  const page = await newPage(browser, target.base, options);
  await login(page, target.base, target.user, target.password);
  number += 1;
  const folder = `${target.folder}/jobs-${Date.now()}-${number}`;
  await makeFolder(page, folder);
  await makeFolder(page, `${folder}/in`);
  await store(page, `${folder}/in/one.txt`, 'red 1\nblue 2\nred 3\n');
  await store(page, `${folder}/in/two.txt`, 'green 4\nred 5\n');
  await go(page, target.base, '#/jobs/new');
  await page.waitForSelector('select option[value="filter"]', { state: 'attached' });
  return { page, folder };
}

const start = (page) => page.click('button:has-text("Start the job")');
const stage = (page, at = 0) => page.locator('.job-form section').nth(at + 1);
const refusal = (page) => page.locator('.field-error').first().textContent();

async function outcome(page) {
  await until('the page of the job', () => /#\/jobs\/[0-9a-f]{16}\?output=/.test(page.url()));
  await page.waitForSelector('.head-line .state-done, .head-line .state-failed', { timeout: 60000 });
  return page.locator('.head-line .state').textContent();
}

const resultOf = (page, folder) => page.evaluate(async (at) => {
  const { entries } = await (await fetch(`api/v1/files?path=${encodeURIComponent(at)}`)).json();
  const parts = await Promise.all(entries.map(async (entry) => (await fetch(`api/v1/content${entry.path}`)).text()));
  return parts.join('');
}, folder);

export const tests = {
  async 'a job is started from the form, with inputs from the files, and followed'({ browser, target }) {
    const { page, folder } = await formPage(browser, target);
    await page.click('.job-form section:first-of-type button:has-text("Choose from the files")');
    for (const name of folder.split('/').filter(Boolean)) await page.click(`dialog .entry-folder:has-text("${name}")`);
    await page.click('dialog .entry-folder:has-text("in/")');
    await page.click('dialog button:has-text("Choose this folder")');
    assert.equal(await page.inputValue('#field-inputs'), `${folder}/in`);
    await stage(page).locator('select').first().selectOption('filter');
    await stage(page).getByLabel('contains').fill('red');
    await stage(page).getByLabel('key').fill('column:1');
    await stage(page).getByLabel('separator').fill(' ');
    await stage(page).getByLabel('Its results are').selectOption('lines');
    await page.click('summary');
    await page.selectOption('#field-records', 'lines');
    await page.fill('#field-output', `${folder}/out`);
    await start(page);
    assert.match(await outcome(page), /done/);
    assert.deepEqual((await resultOf(page, `${folder}/out`)).trim().split('\n').sort(), ['red 1', 'red 3', 'red 5']);
    assert.match(await page.textContent('h1'), /filter over/);
    await page.click(`.facts a:has-text("${folder}/out")`);
    await page.locator('table[aria-label="Files"] tbody tr', { hasText: 'part-0' }).first().waitFor();
    assert.deepEqual(page.complaints, []);
  },

  async 'a program and a function in a file of the cloud are stages'({ browser, target }) {
    const { page, folder } = await formPage(browser, target);
    await store(page, `${folder}/f.py`, 'def shout(segment):\n    for line in segment.lines():\n        yield line.upper() + b"\\n"\n\ndef _hidden(x):\n    pass\n');
    await page.fill('#field-inputs', `${folder}/in/*.txt`);
    await stage(page).getByLabel('in a file in the cloud').check();
    await stage(page).getByLabel('File (.py or .so)').fill(`${folder}/f.py`);
    await stage(page).locator('button.link:has-text("shout")').click();
    await stage(page).getByLabel('Its results are').selectOption('lines');
    assert.equal(await stage(page).locator('button.link').count(), 1, 'functions that are for the file itself are not offered');
    await page.click('button:has-text("Add a further stage")');
    await stage(page, 1).getByLabel('a program').check();
    await stage(page, 1).getByLabel('Program with its arguments').fill("awk '/RED 5/'");
    await page.fill('#field-output', `${folder}/out`);
    await page.click('summary');
    await page.selectOption('#field-records', 'lines');
    const asked = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/jobs'));
    await start(page);
    const request = await asked;
    assert.deepEqual(request.postDataJSON().functions, [`${folder}/f.py:shout`, "cmd:awk '/RED 5/'"]);
    assert.equal(request.headers()['x-sector-request'], '1');
    assert.match(await outcome(page), /done/);
    assert.equal((await resultOf(page, `${folder}/out`)).trim(), 'RED 5');
    assert.deepEqual(page.complaints, []);
  },

  async 'what is wrong is said at the field, in the words of the command'({ browser, target }) {
    const { page, folder } = await formPage(browser, target);
    await page.fill('#field-inputs', `${folder}/none/*.txt`);
    await page.fill('#field-output', `${folder}/out`);
    await start(page);
    assert.match(await page.locator('.job-form section').nth(1).locator('.field-error').textContent(), /nor a built-in function/);
    await stage(page).locator('select').first().selectOption('copy');
    await start(page);
    await page.waitForSelector('#field-inputs[aria-invalid="true"]');
    assert.match(await page.textContent('#field-inputs-error'), /there is no file or folder/);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'field-inputs');
    await page.fill('#field-inputs', `${folder}/in`);
    await page.fill('#field-output', `${folder}/in`);
    await start(page);
    await page.waitForSelector('#field-output[aria-invalid="true"]');
    assert.match(await page.textContent('#field-output-error'), /empty|exists|hold/i);
    await page.fill('#field-output', `${folder}/out`);
    await page.click('summary');
    await page.fill('#field-segment_bytes', '8MiB');
    await start(page);
    await page.waitForSelector('#field-segment_bytes[aria-invalid="true"]');
    assert.match(await page.textContent('#field-segment_bytes-error'), /write MIN:MAX/);
    await page.fill('#field-segment_bytes', '');
    await page.fill('#field-buckets', 'many');
    await start(page);
    assert.match(await page.textContent('#field-buckets-error'), /whole number/);
    await page.fill('#field-buckets', '');
    await page.fill('#field-side', 'words');
    await start(page);
    await page.waitForSelector('#field-side[aria-invalid="true"]');
    assert.match(await page.textContent('#field-side-error'), /NAME=PATH/);
    await page.fill('#field-side', '');
    await stage(page).locator('input[type=radio]').nth(2).check();
    await stage(page).getByLabel('Program with its arguments').fill("grep 'x");
    await start(page);
    assert.match(await refusal(page), /a quote that does not end/);
    assert.deepEqual(page.complaints, []);
  },

  async 'a refusal of a job is text, and a job that cannot be started stays a form'({ browser, target }) {
    const { page } = await formPage(browser, target);
    await page.route('**/api/v1/jobs', (route) => (route.request().method() === 'POST' ? route.fulfill({ status: 403, contentType: 'application/json', body: JSON.stringify({ error: { reason: 'no_right', message: '<img src=x onerror=window.hacked=1> you may not', path: null } }) }) : route.continue()));
    await page.fill('#field-inputs', '/kept');
    await start(page);
    await page.waitForSelector('.job-form .notice:has-text("you may not")');
    assert.equal(await page.inputValue('#field-inputs'), '/kept');
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('main img').count(), 0);
  },

  async 'a logout that would end a running job is asked about'({ browser, target }) {
    const page = await newPage(browser, target.base);
    const overview = { jobs: [{ id: 'aaaa000011112222', user: target.user, state: 'running', title: 'x', started: '2026-01-01T00:00:00Z', stages: [] }] };
    await page.route('**/api/v1/live', (route) => route.fulfill({ contentType: 'text/event-stream', body: `event: overview\ndata: ${JSON.stringify(overview)}\n\n` }));
    await login(page, target.base, target.user, target.password, '#/trash');
    await answer(page, '/logout', 204, {});
    await page.waitForSelector('.live-live');
    await page.click('header button:has-text("Log out")');
    assert.match(await page.textContent('dialog'), /1 job of yours still runs/);
    await page.click('dialog button:has-text("Stay")');
    assert.equal(await page.locator('header.top').count(), 1);
    await page.click('header button:has-text("Log out")');
    await page.click('dialog button.danger');
    await page.waitForSelector('input[name=password]');
  },
};
