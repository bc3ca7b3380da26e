// A client of Playwright's own protocol, unmodified, of the version that CLIENT names.
//   CLIENT=playwright-1.63 ENDPOINT=ws://… SITE_URL=… HTTP_PROXY_URL=… node connect.mjs
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFile, writeFile } from 'node:fs/promises';

const { CLIENT, ENDPOINT, SITE_URL, HTTP_PROXY_URL } = process.env;
const { chromium } = createRequire(import.meta.url)(CLIENT);

const browser = await chromium.connect(ENDPOINT, { timeout: 60_000 });
assert.equal(browser.browserType().name(), 'chromium');
assert.equal(browser.contexts().length, 0, 'as after a launch');
const context = await browser.newContext({ viewport: { width: 640, height: 400 }, locale: 'de-DE' });
const page = await context.newPage();

// Paths are the client's own, both ways.
await writeFile('note.txt', 'by Playwright');
await page.goto(`${SITE_URL}/upload`);
await page.setInputFiles('#file', 'note.txt');
await page.click('#send');
const echo = JSON.parse(await page.textContent('#echo'));
assert.deepEqual([echo.name, echo.size], ['note.txt', 13]);
await page.goto(`${SITE_URL}/downloads`);
const [download] = await Promise.all([page.waitForEvent('download'), page.click('#file')]);
await download.saveAs('saved.bin');
assert.ok((await readFile('saved.bin')).length > 0);

await page.goto(`${SITE_URL}/tab/1`);
assert.equal(await page.evaluate(() => navigator.language), 'de-DE');
const png = await page.screenshot();
assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [640, 400]);
await page.goBack();
await page.goForward();
assert.equal(await page.title(), 'Tab 1');

// What Playwright asks for without a page goes the same way out.
const reply = await context.request.get(`${SITE_URL}/tab/2`);
assert.ok((await reply.text()).includes('Tab 2'));
await assert.rejects(page.goto('file:///etc/passwd'), /net::ERR_|blocked/i);

// A context's own proxy counts for more than the launch's.
if (HTTP_PROXY_URL) {
  const own = await browser.newContext({ proxy: { server: HTTP_PROXY_URL, username: 'context', password: 'word' } });
  const other = await own.newPage();
  await other.goto(`${SITE_URL}/tab/3`);
  assert.equal(await other.title(), 'Tab 3');
}
await browser.close();
console.log(JSON.stringify({ version: browser.version() }));
