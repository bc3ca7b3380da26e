// chrome-remote-interface on `warmpool tunnel`: it knows a host and a port, and nothing of keys or sessions.
//   TUNNEL=http://127.0.0.1:9222 SITE_URL=… HEADED=… node tunnel.mjs
import assert from 'node:assert/strict';
import { request } from 'node:http';
import CDP from 'chrome-remote-interface';
import puppeteer from 'puppeteer-core';

const { TUNNEL, SITE_URL, HEADED } = process.env;
const { hostname: host, port } = new URL(TUNNEL);
const at = { host, port: Number(port) };

const version = await CDP.Version(at);
assert.match(version.Browser, /^Chrome\//);
assert.ok(version.webSocketDebuggerUrl.startsWith(`ws://${host}:${port}/devtools/browser/`), version.webSocketDebuggerUrl);
const protocol = await CDP.Protocol(at);
assert.ok(protocol.domains.some((domain) => domain.domain === 'Page'));
assert.equal((await CDP.List(at)).filter((target) => target.type === 'page').length, 1);

// A target made and closed over HTTP, and driven over its own websocket.
const target = await CDP.New({ ...at, url: `${SITE_URL}/tab/1` });
const client = await CDP({ ...at, target });
const { Page, Runtime } = client;
await Page.enable();
await Promise.all([Page.loadEventFired(), Page.navigate({ url: `${SITE_URL}/tab/2` })]);
const { result } = await Runtime.evaluate({ expression: 'document.title' });
assert.equal(result.value, 'Tab 2');
// Whoever reads the description meets the browser that it describes.
const agent = await Runtime.evaluate({ expression: 'navigator.userAgent' });
assert.equal(version['User-Agent'], agent.result.value);
assert.equal(agent.result.value.includes('HeadlessChrome'), !HEADED);
await client.close();
await CDP.Activate({ ...at, id: target.id });
await CDP.Close({ ...at, id: target.id });
await assert.rejects(CDP.Close({ ...at, id: 'nonsense' }));

// Methods in lower case, and callers that are none of this machine's programs.
const status = (method, path, headers = {}) =>
  new Promise((resolve, reject) => {
    const call = request({ host, port, method, path, headers, agent: false }, (reply) => {
      reply.resume();
      resolve(reply.statusCode);
    });
    call.on('error', reject).end();
  });
assert.equal(await status('get', '/json/version/'), 200);
assert.equal(await status('PUT', '/json/new?about:blank'), 200);
assert.equal(await status('GET', '/json/version', { host: 'evil.example' }), 403);
assert.equal(await status('GET', '/json/version', { origin: 'https://evil.example' }), 403);
// A picture on a page of the user's own browser sends no origin.
assert.equal(await status('PUT', '/json/new?about:blank', { 'sec-fetch-site': 'cross-site' }), 403);
assert.equal(await status('GET', '/json/version', { 'sec-fetch-site': 'same-site' }), 403);
assert.equal(await status('GET', '/json/new?about:blank'), 405);
assert.equal(await status('GET', '/nowhere'), 404);

// The whole browser, which ends the session and with it the tunnel.
const browser = await puppeteer.connect({ browserURL: TUNNEL });
const page = await browser.newPage();
await page.goto(`${SITE_URL}/`);
console.log('title:', await page.title());
await browser.close();
