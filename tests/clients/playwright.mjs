// The same flow with Playwright, attached over CDP.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { form, tabs } from './pages.mjs';
import { Session, UPLOAD, UPLOAD_NAME, checkPdf, checkPng, run, sha256, until } from './session.mjs';

await run(async (settings) => {
  const { site } = settings;
  const session = await Session.create(settings, '', {
    url: `${site}/`,
    headless: settings.headless,
    session_timeout: 300,
  });
  const browser = await chromium.connectOverCDP(session.websocket_url);
  const results = { session_id: session.session_id, websocket_url: session.websocket_url };

  const shared = browser.contexts()[0];
  await until('the first tab to open the url', async () => (await shared.pages()[0].title()) === 'Test site');

  const context = await browser.newContext({ viewport: { width: 900, height: 500 } });
  const page = await context.newPage();
  results.form = await formAndButton(page, site);
  await history(page, site);
  await unreachable(context);
  await dialogs(page, site);
  await popup(page, site);
  await tabs(context, page, site);
  results.upload = await upload(session, context, page, site);
  results.download = await download(session, page, site);
  await page.goto(`${site}/paint`);
  results.png = checkPng(await page.screenshot(), { width: 900, height: 500 });
  results.pdf = checkPdf(await page.pdf({ format: 'A4' }));
  await cookies(context, page, site);
  results.console = await consoleEvents(page, site);
  await interception(context, site);
  await context.close();

  // For this client `close` only closes the websocket: the session ends with its reconnect window.
  await browser.close();
  return results;
});

async function formAndButton(page, site) {
  const echo = await form(page, site);
  await page.goto(`${site}/button`);
  await page.click('#count');
  await page.click('#count');
  assert.equal(await page.textContent('#count'), '2');
  return echo;
}

async function history(page, site) {
  await page.goto(`${site}/tab/1`);
  await page.goto(`${site}/tab/2`);
  await page.goBack();
  assert.equal(await page.title(), 'Tab 1', 'going back works');
}

/** A tab of its own: its error page may come while a next one is asked for. */
async function unreachable(context) {
  const page = await context.newPage();
  await assert.rejects(page.goto('http://no-such-host.invalid/'), /net::ERR_NAME_NOT_RESOLVED/);
  await page.close();
}

async function dialogs(page, site) {
  await page.goto(`${site}/dialogs`);
  page.once('dialog', (dialog) => dialog.dismiss());
  await page.click('#confirm');
  await page.waitForFunction(() => document.querySelector('#answer').textContent === 'false');
}

async function popup(page, site) {
  await page.goto(`${site}/popup`);
  const [child] = await Promise.all([page.waitForEvent('popup'), page.click('#open')]);
  await child.waitForSelector('#child');
  assert.ok(await child.evaluate(() => window.opener !== null), 'the popup has its opener');
  await child.close();
}

async function upload(session, context, page, site) {
  const expected = { name: UPLOAD_NAME, size: UPLOAD.length, sha256: sha256(UPLOAD) };
  // From memory: this client sends the bytes over the websocket.
  await page.goto(`${site}/upload`);
  await page.setInputFiles('#file', { name: UPLOAD_NAME, mimeType: 'text/plain', buffer: UPLOAD });
  await page.click('#send');
  assert.deepEqual(JSON.parse(await page.textContent('#echo')), expected);
  // From the browser's own disk: the client would look for the path on its side, so by CDP.
  const path = await session.putFile(UPLOAD_NAME, UPLOAD);
  await page.goto(`${site}/upload`);
  const cdp = await context.newCDPSession(page);
  const { root } = await cdp.send('DOM.getDocument');
  const { nodeId } = await cdp.send('DOM.querySelector', { nodeId: root.nodeId, selector: '#file' });
  await cdp.send('DOM.setFileInputFiles', { nodeId, files: [path] });
  await page.click('#send');
  const echo = JSON.parse(await page.textContent('#echo'));
  assert.deepEqual(echo, expected);
  return echo;
}

async function download(session, page, site) {
  await page.goto(`${site}/downloads`);
  const [started] = await Promise.all([page.waitForEvent('download'), page.click('#file')]);
  assert.equal(started.suggestedFilename(), 'file.bin');
  const hash = sha256(await session.download('file.bin'));
  assert.equal(hash, await page.textContent('#sha256'));
  return hash;
}

async function cookies(context, page, site) {
  await page.goto(`${site}/cookies/set?flavour=oat`);
  const seen = await context.cookies();
  assert.equal(seen.find((cookie) => cookie.name === 'flavour')?.value, 'oat');
  await context.addCookies([{ name: 'mine', value: 'set', url: site }]);
  await page.goto(`${site}/cookies`);
  assert.deepEqual(JSON.parse(await page.textContent('#echo')), { flavour: 'oat', mine: 'set' });
}

async function consoleEvents(page, site) {
  const seen = [];
  page.on('console', (message) => seen.push([message.type(), message.text()]));
  page.on('pageerror', (error) => seen.push(['pageerror', error.message]));
  await page.goto(`${site}/console`);
  await until('the console', () => seen.length >= 4);
  assert.deepEqual(seen.slice(0, 3), [['log', 'plain 1'], ['warning', 'careful'], ['error', 'broken']]);
  assert.deepEqual(seen[3], ['pageerror', 'thrown on purpose']);
  return seen.length;
}

async function interception(context, site) {
  await context.route('**/api/data', (route) => route.fulfill({ json: { from: 'client' } }));
  await context.route('**/pixel.png', (route) => route.abort());
  const page = await context.newPage();
  await page.goto(`${site}/fetch`);
  await page.waitForFunction(() => document.querySelector('#data').textContent !== '');
  assert.equal(await page.textContent('#data'), 'client');
  assert.equal(await page.textContent('#pixel'), 'blocked');
  await page.close();
}
