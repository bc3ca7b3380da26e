// The daemon with a hundred real sessions, one client attached to each. Takes about 17 GB and some minutes.

import { freemem, totalmem } from 'node:os';
import { Daemon } from '../daemon.mjs';
import { pause } from '../stats.mjs';
import { goal } from '../table.mjs';
import { attach } from './sockets.mjs';

const SESSIONS = 100;
/** What a session's browser needs on a blank page, in bytes. */
const EACH = 190e6;

export async function hundred({ binary, table, progress }) {
  if (freemem() < SESSIONS * EACH) {
    table.note(`a hundred sessions were not tried: ${(freemem() / 1e9).toFixed(1)} of ${(totalmem() / 1e9).toFixed(1)} GB are free`);
    return;
  }
  const settings = {
    ...{ POOL_CHROMIUM_HEADED: 0, POOL_CHROMIUM_HEADLESS: 2, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 },
    ...{ POOL_MAX_WORKERS: SESSIONS + 8, SESSION_QUEUE_WAIT: '5m' },
  };
  const daemon = await Daemon.start(binary, settings);
  const open = [];
  try {
    const none = await daemon.memory();
    while (open.length < SESSIONS) {
      const session = await daemon.create({ headless: true });
      open.push(await attach(session.websocket_url));
      if (open.length % 10 === 0) progress(`${open.length} sessions, daemon ${(await daemon.memory()).rss.toFixed(1)} MB`);
    }
    await pause(5000);
    const all = await daemon.memory();
    table.add({ measure: 'daemon, resident, no session', unit: 'MB', p50: none.rss });
    table.add({ measure: `daemon, resident, ${SESSIONS} sessions attached to`, unit: 'MB', p50: all.rss, goal: goal.below(40) });
    table.add({ measure: `daemon, proportional, ${SESSIONS} sessions attached to`, unit: 'MB', p50: all.pss });
  } finally {
    for (const socket of open) socket.terminate();
    await daemon.stop();
  }
}
