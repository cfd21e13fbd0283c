// The page of sky images: search, lists and their jobs, the whole sky. The portal is a real one, with the few images that
// `cargo xtask test web` has made for it: `m51-g.fits` and `m51-r.fits` at 202.47 +47.2, `south.fits` at 10 -30.
import assert from 'node:assert/strict';
import { findings } from './access.test.js';
import { newPage } from './browser.js';
import { until } from './kit.js';

const at = (target, room) => `${target.portal}/portal/${room}`;
const open = async (browser, target, room, options) => {
  const page = await newPage(browser, target.portal, options);
  await page.goto(at(target, room));
  await page.waitForSelector('header.top');
  return page;
};
const isClean = (page) => assert.deepEqual(page.complaints, []);
const search = '#/?at=202.47+47.2&size=3';
const LIST = 'name,ra,dec,size\nspiral,13:29:52.8,+47:12:00,3\nnowhere,100,0,1\nwrong,x,0,1\n';

async function cut(page, list) {
  await page.fill('#list', list);
  await page.click('button:has-text("Cut it")');
  await page.waitForSelector('.job-line:has-text("done") .results a');
}

const axeIn = (theme, size) => async ({ browser, target }) => {
  const page = await open(browser, target, '#/', { theme, size });
  const all = [];
  for (const room of ['#/', search, '#/?at=nobody', '#/lists', '#/coverage', '#/nowhere']) {
    await page.goto(at(target, room));
    await page.waitForSelector('main :is(h1, h2)');
    await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
    if (room === '#/lists') {
      await page.fill('#list', LIST);
      await page.click('button:has-text("Check and preview")');
      await page.waitForSelector('.grid');
    }
    all.push(...(await findings(page)).map((text) => `${room} ${text}`));
  }
  assert.deepEqual(all, []);
  isClean(page);
};

export const tests = {
  'the portal shows the images that have a place': async ({ browser, target }) => {
    const page = await open(browser, target, '#/');
    await page.fill('input[name=at]', '13:29:52.8 +47:12:00');
    await page.click('button:has-text("Search")');
    await page.waitForSelector('h2:has-text("2 images at 13:29:52.8 +47:12:00")');
    const pictures = page.locator('.part img');
    await until('both pictures', async () => (await pictures.evaluateAll((all) => all.length === 2 && all.every((one) => one.naturalWidth > 0))));
    assert.deepEqual(await page.locator('.part .name').allTextContents(), ['m51-g.fits#0', 'm51-r.fits#0']);
    await page.fill('input[name=filter]', 'r');
    await page.click('button:has-text("Search")');
    await page.waitForSelector('h2:has-text("1 image at")');
    assert.match(page.url(), /filter=r/);
    const fits = await page.locator('.part-links a:has-text("FITS")').getAttribute('href');
    const bytes = await page.evaluate(async (address) => new Uint8Array(await (await fetch(address)).arrayBuffer()).slice(0, 6), fits);
    assert.equal(String.fromCharCode(...Object.values(bytes)), 'SIMPLE');
    await page.goBack();
    await page.waitForSelector('h2:has-text("2 images at")');
    isClean(page);
  },

  'the portal finds a target, and says how to search where it finds nothing': async ({ browser, target }) => {
    const page = await open(browser, target, '#/?at=South%20field');
    await page.waitForSelector('.part:has-text("south.fits")');
    await page.goto(at(target, '#/?at=nobody'));
    assert.match(await page.textContent('.notice'), /No image has the target “nobody”.*13:29:53 \+47:11:43/);
    await page.goto(at(target, '#/?at=100+0'));
    await page.waitForSelector('.notice:has-text("No image has a part of this place")');
    await page.goto(at(target, '#/?at=95:00:00+0'));
    await page.waitForSelector('.notice:has-text("No image has the target")');
    isClean(page);
  },

  'the portal reads positions as people write them, and its map leads back': async ({ browser, target }) => {
    const page = await open(browser, target, '#/');
    const found = await page.evaluate(async (address) => {
      const { parsePlace, placeWords, onMap, fromMap } = await import(address);
      const right = ['202.5 -47.2', '202.5,-47.2', '13:30:00 -47:12:00', '13h30m00s -47d12m00s', '13 30 00 -47 12 00', '13h30m -47°12′', ' 202.5\t-47.2 '].map(parsePlace);
      const wrong = ['', 'M 51', '361 0', '0 91', '13:60:00 1:00:00', '1', '1 2 3', '25:00:00 0:00:00'].map(parsePlace);
      let worst = 0;
      for (let ra = 1; ra < 360; ra += 7) for (let dec = -89; dec < 90; dec += 5) { const back = fromMap(...onMap(ra, dec)); worst = Math.max(worst, Math.abs(back.ra - ra), Math.abs(back.dec - dec)); }
      return { right, wrong, worst, outside: fromMap(0.9, 0.9), words: [placeWords({ ra: 359.99999, dec: -0.5 }), placeWords({ ra: 202.47, dec: 47.2 })], seam: [onMap(0, 0, -1)[0], onMap(0, 0, 1)[0], onMap(180, 90)[1]] };
    }, at(target, 'sky.js'));
    for (const place of found.right) assert.ok(Math.abs(place.ra - 202.5) < 1e-9 && Math.abs(place.dec + 47.2) < 1e-9, JSON.stringify(place));
    assert.deepEqual(found.wrong, found.wrong.map(() => null));
    assert.ok(found.worst < 1e-6, String(found.worst));
    assert.equal(found.outside, null);
    assert.deepEqual(found.words, ['00:00:00.0 −00:30:00', '13:29:52.8 +47:12:00']);
    assert.deepEqual(found.seam.map(Math.round), [-1, 1, 1]);
  },

  'a list is checked, cut, watched and removed by a visitor': async ({ browser, target }) => {
    const page = await open(browser, target, '#/lists');
    await page.fill('#list', LIST);
    await page.click('button:has-text("Check and preview")');
    await page.waitForSelector('[role=status]:has-text("2 rows, and 1 that make no sense"):has-text("1 lie where no image is")');
    assert.equal(await page.locator('.part').count(), 3);
    await until('the picture of the first row', () => page.locator('.part img').first().evaluate((one) => one.naturalWidth > 0));
    await cut(page, LIST);
    const archive = await page.getAttribute('.results a', 'href');
    const text = await page.evaluate(async (address) => new TextDecoder('latin1').decode(await (await fetch(address)).arrayBuffer()), archive);
    for (const part of ['spiral.fits', 'manifest.csv', 'no image in the index has 100,0', 'is no position']) assert.ok(text.includes(part), part);
    // The browser alone knows a visitor's jobs, and keeps them.
    await page.reload();
    await page.waitForSelector('.job-line:has-text("done")');
    const other = await open(browser, target, '#/lists');
    await other.waitForSelector('.empty:has-text("None yet")');
    await page.click('button:has-text("Remove")');
    await page.click('dialog button:has-text("Remove")');
    await page.waitForSelector('.empty:has-text("None yet")');
    assert.equal(await page.evaluate(async (address) => (await fetch(address)).status, archive), 404);
    isClean(page);
  },

  'a list that is none is refused in words': async ({ browser, target }) => {
    const page = await open(browser, target, '#/lists');
    await page.fill('#list', 'path,what\n/a,1\n');
    await page.click('button:has-text("Cut it")');
    await page.waitForSelector('.notice-bad:has-text("says no part of an image")');
    await page.setInputFiles('input[type=file]', { name: 'list.csv', mimeType: 'text/csv', buffer: Buffer.from('ra,dec\n10,-30\n') });
    // The page reads the file after `setInputFiles` has returned.
    await until('the list from the file', async () => await page.inputValue('#list') === 'ra,dec\n10,-30\n');
    await until('no complaint about the list before', async () => await page.locator('.notice-bad').count() === 0);
    isClean(page);
  },

  'who is logged in has jobs that other browsers show too': async ({ browser, target }) => {
    const logIn = async () => {
      const page = await open(browser, target, '#/lists');
      await page.click('button:has-text("Log in")');
      await page.fill('input[name=user]', target.user);
      await page.fill('input[name=password]', target.password);
      await page.click('button:has-text("Log in")');
      await page.waitForSelector('.who .user');
      return page;
    };
    const page = await logIn();
    await page.goto(at(target, search));
    await page.locator('.part input[type=checkbox]').first().check();
    await page.click('button:has-text("Cut the 1 chosen into an archive")');
    await page.waitForSelector('.job-line:has-text("done") .results a');
    const elsewhere = await logIn();
    await elsewhere.waitForSelector('.job-line:has-text("done") .results a');
    await elsewhere.click('button:has-text("Log out")');
    await elsewhere.waitForSelector('.who button:has-text("Log in")');
    await elsewhere.waitForSelector('.empty:has-text("None yet")');
    isClean(page);
    isClean(elsewhere);
  },

  'the map of the sky counts images and leads to a search': async ({ browser, target }) => {
    const page = await open(browser, target, '#/coverage');
    await page.waitForSelector('p:has-text("3 images, in 2 of the sky"):has-text("1 file that cannot be read")');
    const map = page.locator('.sky canvas');
    await map.focus();
    // From 12 h and the equator to 202° +47°.
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Shift+ArrowLeft');
    for (const key of ['ArrowLeft', 'ArrowLeft', ...Array(47).fill('ArrowUp')]) await page.keyboard.press(key);
    await page.waitForSelector('.read-out:has-text("2 images")');
    await page.keyboard.press('Enter');
    await page.waitForSelector('h2:has-text("2 images at")');
    await page.goto(at(target, '#/coverage'));
    const box = await (await page.waitForSelector('.sky canvas')).boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await page.waitForSelector('.notice:has-text("No image has a part of this place")');
    isClean(page);
  },

  'without its server the portal says so': async ({ browser, target }) => {
    const page = await open(browser, target, '#/');
    await page.route('**/sia2/query**', (route) => route.abort('connectionreset'));
    await page.goto(at(target, search));
    await page.waitForSelector('.notice-bad:has-text("does not answer")');
    await page.unroute('**/sia2/query**');
    await page.click('button:has-text("Try again")');
    await page.waitForSelector('h2:has-text("2 images at")');
  },

  'axe finds nothing serious in the portal in light': axeIn('light', 'desk'),
  'axe finds nothing serious in the portal in dark': axeIn('dark', 'desk'),
  'axe finds nothing serious in the portal on a phone': axeIn('light', 'phone'),
};
