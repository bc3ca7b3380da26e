// TestCafe on Warmpool: node testcafe.mjs PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
// The browser comes to TestCafe's own server, which serves the pages: `egress.allow` has to name it.
import createTestCafe from 'testcafe';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY, TESTCAFE_HOST = '127.0.0.1' } = process.env;
process.env.PAGE = process.argv[2];
const headers = { 'content-type': 'application/json', 'service-secret-key': WARMPOOL_SECRET_KEY };
const testcafe = await createTestCafe(TESTCAFE_HOST);
const browser = await testcafe.createBrowserConnection();
const body = JSON.stringify({ headless: true, url: browser.url });
const reply = await fetch(`${WARMPOOL_URL}/sessions/create`, { method: 'POST', headers, body });
if (!reply.ok) throw new Error(await reply.text());
const { session_id } = await reply.json();
await new Promise((resolve) => browser.once('ready', resolve));
const failed = await testcafe.createRunner().src(new URL('testcafe/title.js', import.meta.url).pathname).browsers(browser).run();
await fetch(`${WARMPOOL_URL}/sessions/${session_id}`, { method: 'DELETE', headers });
await testcafe.close();
process.exit(failed);
