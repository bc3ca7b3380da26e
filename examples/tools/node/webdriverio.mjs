// WebdriverIO on Warmpool: node webdriverio.mjs PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
import { remote } from 'webdriverio';

const { protocol, hostname, port } = new URL(process.env.WARMPOOL_URL);
const browser = await remote({
  protocol: protocol.replace(':', ''),
  hostname,
  port: Number(port),
  path: '/',
  user: 'warmpool',
  key: process.env.WARMPOOL_SECRET_KEY,
  logLevel: 'error',
  capabilities: { browserName: 'chrome', 'goog:chromeOptions': { args: ['--headless'] } },
});
await browser.url(process.argv[2]);
console.log('title:', await browser.getTitle());
await browser.deleteSession();
