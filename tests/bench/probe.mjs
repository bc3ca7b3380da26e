// One of two probes that ask the same questions of the same browser, one through Warmpool and one directly at the browser.
// A process of its own, since it may have to be root's. It takes an order a line on standard
// input, JSON, and answers each with a line on standard output.

import { createInterface } from 'node:readline';
import { Api } from './api.mjs';
import { Cdp } from './cdp.mjs';
import { now, until } from './stats.mjs';

let cdp;
let driver;

const ORDERS = {
  /** Connects to a browser, told by its websocket or by its debugging port, and opens a page. */
  async browser({ websocket, debugging }) {
    const url = websocket ?? (await new Api(debugging).ok('GET', '/json/version')).webSocketDebuggerUrl;
    cdp = await Cdp.connect(url);
    await cdp.openPage();
  },
  /** Milliseconds of each of `count` commands, one after the other. */
  async roundTrips({ count }) {
    const times = [];
    for (let at = 0; at < count; at += 1) {
      const from = now();
      await cdp.evaluate('1');
      times.push(now() - from);
    }
    return times;
  },
  /** Megabytes a second of a result of `megabytes` MB. */
  async bulk({ megabytes }) {
    const from = now();
    const text = await cdp.evaluate(`'x'.repeat(${megabytes} * 1e6)`);
    const seconds = (now() - from) / 1000;
    if (text.length !== megabytes * 1e6) throw new Error(`${text.length} characters arrived`);
    return megabytes / seconds;
  },
  /** Milliseconds of each of `count` loads of a page, as the page itself has them. */
  async loads({ url, count }) {
    const times = [];
    for (let at = 0; at < count; at += 1) {
      times.push(await cdp.load(`${url}?${now()}`));
    }
    return times;
  },
  /** Megabytes a second of a download that the page reads and drops. */
  async download({ url, megabytes }) {
    await cdp.send('Page.navigate', { url: new URL('/', url).href }, cdp.page);
    const script = `(async () => {
      const from = performance.now();
      const reader = (await fetch(${JSON.stringify(url)})).body.getReader();
      let bytes = 0;
      for (let read = await reader.read(); !read.done; read = await reader.read()) bytes += read.value.length;
      return { bytes, ms: performance.now() - from };
    })()`;
    await until('the site', 20, () => cdp.evaluate(`location.href === ${JSON.stringify(new URL('/', url).href)} && document.readyState === 'complete'`), 5);
    const wanted = { expression: script, returnByValue: true, awaitPromise: true };
    const { bytes, ms } = (await cdp.send('Runtime.evaluate', wanted, cdp.page)).result.value;
    if (bytes !== megabytes * 1e6) throw new Error(`${bytes} bytes arrived`);
    return megabytes / (ms / 1000);
  },
  /** Opens a WebDriver session; answers how long that took and its id. */
  async newSession({ url, capabilities }) {
    driver = new Api(url.replace(/\/?$/, '/'));
    const from = now();
    const { value } = await driver.ok('POST', 'session', { capabilities: { alwaysMatch: capabilities } });
    return { ms: now() - from, id: value.sessionId };
  },
  /** Milliseconds of each of `count` commands in a session that exists. */
  async commands({ url, id, count }) {
    driver ??= new Api(url.replace(/\/?$/, '/'));
    const times = [];
    for (let at = 0; at < count; at += 1) {
      const from = now();
      const { value } = await driver.ok('POST', `session/${id}/execute/sync`, { script: 'return 1', args: [] });
      times.push(now() - from);
      if (value !== 1) throw new Error(`the script answered ${value}`);
    }
    return times;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { order, ...wanted } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await ORDERS[order](wanted)) ?? null };
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
