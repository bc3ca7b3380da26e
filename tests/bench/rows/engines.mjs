// Every engine there is an image of, side by side: create, create with settings, first page, WebDriver's commands.

import { Api } from '../api.mjs';
import { Daemon } from '../daemon.mjs';
import { docker, gateway, mainProcess } from '../docker.mjs';
import { serveSite } from '../site.mjs';
import { now, rotated, summary, timed } from '../stats.mjs';
import { goal } from '../table.mjs';
import { withTwoProbes } from '../probes.mjs';
import { alternate } from './relay.mjs';

/** Rounds that only warm everybody's caches. */
const DISCARDED = 1;
const BLOCK = 20;
/** Where each engine's driver listens in its container, and how long its settings may take, in milliseconds. */
const ENGINES = [
  { engine: 'chromium', driver: 'http://127.0.0.1:9515/', settings: 30 },
  { engine: 'firefox', driver: 'http://127.0.0.1:4445/', settings: 1000 },
  { engine: 'webkit', driver: 'http://127.0.0.1:9515/', settings: 1000 },
];
const SETTINGS = { locales: ['de-DE', 'de'], user_agent: 'Mozilla/5.0 Bench/1', viewport: { width: 1000, height: 640 } };

export async function engines({ binary, network, rounds, quick, table, progress }) {
  const there = [];
  for (const one of ENGINES) {
    if (await docker('image', 'inspect', `warmpool/${one.engine}:latest`).catch(() => '')) there.push(one);
    else table.note(`${one.engine} was not measured: there is no image of it`);
  }
  // Two of each, so that the older one, which is handed out, sleeps already.
  const pool = Object.fromEntries(ENGINES.map(({ engine }) => [`POOL_${engine.toUpperCase()}_HEADED`, 0]));
  for (const { engine } of there) pool[`POOL_${engine.toUpperCase()}_HEADED`] = 2;
  const daemon = await Daemon.start(binary, { ...pool, POOL_CHROMIUM_HEADLESS: 0, POOL_MAX_WORKERS: 12 });
  let site;
  try {
    site = await serveSite(await gateway(network));
    await sessions(daemon, there, site.url, rounds, table, progress);
    for (const one of there) await commands(daemon, one, quick ? 60 : 400, table);
  } finally {
    site?.close();
    await daemon.stop();
  }
}

async function sessions(daemon, there, page, rounds, table, progress) {
  const times = new Map(there.map(({ engine }) => [engine, { plain: [], settings: [], first: [] }]));
  for (let round = -DISCARDED; round < rounds; round += 1) {
    for (const { engine } of rotated(there, round + DISCARDED)) {
      const samples = round < 0 ? { plain: [], settings: [], first: [] } : times.get(engine);
      await daemon.full();
      const from = now();
      const [plain, session] = await timed(() => daemon.create({ browser_type: engine }, 'webdriver/'));
      await firstPage(session.connect_url, page);
      samples.plain.push(plain);
      samples.first.push(now() - from);
      await daemon.end(session);
      await daemon.full();
      const [ms, other] = await timed(() => daemon.create({ browser_type: engine, settings: SETTINGS }));
      samples.settings.push(ms);
      await daemon.end(other);
    }
    if (round >= 0) progress(`round ${round + 1} of ${rounds}`);
  }
  for (const { engine, settings } of there) {
    const of = (part) => ({ unit: 'ms', ...summary(times.get(engine)[part]) });
    table.add({ measure: `${engine}: create`, ...of('plain'), goal: goal.p50(5) });
    table.add({ measure: `${engine}: create with settings`, ...of('settings'), goal: goal.p50(settings) });
    table.add({ measure: `${engine}: create to first page by WebDriver`, ...of('first') });
  }
}

/** A driver's session, and a page in it. */
export async function firstPage(connect_url, url) {
  const driver = new Api(connect_url.replace(/\/?$/, '/'));
  const { value } = await driver.ok('POST', 'session', { capabilities: {} });
  await driver.ok('POST', `session/${value.sessionId}/url`, { url });
  const { value: title } = await driver.ok('GET', `session/${value.sessionId}/title`);
  driver.close();
  if (title !== 'Bench') throw new Error(`the page is called ${title}`);
}

/** One driver session, asked through Warmpool and beside the driver. */
async function commands(daemon, { engine, driver }, count, table) {
  await daemon.full();
  const session = await daemon.create({ browser_type: engine }, 'webdriver/');
  await daemon.full();
  const pid = await mainProcess((await daemon.container(session)).id);
  await withTwoProbes(pid, async (through, direct) => {
    const { id } = await through.ask('newSession', { url: session.connect_url, capabilities: {} });
    const ask = (probe) => (size) =>
      probe.ask('commands', { url: probe === direct ? driver : session.connect_url, id, count: size });
    for (const probe of [through, direct]) await ask(probe)(20);
    const [ours, theirs] = await alternate([through, direct], count / BLOCK, (probe) => ask(probe)(BLOCK));
    table.add({
      ...{ measure: `${engine}: WebDriver execute/sync`, unit: 'ms', ...summary(ours) },
      ...{ against: { name: 'beside the driver', ...summary(theirs) }, goal: goal.atMost(1.15) },
    });
  });
  await daemon.end(session);
}
