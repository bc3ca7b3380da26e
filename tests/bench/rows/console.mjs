// What an open console costs the daemon: nothing to see, following the overview, and with pictures of sessions.

import { readFile } from 'node:fs/promises';
import { now, pause } from '../stats.mjs';
import { goal } from '../table.mjs';

/** Between two looks of a page at one session, in milliseconds. */
const LOOK = 2500;
/** The kernel counts processor time in hundredths of a second. */
const TICKS = 100;
const SESSIONS = [1, 4];

export async function consoleRow({ daemon, site, quick, table, progress }) {
  await daemon.full();
  const seconds = quick ? 10 : 60;
  const add = (measure, used, limit) =>
    table.add({ measure, unit: '% of a core', p50: used, ...(limit === undefined ? {} : { goal: goal.p50(limit) }) });
  add(`daemon, idle, no console, over ${seconds} s`, await processor(daemon.pid, seconds));
  progress('idle done');
  const page = await open(daemon);
  try {
    add('daemon, idle, a console on the overview', await processor(daemon.pid, seconds), 2);
    progress('overview done');
    for (const [name, address] of [['still', 'about:blank'], ['moving', new URL('/animated', site).href]]) {
      for (const headless of [true, false]) {
        for (const count of SESSIONS) await pictures({ daemon, page, name, address, headless, count, seconds, add });
      }
      progress(`${name} pages done`);
    }
  } finally {
    page.close();
  }
}

/** The cost of the thumbnails of some sessions, sent to a page that has them all on its screen. */
async function pictures({ daemon, page, name, address, headless, count, seconds, add }) {
  const sessions = [];
  try {
    for (let at = 0; at < count; at += 1) {
      sessions.push(await daemon.create({ headless, url: address, settings: { viewport: { width: 1280, height: 720 } } }));
    }
    await daemon.full();
    const look = await page.thumbnails(sessions.map(({ session_id: id }) => id));
    await pause(LOOK);
    const used = await processor(daemon.pid, seconds);
    look.abort();
    add(`daemon, thumbnails of ${count} ${name} ${headless ? 'headless' : 'headed'} pages`, used);
  } finally {
    for (const session of sessions) await daemon.end(session);
    await daemon.full();
  }
}

/** A page of the console that follows the overview. */
async function open(daemon) {
  const signedIn = await fetch(`${daemon.url}/console/sign-in`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ key: daemon.key }),
  });
  const headers = { cookie: signedIn.headers.get('set-cookie').split(';')[0], 'x-warmpool-console': '1' };
  const follow = async (path) => {
    const stop = new AbortController();
    const events = await fetch(`${daemon.url}/console/api/${path}`, { headers, signal: stop.signal });
    if (!events.ok) throw new Error(`the console cannot follow: ${events.status}`);
    // Read, as a page does.
    (async () => {
      for await (const part of events.body) void part;
    })().catch(() => {});
    return stop;
  };
  const stop = await follow('events?topic=overview&topic=sessions');
  return {
    thumbnails: (ids) => follow(`thumbnails?${new URLSearchParams(ids.map((id) => ['session', id]))}`),
    close: () => stop.abort(),
  };
}

/** What a process uses of a core over some seconds, in percent. */
async function processor(pid, seconds) {
  const used = async () => {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS;
  };
  const [from, before] = [now(), await used()];
  await pause(seconds * 1000);
  return ((await used()) - before) / ((now() - from) / 1000) * 100;
}
