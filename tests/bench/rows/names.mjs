// What pages that ask for names for which nobody answers cost the other sessions: the first connection to a host, beside
// such pages and beside none.

import { Cdp } from '../cdp.mjs';
import { Daemon } from '../daemon.mjs';
import { gateway } from '../docker.mjs';
import { serveNames, SILENT } from '../nameserver.mjs';
import { serveSite } from '../site.mjs';
import { pause, summary } from '../stats.mjs';
import { goal } from '../table.mjs';

const GREEDY = 6;
/** Time for the greedy pages to have asked for as much as they can, in milliseconds. */
const BEFORE = 10_000;
/** A page that has given up, in milliseconds. */
const GIVEN_UP = 60_000;

export async function names({ binary, image, network, rounds, quick, table, progress }) {
  const address = await gateway(network);
  const server = await serveNames(address);
  const settings = {
    ...{ POOL_CHROMIUM_HEADLESS: 1, POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 },
    ...{ POOL_MAX_WORKERS: GREEDY + 2, WORKER_CHROMIUM_IMAGE: image },
  };
  let daemon;
  let site;
  try {
    daemon = await Daemon.start(binary, settings, undefined, undefined, server.inside);
    site = await serveSite(address);
    const port = new URL(site.url).port;
    const page = await open(daemon);
    let last = 0;
    const connections = async (count) => {
      const times = [];
      for (let at = 0; at < count; at += 1) times.push(await fetched(page, `http://host-${(last += 1)}.test:${port}/`));
      return times;
    };
    await connections(3);
    const alone = await connections(rounds);
    progress('beside none done');
    const greedy = [];
    for (let at = 0; at < GREEDY; at += 1) greedy.push(await open(daemon));
    for (const [at, other] of greedy.entries()) await other.evaluate(asking(at));
    await pause(BEFORE);
    const beside = await connections(quick ? 5 : rounds);
    table.add({
      ...{ measure: `first connection to a host, beside ${GREEDY} pages that ask for names without an answer`, unit: 'ms' },
      ...{ ...summary(beside), against: { name: 'beside none', ...summary(alone) }, goal: goal.both(100, 1000) },
    });
    const lost = beside.filter((time) => time >= GIVEN_UP).length;
    if (lost > 0) table.note(`names: ${lost} of ${beside.length} connections failed, or took longer than a minute`);
    for (const other of [page, ...greedy]) other.close();
  } finally {
    site?.close();
    await daemon?.stop();
    await server.close();
  }
}

/** The page of a new session. */
async function open(daemon) {
  const session = await daemon.create({ headless: true });
  await daemon.full();
  const page = await Cdp.connect(session.websocket_url);
  await page.openPage();
  return page;
}

/** Milliseconds that a request took; all of them where it failed. */
async function fetched(page, url) {
  const expression = `(async () => {
    const from = performance.now();
    const answer = fetch('${url}', { mode: 'no-cors', cache: 'no-store', signal: AbortSignal.timeout(${GIVEN_UP}) });
    return answer.then(() => performance.now() - from, () => ${GIVEN_UP});
  })()`;
  const { result } = await page.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true }, page.page);
  return result.value;
}

/** A browser holds few connections at once, so a page that wants more of them gives each up soon. */
const asking = (page) => `let asked = 0;
  setInterval(() => {
    for (let at = 0; at < 10; at += 1) {
      const gone = AbortSignal.timeout(300);
      fetch('http://' + (asked += 1) + '-${page}.${SILENT}/', { mode: 'no-cors', signal: gone }).catch(() => {});
    }
  }, 100); 0`;
