// Clients of other services, which get Warmpool's URL and nothing else. FLOW names the client.

import assert from 'node:assert/strict';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, firefox as playwrightFirefox, webkit } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { Builder, By, Capabilities } from 'selenium-webdriver';
import chrome from 'selenium-webdriver/chrome.js';
import firefox from 'selenium-webdriver/firefox.js';
import { run, sha256, until } from './session.mjs';

const flows = {
  selenium,
  seleniumDownloads,
  playwrightOnGrid,
  playwrightByUrl,
  playwrightByHeader,
  puppeteerBySocket,
  puppeteerOnFirefox,
  playwrightConnect,
  puppeteerByUrl,
  puppeteerLaunch,
};

await run((settings) => {
  const address = new URL(settings.base);
  const socket = new URL(settings.base.replace(/^http/, 'ws'));
  return flows[process.env.FLOW]({ ...settings, address, socket });
});

/** The sessions of this key that live now. */
async function live({ base, key }) {
  const reply = await fetch(`${base}/sessions?status=running&limit=100`, { headers: { 'service-secret-key': key } });
  return (await reply.json()).sessions;
}

async function onlyLive(settings) {
  const sessions = await live(settings);
  assert.equal(sessions.length, 1, 'one session lives');
  return sessions[0];
}

/** `http://KEY@host:port` and the grid's path. */
function grid({ address, key }) {
  const url = new URL(address);
  url.username = key;
  return url.href.replace(/\/$/, '') + (process.env.GRID_PATH ?? '');
}

async function selenium(settings) {
  const browser = process.env.BROWSER ?? 'chrome';
  const driver = await new Builder()
    .usingServer(grid(settings))
    .forBrowser(browser)
    .setChromeOptions(new chrome.Options().addArguments('--headless=new', '--no-sandbox'))
    .setFirefoxOptions(new firefox.Options().addArguments('-headless'))
    .build();
  const session = await onlyLive(settings);
  assert.equal(session.kind, 'webdriver');
  // WebKit's clients have no option for it.
  assert.equal(session.headless, browser !== 'MiniBrowser', 'the switch for headless is understood');
  const found = await driver.getCapabilities();
  assert.equal(found.get('warmpool:options').session_id, session.session_id);
  await driver.get(`${settings.site}/form`);
  await driver.findElement(By.id('name')).sendKeys('Grace');
  assert.equal(await driver.findElement(By.id('name')).getAttribute('value'), 'Grace');
  if (found.get('se:cdp')) {
    const cdp = await driver.createCDPConnection('page');
    const version = await cdp.send('Browser.getVersion', {});
    assert.ok(version.result.product.includes('Chrome'), 'DevTools beside WebDriver');
  }
  await driver.quit();
  return { session_id: session.session_id };
}

async function seleniumDownloads(settings) {
  const capabilities = Capabilities.chrome();
  capabilities.set('se:downloadsEnabled', true);
  const driver = await new Builder().usingServer(grid(settings)).withCapabilities(capabilities).build();
  const { session_id } = await onlyLive(settings);
  assert.deepEqual(await driver.getDownloadableFiles(), []);
  await driver.get(`${settings.site}/downloads`);
  await driver.findElement(By.id('file')).click();
  await until('the download', async () => (await driver.getDownloadableFiles()).includes('file.bin'));
  const folder = await mkdtemp(join(tmpdir(), 'downloads-'));
  await driver.downloadFile('file.bin', folder);
  const wanted = await driver.findElement(By.id('sha256')).getText();
  await until('the file is unpacked', async () => {
    const bytes = await readFile(join(folder, 'file.bin')).catch(() => Buffer.alloc(0));
    return sha256(bytes) === wanted;
  });
  await driver.deleteDownloadableFiles();
  assert.deepEqual(await driver.getDownloadableFiles(), []);
  await driver.quit();
  return { session_id };
}

async function usePlaywright(settings, browser) {
  const session = await onlyLive(settings);
  const page = await browser.newPage();
  await page.goto(`${settings.site}/form`);
  await page.fill('#name', 'Grace');
  assert.equal(await page.inputValue('#name'), 'Grace');
  await browser.close();
  return { session_id: session.session_id, headless: session.headless };
}

/** SELENIUM_REMOTE_URL is in the environment: Playwright's own launch goes to the grid. */
async function playwrightOnGrid(settings) {
  return usePlaywright(settings, await chromium.launch({ headless: true }));
}

async function playwrightByUrl(settings) {
  const url = new URL(settings.address);
  url.searchParams.set('token', settings.key);
  const before = (await live(settings)).length;
  assert.equal((await fetch(new URL(`/json/version?token=${settings.key}`, url))).status, 200);
  assert.equal((await live(settings)).length, before, 'asking for the version makes no session');
  return usePlaywright(settings, await chromium.connectOverCDP(url.href));
}

async function playwrightByHeader(settings) {
  const headers = { 'service-secret-key': settings.key };
  return usePlaywright(settings, await chromium.connectOverCDP(settings.address.href, { headers }));
}

async function usePuppeteer(settings, browser) {
  const session = await onlyLive(settings);
  const page = await browser.newPage();
  await page.goto(`${settings.site}/form`);
  await page.type('#name', 'Grace');
  assert.equal(await page.$eval('#name', (node) => node.value), 'Grace');
  if (settings.end === 'close') await browser.close();
  else await browser.disconnect();
  return { session_id: session.session_id };
}

async function puppeteerBySocket(settings) {
  const endpoint = new URL(settings.socket);
  endpoint.searchParams.set('token', settings.key);
  return usePuppeteer(settings, await puppeteer.connect({ browserWSEndpoint: endpoint.href }));
}

/** Firefox has no DevTools: Puppeteer speaks WebDriver BiDi with it. */
async function puppeteerOnFirefox(settings) {
  const endpoint = new URL('/firefox', settings.socket);
  endpoint.searchParams.set('token', settings.key);
  const browserWSEndpoint = endpoint.href;
  return usePuppeteer(settings, await puppeteer.connect({ browserWSEndpoint, protocol: 'webDriverBiDi' }));
}

/** Warmpool is no server of Playwright's own protocol: its `connect` fails at once with a message that says so. */
async function playwrightConnect(settings) {
  for (const [type, path] of [[playwrightFirefox, '/firefox'], [playwrightFirefox, '/firefox/playwright'], [webkit, '/webkit']]) {
    const endpoint = new URL(path, settings.socket);
    endpoint.searchParams.set('token', settings.key);
    await assert.rejects(type.connect(endpoint.href, { timeout: 20_000 }), /Playwright's own protocol, which is not served/, path);
  }
  assert.deepEqual(await live(settings), [], 'nothing was spent on it');
  return {};
}

async function puppeteerByUrl(settings) {
  const url = new URL(settings.address);
  url.searchParams.set('token', settings.key);
  return usePuppeteer(settings, await puppeteer.connect({ browserURL: url.href }));
}

async function puppeteerLaunch(settings) {
  const endpoint = new URL('/chromium', settings.socket);
  const launch = { headless: false, args: ['--window-size=1024,640', '--lang=de-DE', '--user-agent=Old/1', '--no-sandbox'] };
  endpoint.search = new URLSearchParams({
    token: settings.key,
    timeout: '120000',
    trackingId: 'job-7',
    launch: Buffer.from(JSON.stringify(launch)).toString('base64'),
  });
  const browser = await puppeteer.connect({ browserWSEndpoint: endpoint.href, defaultViewport: null });
  const session = await onlyLive(settings);
  assert.deepEqual(
    [session.headless, session.session_timeout, session.app_name, session.browser_type],
    [false, 120, 'job-7', 'chromium'],
  );
  const page = await browser.newPage();
  await page.goto(`${settings.site}/form`);
  const seen = await page.evaluate(() => [navigator.userAgent, navigator.language, innerWidth, innerHeight]);
  assert.deepEqual(seen, ['Old/1', 'de-DE', 1024, 640]);
  await browser.close();
  return { session_id: session.session_id };
}
