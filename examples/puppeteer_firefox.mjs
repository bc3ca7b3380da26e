// Puppeteer on a warm Firefox:  npm ci && node puppeteer_firefox.mjs [page]
// Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
import puppeteer from 'puppeteer-core';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY } = process.env;
const page_url = process.argv[2] ?? 'https://example.com/';

// Take a session: a browser that nobody has used before.
const reply = await fetch(`${WARMPOOL_URL}/sessions/create`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'service-secret-key': WARMPOOL_SECRET_KEY },
  body: JSON.stringify({ browser_type: 'firefox', headless: true }),
});
if (!reply.ok) throw new Error(await reply.text());
const session = await reply.json();

// Firefox speaks WebDriver BiDi, as the reply's `protocol` says. The rest is plain Puppeteer.
const browser = await puppeteer.connect({ browserWSEndpoint: session.websocket_url, protocol: 'webDriverBiDi' });
const page = await browser.newPage();
await page.goto(page_url);
console.log('title:', await page.title());

// Closing the browser ends the session.
await browser.close();
