// The file browser: folders, uploads through cuts, downloads, previews, trash.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { login, newPage } from './browser.js';
import { filesAt, go, makeFolder, store, until } from './kit.js';
import { CSV, fits, HOSTILE, NOTEBOOK, PNG } from './generated.js';

const digest = (data) => createHash('sha256').update(data).digest('hex');
const row = (page, name) => page.locator('table[aria-label="Files"] tbody tr', { hasText: name });
let number = 0;

async function folderPage(browser, target, options) {
  const page = await newPage(browser, target.base, options);
  await login(page, target.base, target.user, target.password);
  number += 1;
  const folder = `${target.folder}/${Date.now()}-${number}`;
  await makeFolder(page, target.folder);
  await makeFolder(page, folder);
  await go(page, target.base, filesAt(folder));
  await page.waitForSelector('text=This folder is empty');
  return { page, folder };
}

const choose = (page, name, data) => page.setInputFiles('input[type=file]', { name, mimeType: 'application/octet-stream', buffer: data });

export const tests = {
  async 'a folder is made, entered, and left with the keyboard'({ browser, target }) {
    const { page, folder } = await folderPage(browser, target);
    await page.click('button:has-text("New folder")');
    await page.fill('dialog input', 'inner');
    await page.keyboard.press('Enter');
    await row(page, 'inner').waitFor();
    await page.focus('table[aria-label="Files"] tbody tr[tabindex="0"]');
    await page.keyboard.press('Enter');
    await until('the inner folder', () => page.url().endsWith('/inner'));
    await page.waitForSelector('text=This folder is empty');
    await go(page, target.base, filesAt(folder));
    await row(page, 'inner').first().focus();
    await page.keyboard.press('Backspace');
    await until('the folder above', () => !page.url().includes(folder.split('/').at(-1)));
    assert.deepEqual(page.complaints, []);
  },

  async 'an upload goes on after a cut and the download is the same'({ browser, target }) {
    const { page, folder } = await folderPage(browser, target);
    const data = randomBytes(20 * 1024 * 1024 + 17);
    const offsets = [];
    let cuts = 0;
    page.on('request', (request) => { if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset'])); });
    await page.route('**/api/v1/uploads/*', (route) => { if (route.request().method() === 'PATCH' && offsets.length === 2 && cuts++ === 0) return route.abort('connectionreset'); return route.continue(); });
    await choose(page, 'big.bin', data);
    await page.waitForSelector('.upload-done', { timeout: 60000 });
    assert.ok(offsets.length >= 4, `pieces ${offsets}`);
    assert.equal(offsets.filter((offset) => offset === 0).length, 1, `begun again: ${offsets}`);
    await row(page, 'big.bin').waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), row(page, 'big.bin').locator('a:has-text("Download")').click()]);
    assert.equal(digest(readFileSync(await download.path())), digest(data));
    assert.ok(folder);
    assert.deepEqual(page.complaints, []);
  },

  async 'a file that exists is replaced only when asked'({ browser, target }) {
    const { page, folder } = await folderPage(browser, target);
    await store(page, `${folder}/same.txt`, 'first');
    await page.click('button:has-text("Read again")');
    await row(page, 'same.txt').waitFor();
    await choose(page, 'same.txt', Buffer.from('the second one'));
    await page.click('.upload-asking button:has-text("Keep")');
    await page.waitForSelector('.upload-cancelled');
    await choose(page, 'same.txt', Buffer.from('the second one'));
    await page.click('.upload-asking button:has-text("Replace")');
    await page.waitForSelector('.upload-done');
    await until('the new size', async () => /14 B/.test(await row(page, 'same.txt').textContent()));
  },

  async 'an upload is cancelled and leaves nothing'({ browser, target }) {
    const { page } = await folderPage(browser, target);
    await page.route('**/api/v1/uploads/*', async (route) => { if (route.request().method() === 'PATCH') await new Promise((resolve) => setTimeout(resolve, 3000)); return route.continue().catch(() => {}); });
    const gone = page.waitForRequest((request) => request.method() === 'DELETE' && request.url().includes('/uploads/'));
    await choose(page, 'never.bin', randomBytes(1024 * 1024));
    await page.click('.upload-sending button:has-text("Cancel")');
    await gone;
    await page.waitForSelector('.upload-cancelled');
    assert.equal(await row(page, 'never.bin').count(), 0);
  },

  async 'an upload pauses while the server is gone and comes back by itself'({ browser, target }) {
    const { page } = await folderPage(browser, target);
    let isGone = true;
    await page.route('**/api/v1/uploads**', (route) => (isGone ? route.fulfill({ status: 503, contentType: 'application/json', body: '{"error":{"reason":"unreachable","message":"the master cannot be reached","path":null}}' }) : route.continue()));
    await choose(page, 'later.bin', randomBytes(5000));
    await page.waitForSelector('.upload-pausing');
    isGone = false;
    await page.waitForSelector('.upload-done', { timeout: 20000 });
  },

  async 'files that are dropped are uploaded, several at once'({ browser, target }) {
    const { page } = await folderPage(browser, target);
    const transfer = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      for (let at = 0; at < 5; at += 1) data.items.add(new File([`content ${at}`], `drop-${at}.txt`));
      return data;
    });
    await page.dispatchEvent('.files', 'dragenter', { dataTransfer: transfer });
    await page.waitForSelector('.drop-words');
    await page.dispatchEvent('.files', 'drop', { dataTransfer: transfer });
    await until('five uploads', async () => (await page.locator('.upload-done').count()) === 5);
    await until('five rows', async () => (await row(page, 'drop-').count()) === 5);
  },

  async 'names that try to be scripts stay text, and their files can be had'({ browser, target }) {
    const { page, folder } = await folderPage(browser, target);
    const names = HOSTILE.map((name) => name.replaceAll('/', '_'));
    for (const name of names) await store(page, `${folder}/${name}`, `content of ${name}`).catch((error) => assert.match(error.message, /: 400 /, `${name}: ${error.message}`));
    await page.click('button:has-text("Read again")');
    await row(page, 'window.hacked').first().waitFor();
    await page.waitForTimeout(300);
    const stored = await row(page, '').count();
    assert.ok(stored >= 3, `only ${stored} names were taken`);
    const script = row(page, '<script>').first();
    const [download] = await Promise.all([page.waitForEvent('download'), script.locator('a:has-text("Download")').click()]);
    assert.match(readFileSync(await download.path(), 'utf8'), /^content of <script>/);
    await script.locator('a.entry').click();
    await page.waitForSelector('.details pre:has-text("content of <script>")');
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('main script, main img').count(), 0);
    const turned = row(page, '202e');
    if (await turned.count()) assert.match(await turned.textContent(), /photo\\u\{202e\}gnp\.exe/);
    assert.deepEqual(page.complaints, []);
  },

  async 'previews show CSV, notebooks, FITS, pictures, JSON and bytes as what they are'({ browser, target }) {
    const { page, folder } = await folderPage(browser, target);
    const kinds = [['t.csv', CSV, 'a, quoted "cell"'], ['n.ipynb', NOTEBOOK, '<Figure>'], ['m.fits', fits(), 'M31 <b>x</b>'], ['m2.fits', fits(), "second's"], ['d.json', '{"a":[1,{"b":"<script>"}]}', '"b": "<script>"'], ['b.bin', Buffer.from([0, 1, 2, 255, 65, 66]), '00 01 02 ff 41 42'], ['e.txt', '', 'The file is empty'], ['l.txt', 'x'.repeat(600000), 'The first 256.0 KiB of 585.9 KiB']];
    for (const [name, data] of kinds) await store(page, `${folder}/${name}`, data);
    await store(page, `${folder}/p.png`, PNG);
    for (const [name, , words] of kinds) {
      await go(page, target.base, filesAt(folder, `?show=${name}`));
      await until(`the preview of ${name}`, async () => ((await page.locator('.details').textContent().catch(() => '')) ?? '').includes(words));
    }
    await go(page, target.base, filesAt(folder, '?show=p.png'));
    await until('the picture', () => page.evaluate(() => document.querySelector('.picture')?.naturalWidth === 1));
    assert.match(await page.textContent('.details'), /Copies.*Earlier versions.*Who may/s);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.deepEqual(page.complaints, []);
  },

  async 'an address that names a file shows it in its folder'({ browser, target }) {
    const { page, folder } = await folderPage(browser, target);
    await store(page, `${folder}/one.txt`, 'one');
    await go(page, target.base, filesAt(`${folder}/one.txt`));
    await page.waitForSelector('.details pre:has-text("one")');
    assert.match(page.url(), /\?show=one\.txt$/);
  },

  async 'a file is renamed, removed to the trash, and restored'({ browser, target }) {
    const { page, folder } = await folderPage(browser, target);
    await store(page, `${folder}/old.txt`, 'x');
    await page.click('button:has-text("Read again")');
    await row(page, 'old.txt').focus();
    await page.keyboard.press('F2');
    await page.fill('dialog input', `${folder}/new.txt`);
    await page.click('dialog button:has-text("Rename")');
    await row(page, 'new.txt').focus();
    await page.keyboard.press('Delete');
    await page.waitForSelector('dialog:has-text("trash")');
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('dialog').count(), 0);
    await row(page, 'new.txt').focus();
    await page.keyboard.press('Delete');
    await page.click('dialog button:has-text("Move to the trash")');
    await page.waitForSelector('text=This folder is empty');
    await go(page, target.base, '#/trash');
    await page.locator('tr', { hasText: `${folder}/new.txt` }).locator('button').click();
    await page.click('dialog button.strong');
    await page.waitForSelector('.messages:has-text("Restored")');
    await go(page, target.base, filesAt(folder));
    await row(page, 'new.txt').waitFor();
  },
};
