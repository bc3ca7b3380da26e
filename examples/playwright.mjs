// Playwright on a warm browser:  npm ci && node playwright.mjs [page]
// Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
import { chromium } from 'playwright-core';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY } = process.env;
const headers = { 'content-type': 'application/json', 'service-secret-key': WARMPOOL_SECRET_KEY };
const page_url = process.argv[2] ?? 'https://example.com/';

// Take a session: a browser that nobody has used before.
const body = JSON.stringify({ headless: true });
const reply = await fetch(`${WARMPOOL_URL}/sessions/create`, { method: 'POST', headers, body });
if (!reply.ok) throw new Error(await reply.text());
const session = await reply.json();

// From here on it is plain Playwright.
const browser = await chromium.connectOverCDP(session.websocket_url);
const page = await browser.newPage();
await page.goto(page_url);
console.log('title:', await page.title());
await page.screenshot({ path: 'playwright.png' });

// Closing the browser ends the session.
await browser.close();
