// Playwright and Puppeteer give single browser contexts proxies of their own.
//   SESSION_WS=… SITE_URL=… HTTP_PROXY_URL=… SOCKS_PROXY_URL=… node context_proxies.mjs
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';

const { SESSION_WS, SITE_URL, HTTP_PROXY_URL, SOCKS_PROXY_URL } = process.env;

const playwright = await chromium.connectOverCDP(SESSION_WS);
const opened = async (options, path) => {
  const context = await playwright.newContext(options);
  const page = await context.newPage();
  const reply = await page.goto(`${SITE_URL}${path}`);
  return { context, page, status: reply?.status(), title: await page.title() };
};
const password = { username: 'playwright', password: 'word' };
const first = await opened({ proxy: { server: HTTP_PROXY_URL, ...password } }, '/tab/1');
assert.equal(first.title, 'Tab 1');
const second = await opened({ proxy: { server: SOCKS_PROXY_URL } }, '/tab/2');
assert.equal(second.title, 'Tab 2');
assert.equal((await opened({}, '/tab/3')).title, 'Tab 3');
const wrong = { proxy: { server: HTTP_PROXY_URL, username: 'playwright', password: 'other' } };
await assert.rejects(opened(wrong, '/tab/4'), /net::ERR_/);

// Hosts of the bypass list go the session's way: past a proxy that nobody can reach, and by the rules of the session.
const host = new URL(SITE_URL).hostname;
for (const server of ['http://nowhere.invalid', 'socks5://nowhere.invalid', 'https://nowhere.invalid']) {
  const past = await opened({ proxy: { server, bypass: `other.example, ${host}` } }, '/tab/8');
  assert.equal(past.title, 'Tab 8', server);
  const posted = await past.page.evaluate(() => fetch('/form', { method: 'POST', body: 'x'.repeat(1 << 16) }).then((reply) => reply.status, String));
  assert.equal(typeof posted, 'number', posted);
  await assert.rejects(past.page.goto('http://elsewhere.example/'), /net::ERR_/);
}
const denied = await opened({ proxy: { server: HTTP_PROXY_URL, ...password, bypass: '10.0.0.0/8' } }, '/tab/1');
assert.equal((await denied.page.goto('http://10.0.0.9/')).status(), 403);

// Loopback is the proxy's affair as well, and no port of the container.
const heard = await first.page.evaluate(() => fetch('http://127.0.0.1:1080/', { mode: 'no-cors' }).then(() => 'answered', () => 'failed'));
assert.equal(heard, 'failed');

// What the daemon refuses says so, and what is not there fails.
const refused = await opened({ proxy: { server: 'http://10.0.0.9:3128' } }, '/tab/5');
assert.equal(refused.status, 403);
assert.match(await refused.page.innerText('body'), /Refused by Warmpool[^]*egress\.allow/);
for (const server of ['http://nowhere.invalid', 'socks5://nowhere.invalid']) {
  await assert.rejects(opened({ proxy: { server } }, '/tab/6'), /net::ERR_/);
}

const browser = await puppeteer.connect({ browserWSEndpoint: SESSION_WS });
const context = await browser.createBrowserContext({ proxyServer: HTTP_PROXY_URL });
const page = await context.newPage();
await page.authenticate({ username: 'puppeteer', password: 'word' });
await page.goto(`${SITE_URL}/tab/7`);
assert.equal(await page.title(), 'Tab 7');
const past = await browser.createBrowserContext({ proxyServer: HTTP_PROXY_URL, proxyBypassList: [new URL(SITE_URL).host] });
const direct = await past.newPage();
await direct.goto(`${SITE_URL}/tab/9`);
assert.equal(await direct.title(), 'Tab 9');
// A list of proxies, and hosts that no proxy of it leads to.
const list = await browser.createBrowserContext({ proxyServer: `${HTTP_PROXY_URL},direct://` });
const listed = await list.newPage();
await listed.authenticate({ username: 'puppeteer', password: 'word' });
await listed.goto(`${SITE_URL}/tab/10`);
assert.equal(await listed.title(), 'Tab 10');
const none = await browser.createBrowserContext({ proxyServer: 'direct://,socks5://nowhere.invalid' });
const own = await none.newPage();
await own.goto(`${SITE_URL}/tab/11`);
assert.equal(await own.title(), 'Tab 11');
await own.goto('http://10.0.0.9/');
assert.match(await own.evaluate(() => document.body.innerText), /Refused by Warmpool/);
await browser.disconnect();
// It ends the session, as a client of its kind that hangs up does.
await playwright.close();
