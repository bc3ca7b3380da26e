// A page by one request: `POST /screenshot` beside the same picture from a browser that runs already, and beside browserless.

import http from 'node:http';
import puppeteer from 'puppeteer-core';
import { chromium, sandboxArgs } from '../contenders/local.mjs';
import { rotated, summary, timed } from '../stats.mjs';
import { goal } from '../table.mjs';

const DISCARDED = 2;
const AT_ONCE = 16;
const VIEWPORT = { width: 1280, height: 720 };
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47]);

export async function calls({ daemon, peer, site, rounds, table, progress }) {
  const body = { url: site, viewport: VIEWPORT, options: { type: 'png' } };
  const ours = () => picture(`${daemon.url}/screenshot`, body, { 'service-secret-key': daemon.key });
  const contenders = [['warmpool', ours]];
  const running = chromium && (await puppeteer.launch({ executablePath: chromium, headless: true, args: sandboxArgs }));
  try {
    if (running) contenders.push(['a running browser', () => ofRunning(running, site)]);
    if (peer) contenders.push(['browserless', () => picture(peer.call('screenshot'), body)]);
    const times = new Map(contenders.map(([name]) => [name, []]));
    for (let round = -DISCARDED; round < rounds; round += 1) {
      for (const [name, take] of rotated(contenders, round + DISCARDED)) {
        await daemon.full();
        const [ms, bytes] = await timed(take);
        check(name, bytes);
        if (round >= 0) times.get(name).push(ms);
      }
      if (round >= 0) progress(`picture ${round + 1} of ${rounds}`);
    }
    const of = (name) => ({ name, ...summary(times.get(name)) });
    const line = { measure: 'POST /screenshot of a local page', unit: 'ms', ...summary(times.get('warmpool')) };
    if (running) table.add({ ...line, against: of('a running browser'), goal: goal.atMost(1.2) });
    if (peer) table.add({ ...line, against: of('browserless'), goal: goal.atMost(0.4) });
    if (contenders.length === 1) table.add(line);
  } finally {
    await running?.close();
  }
  await daemon.full();
  const [ms, results] = await timed(() => Promise.allSettled(Array.from({ length: AT_ONCE }, ours)));
  const failed = results.filter((result) => result.status === 'rejected');
  table.add({ measure: `${AT_ONCE} pictures at once, on a pool of four: all of them`, unit: 'ms', p50: ms });
  table.add({ measure: `${AT_ONCE} pictures at once: errors`, unit: '', p50: failed.length, goal: goal.p50(0) });
  if (failed.length > 0) table.note(`calls: ${failed[0].reason.message}`);
}

/** The same by Puppeteer, in a context of its own as each call has. */
async function ofRunning(browser, url) {
  const context = await browser.createBrowserContext();
  try {
    const page = await context.newPage();
    await page.setViewport(VIEWPORT);
    await page.goto(url);
    return Buffer.from(await page.screenshot({ type: 'png' }));
  } finally {
    await context.close();
  }
}

/** Sends a call; answers the bytes of its answer. */
function picture(url, body, headers = {}) {
  const payload = Buffer.from(JSON.stringify(body));
  const options = { method: 'POST', headers: { ...headers, 'content-type': 'application/json', 'content-length': payload.length } };
  return new Promise((resolve, reject) => {
    const request = http.request(url, options, (reply) => {
      const parts = [];
      reply.on('data', (part) => parts.push(part));
      reply.on('error', reject);
      reply.on('end', () => {
        const bytes = Buffer.concat(parts);
        if (reply.statusCode === 200) resolve(bytes);
        else reject(new Error(`${new URL(url).pathname}: ${reply.statusCode} ${bytes.subarray(0, 200)}`));
      });
    });
    request.on('error', reject);
    request.end(payload);
  });
}

function check(name, bytes) {
  if (!bytes.subarray(0, PNG.length).equals(PNG)) throw new Error(`${name} gave no picture`);
}
