// One browser and one page for a test, and what a page must never do: break its policy or throw.
// It never knows which server answers.
import { chromium } from 'playwright-core';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: FLAGS });

export const SIZES = { desk: { width: 1360, height: 860 }, phone: { width: 390, height: 844 } };

/** A page whose complaints are kept: script errors, breaches of the policy, requests to anybody else. */
export async function newPage(browser, base, { size = 'desk', theme = 'light', ...more } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: theme, hasTouch: size === 'phone', acceptDownloads: true, ...more });
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    if (/Content Security Policy|Refused to/i.test(text)) complaints.push(`policy: ${text}`);
  });
  page.on('request', (request) => { if (!request.url().startsWith(base) && !/^(data|blob):/.test(request.url())) complaints.push(`outside: ${request.url()}`); });
  page.complaints = complaints;
  return page;
}

/** Cookies of those who have logged in. */
const cookies = new Map();

/**
 * A page of someone who is logged in. One session serves all tests, unless a test has ended it: a user has 32 at most,
 * and each one that gives way takes the tickets of what the user just reads and writes along.
 */
export async function login(page, base, user, password, at = '#/') {
  const key = `${base} ${user} ${password}`;
  if (cookies.has(key)) await page.context().addCookies(cookies.get(key));
  await page.goto(`${base}/${at}`);
  await page.waitForSelector('input[name=user], header.top');
  if (await page.locator('input[name=user]').count()) {
    await page.fill('input[name=user]', user);
    await page.fill('input[name=password]', password);
    await page.click('button:has-text("Log in")');
  }
  await page.waitForSelector('header.top');
  cookies.set(key, await page.context().cookies());
}
