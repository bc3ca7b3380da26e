// What it costs to begin with a login, and to keep one: creates with states of several sizes by turns with creates that have none, and
// a session whose profile is saved every second beside one that has none.

import { Cdp } from '../cdp.mjs';
import { Daemon } from '../daemon.mjs';
import { gateway } from '../docker.mjs';
import { serveSite } from '../site.mjs';
import { now, pause, summary, timed } from '../stats.mjs';
import { goal } from '../table.mjs';

const POOL = {
  ...{ POOL_CHROMIUM_HEADLESS: 2, POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 },
  PROFILES_SAVE_INTERVAL: '1s',
};
/** Round trips before the other session has its turn, which takes longer than a save's interval in all. */
const BLOCK = 500;
const MEGABYTES = 5;
/** Letters of a record of IndexedDB. */
const RECORD = 10_000;

const cookies = (count) =>
  Array.from({ length: count }, (_, at) => ({
    ...{ name: `c${at}`, value: `a value of forty letters, more or less: ${at}`, domain: `s${at % 50}.example`, path: '/' },
    ...{ secure: true, httpOnly: true, expires: Math.floor(Date.now() / 1000) + 86_400 },
  }));
const records = Array.from({ length: (MEGABYTES * 1e6) / RECORD }, (_, key) => ({ key, value: { key, text: 'x'.repeat(RECORD) } }));
const items = Array.from({ length: 10 }, (_, at) => ({ name: `n${at}`, value: `v${at}` }));
const database = { name: 'shop', version: 1, stores: [{ name: 'items', autoIncrement: false, indexes: [], records }] };
const shop = { origin: 'https://shop.example', localStorage: items };

/** What a create call brings, and in how many milliseconds it should be there. */
const STATES = [
  ['20 cookies', { cookies: cookies(20), origins: [] }, 10],
  ['10 items of one origin', { cookies: [], origins: [shop] }, undefined],
  [`1,000 cookies and ${MEGABYTES} MB of IndexedDB`, { cookies: cookies(1000), origins: [{ ...shop, indexedDB: [database] }] }, 100],
];

export async function logins({ binary, network, rounds, quick, table, progress }) {
  const image = process.env.BENCH_IMAGE ? { WORKER_CHROMIUM_IMAGE: process.env.BENCH_IMAGE } : {};
  const daemon = await Daemon.start(binary, { ...POOL, ...image });
  let site;
  try {
    site = await serveSite(await gateway(network));
    await creates({ daemon, rounds, table, progress });
    await folder({ daemon, rounds: Math.ceil(rounds / 4), table, progress });
    await saves({ daemon, site: site.url, seconds: quick ? 10 : 60, table });
  } finally {
    site?.close();
    await daemon.stop();
  }
}

/** How long a create call takes, in milliseconds. */
async function create(daemon, body) {
  await daemon.full();
  const [ms, session] = await timed(() => daemon.create({ headless: true, ...body }));
  if (session.warnings?.length) throw new Error(`left out: ${session.warnings[0]}`);
  await daemon.end(session);
  return ms;
}

async function creates({ daemon, rounds, table, progress }) {
  const without = [];
  const times = STATES.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    without.push(await create(daemon, {}));
    for (const [at, [, state]] of STATES.entries()) times[at].push(await create(daemon, { state }));
    progress(`${round + 1} of ${rounds} rounds of states`);
  }
  for (const [at, [name, , limit]] of STATES.entries()) {
    const line = { measure: `create with a state of ${name}`, unit: 'ms', ...summary(times[at]) };
    table.add({ ...line, against: { name: 'without', ...summary(without) }, ...(limit ? { goal: goal.p50(limit) } : {}) });
  }
}

/** A profile that is the browser's whole folder, saved once and read from then on. The browser starts anew with it. */
async function folder({ daemon, rounds, table, progress }) {
  const profile = (mode) => ({ profile: { name: 'folder', mode, kind: 'folder' } });
  await create(daemon, profile('write'));
  const times = [];
  for (let round = 0; round < rounds; round += 1) times.push(await create(daemon, profile('read')));
  table.add({ measure: 'create with a whole folder', unit: 'ms', ...summary(times), goal: goal.p50(1000) });
  progress('folders done');
}

/** Round trips of a session that is saved meanwhile, by turns with those of one that is not. */
async function saves({ daemon, site, seconds, table }) {
  const browsers = [];
  try {
    for (const body of [{}, { profile: { name: 'saved', mode: 'write' } }]) {
      const browser = await Cdp.connect((await daemon.create({ headless: true, ...body })).websocket_url);
      browsers.push(browser);
      await browser.openPage();
      await browser.load(site);
      await browser.evaluate(fill.toString().concat(`; void fill(${records.length}, ${RECORD})`));
    }
    await daemon.full();
    await pause(2000);
    const samples = browsers.map(() => []);
    for (const end = now() + seconds * 1000; now() < end; ) {
      for (const [at, browser] of browsers.entries()) {
        for (let count = 0; count < BLOCK; count += 1) samples[at].push((await timed(() => browser.evaluate('1')))[0]);
      }
    }
    const [plain, saved] = samples.map(summary);
    const measure = `round trip of Runtime.evaluate, a profile with ${MEGABYTES} MB saved every second`;
    table.add({ measure, unit: 'ms', ...saved, against: { name: 'without a profile', ...plain }, goal: goal.atMost(1.05) });
    table.note(`of those round trips without a profile the p99 is ${plain.p99.toFixed(2)} ms`);
  } finally {
    for (const browser of browsers) browser.close();
  }
}

/** Runs in the page: fills a database. */
function fill(count, letters) {
  const opening = indexedDB.open('shop', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore('items');
  opening.onsuccess = () => {
    const store = opening.result.transaction('items', 'readwrite').objectStore('items');
    for (let at = 0; at < count; at += 1) store.put('x'.repeat(letters), at);
  };
}
