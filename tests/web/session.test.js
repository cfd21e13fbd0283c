// Login, logout, and a session that ends.
import assert from 'node:assert/strict';
import { login, newPage } from './browser.js';
import { answer, go, unroute, until } from './kit.js';

export const tests = {
  async 'a wrong password is refused in words, a right one enters'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await go(page, target.base, '#/');
    await page.fill('input[name=user]', target.user);
    await page.fill('input[name=password]', 'certainly wrong');
    await page.click('button:has-text("Log in") >> nth=0');
    await page.waitForSelector('.notice-bad');
    assert.equal(await page.inputValue('input[name=password]'), '');
    await login(page, target.base, target.user, target.password);
    await page.waitForSelector('.health-sentence');
    assert.deepEqual(page.complaints, []);
  },

  async 'a session that ends brings the login page and then the same place'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password, '#/jobs?state=done');
    await page.waitForSelector('h1:has-text("Jobs")');
    await page.context().clearCookies();
    await page.waitForSelector('input[name=password]', { timeout: 15000 });
    assert.match(await page.textContent('main'), /session has ended/i);
    await page.fill('input[name=user]', target.user);
    await page.fill('input[name=password]', target.password);
    await page.click('button.strong');
    await page.waitForSelector('h1:has-text("Jobs")');
    assert.match(page.url(), /#\/jobs\?state=done$/);
  },

  async 'logging out forgets the session'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await login(page, target.base, target.user, target.password);
    await page.click('button:has-text("Log out")');
    await page.waitForSelector('input[name=password]');
    await page.reload();
    await page.waitForSelector('input[name=password]');
  },

  async 'a browser login waits for the provider and opens no address that could be a script'({ browser, target }) {
    const page = await newPage(browser, target.base);
    await answer(page, '/login/browser', 200, { id: 'x', url: 'javascript:window.hacked=1', user_code: 'AB' });
    await go(page, target.base, '#/');
    await page.click('button:has-text("Log in with the browser")');
    await page.waitForSelector('.notice-bad:has-text("no web address")');
    await unroute(page, '/login/browser');
    let polls = 0;
    await answer(page, '/login/browser', 200, { id: 'x', url: `${target.base}/favicon.svg`, user_code: 'WDJB-MJHT' });
    await page.route('**/api/v1/login/browser/x', (route) => { polls += 1; return polls < 2 ? route.fulfill({ status: 202, contentType: 'application/json', body: '{"state":"waiting"}' }) : route.fulfill({ status: 200, contentType: 'application/json', body: JSON.stringify({ user: 'carol', groups: [], admin: false, cloud: 'c:1', version: '0.1.0', read_only: true }) }); });
    await page.click('button:has-text("Log in with the browser")');
    await page.waitForSelector('.code:has-text("WDJB-MJHT")');
    await page.waitForSelector('header:has-text("carol")', { timeout: 8000 });
    await until('the poll', () => polls >= 2);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
  },
};
