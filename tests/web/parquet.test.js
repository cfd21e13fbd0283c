// The head of Parquet files: columns, row groups and first rows, read by ranges; and files that try to do harm.
import assert from 'node:assert/strict';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { login, newPage } from './browser.js';
import { filesAt, go, makeFolder, store } from './kit.js';

const ROWS = 1000;
const column = (name, type, value, more = {}) => ({ name, type, data: Array.from({ length: ROWS }, (_, at) => value(at)), ...more });
const file = (columnData, more = {}) => Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 300, ...more }));

/** One Zstandard frame of plain blocks. */
function zstd(input) {
  const parts = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0]), Buffer.alloc(4)];
  parts[1].writeUInt32LE(input.length);
  for (let at = 0; at === 0 || at < input.length; at += 65536) {
    const block = Buffer.from(input.subarray(at, at + 65536));
    const head = Buffer.alloc(4);
    head.writeUInt32LE((block.length << 3) | (at + 65536 >= input.length ? 1 : 0));
    parts.push(head.subarray(0, 3), block);
  }
  return new Uint8Array(Buffer.concat(parts));
}

async function show(browser, target, name, data, options) {
  const page = await newPage(browser, target.base, options);
  await login(page, target.base, target.user, target.password);
  const folder = `${target.folder}/parquet`;
  await makeFolder(page, folder);
  await store(page, `${folder}/${name}`, data);
  const ranges = [];
  page.on('request', (request) => { if (request.url().includes('/content/')) ranges.push(request.headers().range); });
  await go(page, target.base, filesAt(folder, `?show=${name}`));
  return { page, ranges };
}

const cells = (page) => page.locator('table[aria-label="First rows"] tbody tr').first().locator('td').allTextContents();

export const tests = {
  async 'a Parquet file shows its columns, row groups and first rows as text'({ browser, target }) {
    const data = file([
      column('<img src=x onerror=window.hacked=1>', 'STRING', (at) => `<script>window.hacked=1</script>${at}`),
      column('id', 'INT64', (at) => BigInt(at) + 9007199254740993n),
      column('when', 'TIMESTAMP', (at) => new Date(1767225600000 + at * 1000)),
      column('maybe', 'DOUBLE', (at) => (at % 2 ? at / 8 : null)),
    ]);
    const { page, ranges } = await show(browser, target, 'all.parquet', data);
    await page.waitForSelector('table[aria-label="First rows"]');
    assert.deepEqual(await cells(page), ['<script>window.hacked=1</script>0', '9007199254740993', '2026-01-01T00:00:00.000Z', 'null']);
    assert.equal(await page.locator('table[aria-label="First rows"] tbody tr').count(), 50);
    const text = await page.textContent('.details');
    assert.match(text, /The first 50 rows of 1.000\./);
    assert.match(text, /TIMESTAMP_MILLIS \(INT64\)/);
    assert.match(text, /DOUBLE, may be null/);
    assert.equal(await page.locator('table[aria-label="Row groups"] tbody tr').count(), 4);
    assert.match(await page.locator('table[aria-label="Columns"] tbody').textContent(), /<img src=x onerror=window.hacked=1>.*snappy/s);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('main img, main script').count(), 0);
    assert.ok(ranges.length > 0 && ranges.every(Boolean), `only ranges are asked for: ${ranges}`);
    assert.deepEqual(page.complaints, []);
  },

  async 'codecs are unpacked, and one that the page lacks is named'({ browser, target }) {
    const compressors = { GZIP: (input) => new Uint8Array(gzipSync(input)), BROTLI: (input) => new Uint8Array(brotliCompressSync(input)), ZSTD: zstd };
    const value = (at) => `a text that repeats ${at % 3}`;
    const data = file(Object.keys(compressors).map((codec) => column(codec.toLowerCase(), 'STRING', value, { codec })), { compressors });
    const { page } = await show(browser, target, 'codecs.parquet', data);
    await page.waitForSelector('table[aria-label="First rows"]');
    assert.deepEqual(await cells(page), ['a text that repeats 0', 'a text that repeats 0']);
    assert.match(await page.textContent('.details .notice'), /Not shown: brotli – This page cannot unpack BROTLI\./);
    assert.deepEqual(page.complaints, []);
  },

  async 'of a large file little is read'({ browser, target }) {
    const next = (at) => Math.sin(at) * 1e9;
    const data = Buffer.from(parquetWriteBuffer({ columnData: Array.from({ length: 3 }, (_, number) => ({ name: `n${number}`, type: 'DOUBLE', data: Float64Array.from({ length: 400000 }, (_, at) => next(at + number)) })), rowGroupSize: 400000, pageSize: 65536 }));
    assert.ok(data.length > 8_000_000, `${data.length}`);
    const { page, ranges } = await show(browser, target, 'small.parquet', file([column('a', 'INT32', (at) => at)]));
    await page.setInputFiles('input[type=file]', { name: `large-${Date.now()}.parquet`, mimeType: 'application/octet-stream', buffer: data });
    await page.waitForSelector('.upload-done', { timeout: 60000 });
    await page.waitForSelector('table[aria-label="First rows"]');
    ranges.length = 0;
    await page.locator('a.entry', { hasText: 'large-' }).last().click();
    await page.waitForSelector('.details h2:has-text("large-")');
    await page.waitForSelector('table[aria-label="First rows"]');
    assert.deepEqual(await cells(page), [0, 1, 2].map((at) => String(next(at))));
    const read = ranges.reduce((sum, range) => { const [from, to] = range.match(/\d+/g).map(Number); return sum + to - from + 1; }, 0);
    assert.ok(read < data.length / 4, `${read} of ${data.length} bytes`);
  },

  async 'damaged files give a sentence'({ browser, target }) {
    const good = file([column('a', 'INT32', (at) => at)]);
    const footer = good.readUInt32LE(good.length - 8);
    const bent = Buffer.from(good);
    bent.fill(0xff, good.length - 8 - footer, good.length - 8 - footer + 40);
    const pages = Buffer.from(good);
    pages.fill(0xff, 4, 400);
    const long = Buffer.from(good);
    long.writeUInt32LE(0x7fffffff, long.length - 8);
    const cases = {
      'cut.parquet': [good.subarray(0, good.length - 20), /does not end as a Parquet file does/],
      'tiny.parquet': [Buffer.from('PAR1'), /does not end as a Parquet file does/],
      'bent.parquet': [bent, /damaged/],
      'long.parquet': [long, /damaged/],
      'text.parquet': [Buffer.from('no parquet at all, whatever the name says'), /does not end as a Parquet file does/],
    };
    for (const [name, [data, wanted]] of Object.entries(cases)) {
      const { page } = await show(browser, target, name, data);
      const said = await page.textContent('.details .notice');
      assert.match(said, /The file cannot be shown\./);
      assert.match(said, wanted);
      assert.deepEqual(page.complaints, []);
      await page.context().close();
    }
    // Of a file whose description is whole, the columns are told, and those that cannot be read are named.
    const { page } = await show(browser, target, 'pages.parquet', pages);
    assert.match(await page.textContent('.details .notice'), /Not shown: a – It is damaged/);
    assert.match(await page.locator('table[aria-label="Columns"] tbody').textContent(), /INT32/);
  },
};
