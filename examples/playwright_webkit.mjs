// Playwright on a warm WebKit:  npm ci && node playwright_webkit.mjs [page]
// Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment, and Playwright 1.62 or newer.
import { webkit } from 'playwright-core';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY } = process.env;
const page_url = process.argv[2] ?? 'https://example.com/';

// Take a session: a browser that nobody has used before.
const reply = await fetch(`${WARMPOOL_URL}/sessions/create`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'service-secret-key': WARMPOOL_SECRET_KEY },
  body: JSON.stringify({ browser_type: 'webkit' }),
});
if (!reply.ok) throw new Error(await reply.text());
const session = await reply.json();

// From here on it is plain Playwright; the headers tell the server for which session it asks.
const browser = await webkit.connectOverCDP(session.websocket_url, { headers: session.connect_headers });
// For this client WebKit opens no further pages: use the one that is there.
const [page] = browser.contexts()[0].pages();
await page.goto(page_url);
console.log('title:', await page.title());

// Closing the browser ends the session.
await browser.close();
