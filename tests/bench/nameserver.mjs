// A name server that knows every name but those that nobody answers for, and the file that names it.

import dgram from 'node:dgram';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Where it listens; nothing else on a machine does. */
const ADDRESS = '127.0.0.78';
/** Nobody answers for names below this one. */
export const SILENT = 'silent.test';

/** Starts it on the port of name servers, which takes root. Every name has this address. */
export async function serveNames(address) {
  const socket = dgram.createSocket('udp4');
  socket.on('message', (question, { address: client, port }) => {
    const reply = answer(question, address);
    if (reply) socket.send(reply, port, client);
  });
  await new Promise((bound, failed) => socket.once('error', failed).bind(53, ADDRESS, bound));
  const folder = await mkdtemp(join(tmpdir(), 'warmpool-names-'));
  const file = join(folder, 'resolv.conf');
  await writeFile(file, `nameserver ${ADDRESS}\n`);
  /** Runs a program with this file in the system's place, in a mount namespace of its own. */
  const inside = ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/resolv.conf && exec "$@"', file];
  const close = async () => {
    socket.close();
    await rm(folder, { recursive: true });
  };
  return { inside, close };
}

/** The answer to a message of one question (RFC 1035), which nobody may keep; other types than A have none. */
function answer(question, address) {
  const labels = [];
  let at = 12;
  while (question[at] > 0) {
    labels.push(question.toString('latin1', at + 1, at + 1 + question[at]));
    at += 1 + question[at];
  }
  if (labels.join('.').toLowerCase().endsWith(`.${SILENT}`)) return undefined;
  const isAddress = question.readUInt16BE(at + 1) === 1;
  const head = [...question.subarray(0, 2), 0x81, 0x80, 0, 1, 0, isAddress ? 1 : 0, 0, 0, 0, 0];
  const record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)];
  return Buffer.from([...head, ...question.subarray(12, at + 5), ...(isAddress ? record : [])]);
}
