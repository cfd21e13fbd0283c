// Runs the tests one after the other in one browser and says what failed: `node run.js [part of a name]`.
import { launch } from './browser.js';
import { server } from './kit.js';

const ROOMS = ['session.test.js', 'overview.test.js', 'files.test.js', 'jobs.test.js', 'start.test.js', 'parquet.test.js', 'people.test.js', 'events.test.js', 'trouble.test.js', 'access.test.js', 'portal.test.js'];
const wanted = process.argv[2] ?? '';
const target = server();
const browser = await launch();
const notes = [];
let failed = 0;
let done = 0;
for (const room of ROOMS) {
  const { tests } = await import(`./${room}`);
  for (const [name, test] of Object.entries(tests)) {
    if (!name.includes(wanted)) continue;
    const began = Date.now();
    const before = browser.contexts();
    try {
      await test({ browser, target, note: (text) => notes.push(text) });
      console.log(`ok      ${name} (${Date.now() - began} ms)`);
      done += 1;
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n        ${String(error.stack ?? error).split('\n').slice(0, 6).join('\n        ')}`);
    }
    for (const context of browser.contexts()) if (!before.includes(context)) await context.close();
  }
}
await browser.close();
notes.forEach((text) => console.log(`note    ${text}`));
console.log(`${done} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
