// The daemon under test: a process of its own with data of its own, gone without a trace afterwards.

import { execFile, spawn } from 'node:child_process';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { Api } from './api.mjs';
import { containers, gateway, removeContainer } from './docker.mjs';
import { pause, until } from './stats.mjs';

const run = promisify(execFile);

/** What differs from a daemon as it comes: a free port, a blank first page (there may be no internet), and a
 * log that says which worker a session got. */
const SETTINGS = {
  SERVER_LISTEN: '127.0.0.1:0',
  SESSION_DEFAULT_URL: 'about:blank',
  SESSION_DEFAULT_TIMEOUT: '1h',
  STORE_MIN_FREE: '1MiB',
  DRAIN_TIMEOUT: '1s',
  LOG_FORMAT: 'json',
};

/** Where its log goes. */
const LOG = process.env.BENCH_LOG ?? join(tmpdir(), 'warmpool-bench.log');

export class Daemon {
  #workers = new Map();
  /** The log, how far it has been read, and the start of a line whose end is still to come. */
  #log;
  #at = 0;
  #rest = '';

  /** Starts `binary` and waits until its pool is full. `settings` are WARMPOOL_* without the prefix; `data` is kept. With a
   * `swarm` its workers are there; `inside` comes before the program's name. */
  static async start(binary, settings, data, swarm, inside = swarm?.inside ?? []) {
    const daemon = new Daemon();
    daemon.swarm = swarm;
    daemon.keeps = data !== undefined;
    daemon.data = data ?? (await mkdtemp(join(tmpdir(), 'warmpool-bench-')));
    daemon.binary = binary;
    const common = { ...SETTINGS, EGRESS_ALLOW: await gateway('bridge'), ...swarm?.settings };
    daemon.env = environment({ ...common, ...settings, STORE_DATA_DIR: daemon.data });
    const [program, ...words] = [...inside, binary, 'serve'];
    // Straight into the file: whoever reads along would work while it measures.
    daemon.#log = await open(LOG, 'a+');
    daemon.#at = (await daemon.#log.stat()).size;
    daemon.process = spawn(program, words, { env: daemon.env, stdio: ['ignore', 'pipe', daemon.#log.fd] });
    daemon.ended = new Promise((resolve) => daemon.process.once('exit', resolve));
    try {
      daemon.url = await Promise.race([daemon.#said('listening on '), daemon.ended.then(() => undefined)]);
      if (!daemon.url) throw new Error(`the daemon ended at its start, see ${LOG}`);
      const key = await until('the first key', 10, () => readFile(join(daemon.data, 'first-key'), 'utf8').catch(() => ''));
      daemon.key = key.trim();
      daemon.api = new Api(daemon.url, { 'service-secret-key': daemon.key });
      daemon.instance = JSON.parse(await readFile(join(daemon.data, 'instance.json'), 'utf8')).id;
      await daemon.full(180);
    } catch (error) {
      await daemon.stop();
      throw error;
    }
    return daemon;
  }

  async #said(prefix) {
    for await (const line of createInterface({ input: this.process.stdout })) {
      if (line.startsWith(prefix)) return line.slice(prefix.length).trim();
    }
    return undefined;
  }

  /** Waits until every kind is at its target and nothing is on its way in or out; then for `settle` milliseconds. */
  async full(seconds = 60, settle = 400) {
    await until('the pool to be full', seconds, async () => {
      const { pool } = await this.api.ok('GET', '/status');
      return pool.every((kind) => kind.ready >= kind.target && kind.starting + kind.removing + kind.waiting === 0);
    });
    // The last worker is frozen a moment after it is ready, and the engine tidies up behind a removed one.
    await pause(settle);
  }

  /** Runs another command of the daemon's program on the same data; answers what it printed. */
  async command(args) {
    const { stdout } = await run(this.binary, args, { env: this.env, maxBuffer: 1 << 26 });
    return stdout;
  }

  create(body, kind = '') {
    return this.api.ok('POST', `/sessions/${kind}create`, body);
  }

  end(session) {
    return this.api.ok('DELETE', `/sessions/${session.session_id}`);
  }

  /** This daemon's containers: {id, mode, name}. */
  containers() {
    return containers(`warmpool.instance=${this.instance}`);
  }

  /** The worker of a session, which the log tells. */
  worker(session) {
    return until('the log to name the worker', 5, async () => {
      await this.#readLog();
      return this.#workers.get(session.session_id);
    });
  }

  async #readLog() {
    const { size } = await this.#log.stat();
    const { buffer, bytesRead } = await this.#log.read(Buffer.alloc(size - this.#at), 0, size - this.#at, this.#at);
    this.#at += bytesRead;
    const lines = (this.#rest + buffer.toString('utf8', 0, bytesRead)).split('\n');
    this.#rest = lines.pop();
    for (const line of lines) this.#hear(line);
  }

  /** The container of a session. */
  async container(session) {
    const worker = await this.worker(session);
    const found = (await this.containers()).find(({ name }) => name === `warmpool-${worker}`);
    if (!found) throw new Error(`no container of worker ${worker}`);
    return found;
  }

  #hear(line) {
    try {
      const fields = JSON.parse(line).fields ?? JSON.parse(line);
      if (fields.session && fields.worker) this.#workers.set(fields.session, fields.worker);
    } catch {
      // Not an event.
    }
  }

  get pid() {
    return this.process.pid;
  }

  /** Resident and proportional memory, in MB (10^6 bytes). */
  async memory() {
    const text = await readFile(`/proc/${this.pid}/smaps_rollup`, 'utf8');
    const field = (name) => (Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? NaN) * 1024) / 1e6;
    return { rss: field('Rss'), pss: field('Pss') };
  }

  /** Ends it. What it may leave on a swarm goes with that. */
  async stop(how = 'SIGTERM') {
    this.api?.close();
    this.process.kill(how);
    const slow = setTimeout(() => this.process.kill('SIGKILL'), 60_000);
    await this.ended;
    clearTimeout(slow);
    await this.#log.close();
    if (this.instance && !this.swarm) for (const { id } of await this.containers()) await removeContainer(id);
    if (!this.keeps) await rm(this.data, { recursive: true, force: true });
  }
}

/** The environment of a daemon with these settings and no others. */
function environment(settings) {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('WARMPOOL_'));
  const ours = Object.entries(settings).map(([name, value]) => [`WARMPOOL_${name}`, String(value)]);
  return Object.fromEntries([...others, ...ours]);
}
