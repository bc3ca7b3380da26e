// The live view: how soon an input is seen, how many pictures and bytes a second, and what viewers cost others.

import { chromium as playwright } from 'playwright-core';
import WebSocket from 'ws';
import { Cdp } from '../cdp.mjs';
import { percentOfCore } from '../cgroup.mjs';
import { chromium } from '../contenders/local.mjs';
import { mainProcess } from '../docker.mjs';
import { pause, summary, timed, until } from '../stats.mjs';
import { goal } from '../table.mjs';

const VIEWPORT = { width: 1280, height: 720 };
const VIEWERS = 20;

export async function live({ daemon, quick, table, progress }) {
  if (!chromium) return table.note('no live view: there is no Chromium on this machine to watch with');
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const browser = await playwright.launch({ executablePath: chromium, args });
  try {
    for (const headless of [false, true]) {
      await daemon.full();
      await inputs({ browser, daemon, headless, quick, table });
      await pictures({ browser, daemon, headless, quick, table });
      progress(headless ? 'headless done' : 'headed done');
    }
  } finally {
    await browser.close();
  }
  await bystander({ daemon, quick, table });
  for (const headless of [false, true]) await afterwards({ daemon, headless, quick, table });
  await crowd({ daemon, quick, table });
}

const mode = (headless) => (headless ? 'headless' : 'headed');
const site = (daemon, page) => new URL(page, daemon.site).href;

/** A session on a page, and somebody who watches it. */
async function watched({ browser, daemon, headless, page }, work) {
  const settings = { viewport: VIEWPORT };
  const session = await daemon.create({ headless, url: site(daemon, page), settings });
  const viewer = await browser.newPage({ viewport: { width: 1320, height: 900 } });
  await viewer.addInitScript(() => {
    window.bytes = 0;
    const Native = window.WebSocket;
    window.WebSocket = class extends Native {
      constructor(...given) {
        super(...given);
        this.addEventListener('message', ({ data }) => (window.bytes += data.byteLength ?? data.length));
      }
    };
  });
  try {
    await daemon.full();
    await viewer.goto(`${session.livestream_url}&enable_actions=true`);
    await viewer.waitForSelector('#stage[data-picture=true]', { timeout: 30_000 });
    // In the middle of the lower half there is nothing but page, whatever the browser has above it.
    await viewer.evaluate(() => {
      window.look = () => {
        const canvas = document.querySelector('#screen canvas');
        const [r, g, b] = canvas.getContext('2d').getImageData(canvas.width / 2, Math.floor(canvas.height * 0.75), 1, 1).data;
        return (r << 16) | (g << 8) | b;
      };
    });
    await pause(1000);
    return await work(viewer);
  } finally {
    await viewer.close();
    await daemon.end(session);
  }
}

/** From the press of a button in the viewer's browser to another colour on their screen. */
async function inputs({ quick, table, ...where }) {
  const samples = await watched({ ...where, page: '/turn' }, async (viewer) => {
    const box = await viewer.locator('#screen canvas').boundingBox();
    const place = [box.x + box.width / 3, box.y + box.height * 0.8];
    const times = [];
    for (let round = 0; round < (quick ? 5 : 40); round += 1) {
      const seen = viewer.evaluate(() => {
        const before = window.look();
        return new Promise((done) => {
          let pressed;
          addEventListener('pointerdown', ({ timeStamp }) => (pressed = timeStamp), { capture: true, once: true });
          const watch = (now) => {
            if (pressed !== undefined && window.look() !== before) done(now - pressed);
            else requestAnimationFrame(watch);
          };
          requestAnimationFrame(watch);
        });
      });
      await viewer.mouse.move(...place);
      await viewer.mouse.down();
      times.push(await seen);
      await viewer.mouse.up();
      await pause(100);
    }
    // The first one also took the control.
    return times.slice(1);
  });
  const measure = `live view, ${mode(where.headless)}: press to visible change`;
  table.add({ measure, unit: 'ms', ...summary(samples), goal: goal.p50(80) });
}

/** Changes seen and bytes taken while a page moves all the time. */
async function pictures({ quick, table, ...where }) {
  const seconds = quick ? 2 : 10;
  const [changes, bytes] = await watched({ ...where, page: '/animated' }, (viewer) =>
    viewer.evaluate(async (duration) => {
      const [from, taken] = [performance.now(), window.bytes];
      let [last, count] = [window.look(), 0];
      // A page that is busy with pictures may get no turn to paint.
      const turn = () => new Promise((next) => [requestAnimationFrame(next), setTimeout(next, 100)]);
      while (performance.now() - from < duration) {
        await turn();
        const now = window.look();
        if (now !== last) count += 1;
        last = now;
      }
      return [count, window.bytes - taken];
    }, seconds * 1000),
  );
  const measure = `live view, ${mode(where.headless)}, ${VIEWPORT.width}x${VIEWPORT.height}, page in motion`;
  table.add({ measure: `${measure}: pictures`, unit: '1/s', p50: changes / seconds, goal: goal.least(where.headless ? 25 : 20) });
  table.add({ measure: `${measure}: data`, unit: 'kB/s', p50: bytes / seconds / 1000, goal: where.headless ? goal.p50(400) : goal.below(400) });
}

/** A viewer without a screen: takes what comes. */
async function attend(session) {
  const socket = new WebSocket(session.livestream_url.replace('http', 'ws').replace('/stream?', '/stream/socket?'));
  socket.pictures = 0;
  socket.on('message', (_, isBinary) => {
    if (!isBinary) return;
    socket.pictures += 1;
    socket.send('{"type":"ack"}');
  });
  await new Promise((open, failed) => socket.once('open', open).once('error', failed));
  await until('a picture', 20, () => socket.pictures > 0);
  return socket;
}

/** What somebody who watches costs the client that drives. */
async function bystander({ daemon, quick, table }) {
  const session = await daemon.create({ headless: true, url: site(daemon, '/turn') });
  await daemon.full();
  const cdp = await Cdp.connect(session.websocket_url);
  await cdp.openPage();
  const trips = async () => {
    const times = [];
    for (let round = 0; round < (quick ? 50 : 500); round += 1) times.push((await timed(() => cdp.evaluate('1')))[0]);
    return summary(times);
  };
  await trips();
  const alone = await trips();
  const viewer = await attend(session);
  const watchedBy = await trips();
  viewer.terminate();
  cdp.close();
  await daemon.end(session);
  table.add({
    ...{ measure: 'round trip of Runtime.evaluate while somebody watches', unit: 'ms', ...watchedBy },
    ...{ against: { name: 'nobody watches', ...alone }, goal: goal.atMost(1.2) },
  });
}

/** What is left of a viewer's cost once they have gone: a session that was watched beside one that never was. */
async function afterwards({ daemon, headless, quick, table }) {
  const seconds = quick ? 2 : 20;
  const settings = { viewport: VIEWPORT };
  const create = () => daemon.create({ headless, url: site(daemon, '/animated'), settings });
  const sessions = [await create(), await create()];
  try {
    await daemon.full();
    const viewer = await attend(sessions[0]);
    await pause(1000);
    viewer.terminate();
    // Both pages move; whoever still took pictures of one would be seen in its container and in the daemon.
    await pause(1000);
    const pids = await Promise.all(sessions.map(async (session) => mainProcess((await daemon.container(session)).id)));
    const [watched, never] = await percentOfCore(pids, seconds);
    table.add({
      ...{ measure: `worker, ${mode(headless)}, page in motion, its viewer gone`, unit: '% of a core', p50: watched },
      ...{ against: { name: 'never watched', p50: never }, goal: goal.atMost(1.1) },
    });
  } finally {
    for (const session of sessions) await daemon.end(session);
  }
}

/** What many viewers of one session cost the daemon. */
async function crowd({ daemon, quick, table }) {
  const session = await daemon.create({ headless: true, url: site(daemon, '/animated'), settings: { viewport: VIEWPORT } });
  await daemon.full();
  const viewers = [await attend(session)];
  try {
    await pause(2000);
    const before = await daemon.memory();
    while (viewers.length < VIEWERS) viewers.push(await attend(session));
    await pause(quick ? 2000 : 10_000);
    const after = await daemon.memory();
    const pictures = Math.min(...viewers.map((viewer) => viewer.pictures));
    table.add({ measure: `daemon, resident, ${VIEWERS} viewers of one session`, unit: 'MB', p50: after.rss, against: { name: 'one viewer', p50: before.rss } });
    if (pictures < 2) throw new Error('a viewer saw nothing');
  } finally {
    for (const viewer of viewers) viewer.terminate();
    await daemon.end(session);
  }
}
