// Pictures of every page for looking at: light, dark, phone: `node shots.js FOLDER`. Not a test.
import { mkdirSync } from 'node:fs';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { launch, login, newPage } from './browser.js';
import { bigOverview, events, job, makeFolder, server, store, unroute } from './kit.js';

const out = process.argv[2] ?? 'shots';
mkdirSync(out, { recursive: true });
const target = server();
const browser = await launch();
const PAGES = [['overview', '#/'], ['node', '#/nodes/node-1'], ['files', '#/files/shots'], ['file', '#/files/shots?show=table.csv'], ['parquet', '#/files/shots?show=table.parquet'], ['jobs', '#/jobs'], ['new-job', '#/jobs/new?input=/shots'], ['job', '#/jobs/aaaa000011112222'], ['work', '#/work'], ['events', '#/events?since=1d'], ['trash', '#/trash'], ['people', '#/people'], ['audit', '#/audit']];
for (const [mode, options] of [['light', {}], ['dark', { theme: 'dark' }], ['phone', { size: 'phone' }]]) {
  const page = await newPage(browser, target.base, options);
  const shoot = async (name) => { await page.waitForTimeout(1500); await page.screenshot({ path: `${out}/${name}-${mode}.png`, fullPage: true }); };
  await page.goto(target.base);
  await page.waitForSelector('input[name=user]');
  await shoot('login');
  await login(page, target.base, target.user, target.password);
  await makeFolder(page, '/shots');
  await store(page, '/shots/table.csv', 'star,ra,dec\nVega,279.23,38.78\nDeneb,310.36,45.28\n');
  await store(page, '/shots/table.parquet', new Uint8Array(parquetWriteBuffer({ columnData: [{ name: 'star', data: ['Vega', 'Deneb'], type: 'STRING' }, { name: 'ra', data: [279.23, 310.36], type: 'DOUBLE' }] })));
  await job(page, { segments: 4000 });
  for (const [name, at] of PAGES) {
    await page.goto(`${target.base}/${at}`);
    await shoot(name);
  }
  await events(page, ['overview', bigOverview()]);
  await page.goto(`${target.base}/#/`);
  await page.reload();
  await shoot('overview-1000-nodes');
  await unroute(page, '/live');
  if (page.complaints.length) console.log(mode, page.complaints);
  await page.context().close();
}
await browser.close();
