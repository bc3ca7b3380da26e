// Compressed messages, to an echo server directly and through the relay: what both ends agree on, what comes back, and with
// which code a connection ends whose message cannot be read. Prints what each way saw.
//   PLACE=/path/of/a/socket RELAY=ws://… node compression.mjs
import { once } from 'node:events';
import { chmod } from 'node:fs/promises';
import { createServer } from 'node:http';
import WebSocket, { WebSocketServer } from 'ws';

const { PLACE, RELAY } = process.env;

/** What clients offer: whether each side starts anew with each message, and how far back it may refer. */
const OFFERS = {
  plain: {},
  'server starts anew': { serverNoContextTakeover: true },
  'client starts anew': { clientNoContextTakeover: true },
  'both start anew, 512 bytes back': {
    serverNoContextTakeover: true,
    clientNoContextTakeover: true,
    serverMaxWindowBits: 9,
    clientMaxWindowBits: 9,
  },
  '512 bytes back': { serverMaxWindowBits: 9, clientMaxWindowBits: 9 },
  '32 KiB back': { serverMaxWindowBits: 15, clientMaxWindowBits: 15 },
};

/** Bytes of a message, and of each frame of it where there are several. */
const MESSAGES = [
  [0], [16], [64], [256], [1024], [4096], [8192], [16384], [32768], [65536], [131072], [1 << 20],
  [131072, 1024], [131072, 4096], [131072, 32768],
];

/** Text that repeats itself, near and far, the same in each run. */
const TEXT = (() => {
  const words = [];
  for (let seed = 1, length = 0; length < 1 << 20; length += words.at(-1).length) {
    seed = (seed * 48271) % 2147483647;
    words.push(seed % 3 === 0 ? words.slice(-(seed % 90)).join('').slice(0, 700) : `${seed} `);
  }
  return Buffer.from(words.join(''));
})();

async function listen(...where) {
  const server = createServer();
  const sockets = new WebSocketServer({ server, maxPayload: 64 << 20, perMessageDeflate: { threshold: 0 } });
  sockets.on('connection', (socket) => {
    // The end of a connection tells how it went wrong.
    socket.on('error', () => {});
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary, compress: true }));
  });
  server.listen(...where);
  await once(server, 'listening');
  return server;
}

/** With no offer, the client does without. */
async function open(url, offer) {
  const perMessageDeflate = offer && { threshold: 0, ...offer };
  const socket = new WebSocket(url, { maxPayload: 64 << 20, perMessageDeflate });
  const [[answer]] = await Promise.all([once(socket, 'upgrade'), once(socket, 'open')]);
  return { socket, agreed: answer.headers['sec-websocket-extensions'] };
}

async function ended(socket) {
  const [code] = await once(socket, 'close');
  return code;
}

/** What this offer leads to, and how many messages come back as they were sent, or otherwise. */
async function echoes(url, offer) {
  const { socket, agreed } = await open(url, offer);
  const seen = { agreed, same: 0, other: 0 };
  for (const [length, frame = length] of MESSAGES) {
    for (const binary of [false, true]) {
      const message = TEXT.subarray(0, length);
      const back = once(socket, 'message');
      for (let at = 0; at < length - frame; at += frame) {
        socket.send(message.subarray(at, at + frame), { binary, compress: true, fin: false });
      }
      socket.send(message.subarray(Math.max(0, length - frame)), { binary, compress: true, fin: true });
      const [data, isBinary] = await back;
      seen[isBinary === binary && message.equals(data) ? 'same' : 'other'] += 1;
    }
  }
  socket.close(1000);
  seen.end = await ended(socket);
  return seen;
}

/** The code with which a connection ends whose client says of four bytes that they are a compressed message. */
async function unreadable(url, offer) {
  const { socket } = await open(url, offer);
  socket.on('error', () => {});
  // A whole text message, masked with zeros.
  socket._socket.write(Buffer.from([0xc1, 0x84, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]));
  return ended(socket);
}

const within = await listen(PLACE);
await chmod(PLACE, 0o777);
const outside = await listen(0, '127.0.0.1');
const ways = { direct: `ws://127.0.0.1:${outside.address().port}/`, relay: RELAY };
const results = {};
for (const [way, url] of Object.entries(ways)) {
  const offers = {};
  for (const [name, offer] of Object.entries(OFFERS)) offers[name] = await echoes(url, offer);
  results[way] = { offers, unreadable: await unreadable(url, {}), unasked: await unreadable(url, false) };
}
console.log(JSON.stringify(results));
process.exit(0);
