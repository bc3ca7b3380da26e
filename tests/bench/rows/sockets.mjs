// What clients that are attached and silent cost the daemon.

import WebSocket from 'ws';
import { pause } from '../stats.mjs';

const SOCKETS = 100;
const SESSIONS = 4;

export async function sockets({ daemon, table }) {
  await daemon.full();
  const sessions = [];
  const open = [];
  try {
    for (let at = 0; at < SESSIONS; at += 1) sessions.push(await daemon.create({ headless: true }));
    await daemon.full();
    const before = await daemon.memory();
    for (let at = 0; at < SOCKETS; at += 1) open.push(await attach(sessions[at % SESSIONS].websocket_url));
    await pause(1000);
    const after = await daemon.memory();
    table.add({ measure: 'daemon, resident, before', unit: 'MB', p50: before.rss });
    table.add({ measure: `daemon, resident, ${SOCKETS} idle websockets`, unit: 'MB', p50: after.rss });
    table.add({ measure: 'daemon, an idle websocket', unit: 'kB', p50: ((after.rss - before.rss) * 1000) / SOCKETS });
    table.add({ measure: 'daemon, proportional, with them', unit: 'MB', p50: after.pss });
  } finally {
    for (const socket of open) socket.terminate();
    for (const session of sessions) await daemon.end(session);
  }
}

/** An open websocket. */
export function attach(url) {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  return new Promise((opened, failed) => socket.once('open', () => opened(socket)).once('error', failed));
}
