// Puppeteer on a warm browser:  npm ci && node puppeteer.mjs [page]
// Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
import puppeteer from 'puppeteer-core';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY } = process.env;
const page_url = process.argv[2] ?? 'https://example.com/';

// Take a session: a browser that nobody has used before.
const reply = await fetch(`${WARMPOOL_URL}/sessions/create`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'service-secret-key': WARMPOOL_SECRET_KEY },
  body: JSON.stringify({ headless: true }),
});
if (!reply.ok) throw new Error(await reply.text());
const session = await reply.json();

// From here on it is plain Puppeteer.
const browser = await puppeteer.connect({ browserWSEndpoint: session.websocket_url });
const page = await browser.newPage();
await page.goto(page_url);
console.log('title:', await page.title());
await page.screenshot({ path: 'puppeteer.png' });

// Closing the browser ends the session; `browser.disconnect()` would leave it for a while.
await browser.close();
