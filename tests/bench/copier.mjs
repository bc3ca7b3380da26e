// A program that only copies bytes, between a port of this host and a port of a worker: what any relay costs at least.

import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { freePort } from './contenders/service.mjs';
import { asRoot } from './probes.mjs';
import { folderOf } from './ports.mjs';
import { until } from './stats.mjs';

/** Copies until its standard input ends, so that whoever may not end root's processes can end it. */
const SCRIPT = 'command -v socat > /dev/null || exit 1; socat "$@" & read -r _; kill $!';

/** Starts socat before a port of the container whose main process is `pid`: {url, stop}; nothing where it is not installed. */
export async function startCopier(pid, port) {
  const own = await freePort();
  const addresses = [`TCP-LISTEN:${own},bind=127.0.0.1,nodelay,fork`, `UNIX-CONNECT:${folderOf(pid)}/${port}`];
  const [program, ...words] = asRoot(['sh', '-c', SCRIPT, 'socat', ...addresses]);
  const child = spawn(program, words, { stdio: ['pipe', 'ignore', 'ignore'] });
  const ended = new Promise((resolve) => child.once('error', resolve).once('exit', resolve));
  const stop = () => child.stdin.end();
  const listens = until('socat to listen', 5, () => accepts(own)).then(() => true, stop);
  const isUp = await Promise.race([ended.then(() => false), listens]);
  return isUp ? { url: `http://127.0.0.1:${own}`, stop } : undefined;
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false)).once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}
