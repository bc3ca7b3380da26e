// Peers as processes.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { until } from '../stats.mjs';

/** A port nobody listens on now. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts a Node program, in its own folder, and waits until `ready` answers true; answers a function that ends it. */
export async function startService(words, env, ready) {
  const options = { cwd: dirname(words[0]), env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] };
  const child = spawn(process.execPath, words, options);
  let told = '';
  child.stderr.on('data', (text) => (told = (told + text).slice(-2000)));
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const stop = async () => {
    child.kill('SIGTERM');
    const slow = setTimeout(() => child.kill('SIGKILL'), 5000);
    await ended;
    clearTimeout(slow);
  };
  try {
    await until(`${words[0]} to be ready`, 60, () => {
      if (child.exitCode !== null) throw new Error(`${words[0]} ended: ${told}`);
      return ready().catch(() => false);
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}
