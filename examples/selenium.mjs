// Selenium for Node on a warm browser:  npm ci && node selenium.mjs [page]
// Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment; BROWSER_TYPE may be chromium, firefox or webkit.
import { Builder } from 'selenium-webdriver';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY, BROWSER_TYPE = 'chromium' } = process.env;
const NAMES = { chromium: 'chrome', firefox: 'firefox', webkit: 'MiniBrowser' };
const page_url = process.argv[2] ?? 'https://example.com/';

// Take a session: a browser that nobody has used before, with its driver attached.
const reply = await fetch(`${WARMPOOL_URL}/sessions/webdriver/create`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'service-secret-key': WARMPOOL_SECRET_KEY },
  body: JSON.stringify({ browser_type: BROWSER_TYPE, headless: true }),
});
if (!reply.ok) throw new Error(await reply.text());
const session = await reply.json();

// From here on it is plain Selenium.
const driver = await new Builder().usingServer(session.connect_url).forBrowser(NAMES[BROWSER_TYPE]).build();
try {
  await driver.get(page_url);
  console.log('title:', await driver.getTitle());
} finally {
  // Quitting the driver ends the session.
  await driver.quit();
}
