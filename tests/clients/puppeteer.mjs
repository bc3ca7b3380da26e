// A long flow with Puppeteer: forms, popups, tabs, files, pictures, cookies, interception.
// FLOW=attach SESSION_WS=... only attaches again and reads what the earlier client left.

import assert from 'node:assert/strict';
import puppeteer from 'puppeteer-core';
import { tabs } from './pages.mjs';
import { Session, UPLOAD, UPLOAD_NAME, checkPdf, checkPng, run, sha256, until } from './session.mjs';

await run(async (settings) => {
  if (settings.flow === 'attach') return attach(settings);
  const { site } = settings;
  const session = await Session.create(settings, '', {
    url: `${site}/`,
    headless: settings.headless,
    session_timeout: 300,
  });
  const browser = await connect(settings, session.websocket_url);
  const results = { session_id: session.session_id, websocket_url: session.websocket_url };

  const [first] = await browser.pages();
  await until('the first tab to open the url', async () => (await first.title()) === 'Test site');

  const page = await browser.newPage();
  results.form = await form(page, site);
  await dialogs(page, site);
  await popup(browser, page, site);
  await tabs(browser, page, site);
  results.upload = await upload(session, page, site);
  results.download = await download(session, browser, site);
  await page.goto(`${site}/paint`);
  results.png = checkPng(await page.screenshot(), { width: 800, height: 600 });
  results.pdf = checkPdf(await page.pdf({ format: 'A4' }));
  await cookies(browser, page, site);
  results.console = await consoleEvents(page, site);
  await interception(browser, site);

  await page.goto(`${site}/form`);
  await page.evaluate(() => sessionStorage.setItem('left', 'here'));
  if (settings.end === 'close') await browser.close();
  else await browser.disconnect();
  return results;
});

function connect(settings, browserWSEndpoint) {
  const protocol = settings.browser === 'firefox' ? 'webDriverBiDi' : 'cdp';
  return puppeteer.connect({ browserWSEndpoint, protocol });
}

async function attach(settings) {
  const browser = await connect(settings, process.env.SESSION_WS);
  const pages = await browser.pages();
  const page = pages.find((page) => page.url() === `${settings.site}/form`);
  assert.ok(page, `the tab of the earlier client is open: ${pages.map((page) => page.url())}`);
  const left = await page.evaluate(() => sessionStorage.getItem('left'));
  if (settings.end === 'close') await browser.close();
  else await browser.disconnect();
  return { left };
}

async function form(page, site) {
  await page.goto(`${site}/form`);
  await page.type('#name', 'Ada Lovelace');
  await page.select('#colour', 'green');
  await page.click('#agree');
  await Promise.all([page.waitForNavigation(), page.click('#send')]);
  const echo = JSON.parse(await page.$eval('#echo', (node) => node.textContent));
  assert.deepEqual(echo, { name: 'Ada Lovelace', colour: 'green', agree: 'yes' });
  await page.goto(`${site}/button`);
  await page.click('#count');
  await page.click('#count');
  assert.equal(await page.$eval('#count', (node) => node.textContent), '2');
  return echo;
}

async function dialogs(page, site) {
  await page.goto(`${site}/dialogs`);
  page.once('dialog', (dialog) => dialog.accept());
  await page.click('#confirm');
  await page.waitForFunction(() => document.querySelector('#answer').textContent === 'true');
}

async function popup(browser, page, site) {
  await page.goto(`${site}/popup`);
  const [child] = await Promise.all([
    new Promise((opened) => page.once('popup', opened)),
    page.click('#open'),
  ]);
  // Puppeteer's own wait is lost where Firefox's popup leaves its blank page in that moment.
  await until('the popup has its page', () => child.$('#child').catch(() => null));
  assert.ok(await child.evaluate(() => window.opener !== null), 'the popup has its opener');
  await child.close();
}

async function upload(session, page, site) {
  const path = await session.putFile(UPLOAD_NAME, UPLOAD);
  await page.goto(`${site}/upload`);
  await (await page.$('#file')).uploadFile(path);
  await Promise.all([page.waitForNavigation(), page.click('#send')]);
  const echo = JSON.parse(await page.$eval('#echo', (node) => node.textContent));
  assert.deepEqual(echo, { name: UPLOAD_NAME, size: UPLOAD.length, sha256: sha256(UPLOAD) });
  return echo;
}

async function download(session, browser, site) {
  // In a tab of its own: with Firefox the client waits for ever for the navigation that comes after a download.
  const page = await browser.newPage();
  await page.goto(`${site}/downloads`);
  await page.click('#file');
  const hash = sha256(await session.download('file.bin'));
  assert.equal(hash, await page.$eval('#sha256', (node) => node.textContent));
  await page.close();
  return hash;
}

async function cookies(browser, page, site) {
  await page.goto(`${site}/cookies/set?flavour=oat`);
  const seen = await browser.cookies();
  assert.equal(seen.find((cookie) => cookie.name === 'flavour')?.value, 'oat');
  await browser.setCookie({ name: 'mine', value: 'set', domain: new URL(site).hostname });
  await page.goto(`${site}/cookies`);
  const sent = JSON.parse(await page.$eval('#echo', (node) => node.textContent));
  assert.deepEqual(sent, { flavour: 'oat', mine: 'set' });
}

async function consoleEvents(page, site) {
  const seen = [];
  page.on('console', (message) => seen.push([message.type(), message.text()]));
  page.on('pageerror', (error) => seen.push(['pageerror', error.message]));
  await page.goto(`${site}/console`);
  await until('the console', () => seen.length >= 4);
  assert.deepEqual(seen.slice(0, 3), [['log', 'plain 1'], ['warn', 'careful'], ['error', 'broken']]);
  // Firefox says what kind of error it was.
  assert.deepEqual([seen[3][0], seen[3][1].replace(/^Error: /, '')], ['pageerror', 'thrown on purpose']);
  return seen.length;
}

async function interception(browser, site) {
  const page = await browser.newPage();
  await page.setRequestInterception(true);
  page.on('request', (request) => {
    const path = new URL(request.url()).pathname;
    if (path === '/api/data') {
      request.respond({ contentType: 'application/json', body: '{"from":"client"}' });
    } else if (path === '/pixel.png') {
      request.abort();
    } else {
      request.continue();
    }
  });
  await page.goto(`${site}/fetch`);
  await page.waitForFunction(() => document.querySelector('#data').textContent !== '');
  assert.equal(await page.$eval('#data', (node) => node.textContent), 'client');
  assert.equal(await page.$eval('#pixel', (node) => node.textContent), 'blocked');
  await page.close();
}
