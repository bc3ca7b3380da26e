// A swarm with a thousand sessions, whose workers have no browsers: what the daemon, the engines and the network take.

import { Cdp } from '../cdp.mjs';
import { Daemon } from '../daemon.mjs';
import { withNeighbours } from '../neighbours.mjs';
import { available, usage, watchUsage } from '../processes.mjs';
import { now, pause, summary, timed } from '../stats.mjs';
import { many, onSwarm } from '../swarm.mjs';
import { attach } from './sockets.mjs';
import { startServices } from './swarm.mjs';

/** Nodes: a worker reserves 256 MiB at least, and each node counts this machine's memory as its own. */
const NODES = 12;
const SETTINGS = {
  ...{ WORKER_MEMORY: '256MiB', WORKER_SHM: '64MiB', WORKER_TMP: '64MiB', WORKER_PIDS: 128, WORKER_FILE_LIMIT: '16MiB', SWARM_RESERVED_CPUS: 0 },
  ...{ POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 },
  ...{ SESSION_QUEUE_WAIT: '10m', SESSION_RECONNECT_WINDOW: '1h' },
};
/** Warm workers. */
const WARM = 16;
/** Services started at once, and how many are started to see how fast that is. */
const AT_ONCE = [[1, 8], [4, 24], [8, 40], [16, 48]];
/** Sessions at which everything is measured, and how many are created one by one before that. */
const STEPS = [0, 250, 500, 1000];
const ONE_BY_ONE = 20;
/** What is started at once while sessions are made. */
const WIDTH = 8;
/** Seconds that all of them may take. */
const LIMIT = 1500;
const MEGABYTES = 16;
/** Both ends of each connection to a worker count, since all nodes share this machine's kernel. The kernel's default is 1,024. */
const NEIGHBOURS = 16_384;

export const thousand = (context) => withNeighbours(NEIGHBOURS, () => measure(context));

async function measure({ binary, quick, table, progress }) {
  const image = process.env.BENCH_WORKER_IMAGE;
  if (!image) throw new Error('BENCH_WORKER_IMAGE must name the image of the worker without a browser; scripts/bench does');
  const nodes = quick ? 3 : NODES;
  const steps = quick ? [0, 24, 48] : STEPS;
  const settings = { ...SETTINGS, WORKER_CHROMIUM_IMAGE: image };
  await onSwarm(image, nodes, async (swarm) => {
    for (const [atOnce, count] of quick ? AT_ONCE.slice(1, 2) : AT_ONCE) {
      const rate = { POOL_REFILL_DELAY: '0s', POOL_CHROMIUM_HEADLESS: 1, POOL_MAX_WORKERS: count + 1, POOL_START_CONCURRENCY: atOnce };
      const fleet = await Daemon.start(binary, { ...settings, ...rate }, undefined, swarm);
      try {
        const perMinute = await startServices(fleet, count);
        table.add({ measure: `${nodes} nodes: services without browser started a minute, ${atOnce} at once`, unit: '1/min', p50: perMinute });
        progress(`${perMinute.toFixed(0)} services a minute, ${atOnce} at once`);
      } finally {
        await fleet.stop();
      }
    }
    const most = steps.at(-1);
    const pool = { POOL_CHROMIUM_HEADLESS: WARM, POOL_MAX_WORKERS: most + WARM, POOL_START_CONCURRENCY: WIDTH };
    const fleet = await Daemon.start(binary, { ...settings, ...pool }, undefined, swarm);
    try {
      const crowd = new Crowd(fleet, swarm, table, progress, quick ? 5 : 20);
      await crowd.grow(steps);
      await crowd.attach();
    } finally {
      // Ending a thousand workers in order would take as long as starting them did.
      await fleet.stop('SIGKILL');
    }
  });
}

class Crowd {
  sessions = [];

  constructor(fleet, swarm, table, progress, seconds) {
    Object.assign(this, { fleet, swarm, table, progress, seconds });
  }

  async #processes() {
    const { manager, engines } = await this.swarm.processes();
    return { daemon: [this.fleet.pid], manager, engines };
  }

  /** What each has used so far. */
  async #used() {
    const groups = Object.entries(await this.#processes());
    return Object.fromEntries(await Promise.all(groups.map(async ([name, pids]) => [name, await usage(pids)])));
  }

  add(measure, unit, figures, extra = {}) {
    this.table.add({ measure, unit, ...(typeof figures === 'number' ? { p50: figures } : figures), ...extra });
  }

  /** Makes sessions, and measures at each step. */
  async grow(steps) {
    const begun = now();
    this.before = await available();
    for (const step of steps) {
      const quickly = Math.max(0, step - ONE_BY_ONE - this.sessions.length);
      const seconds = LIMIT - (now() - begun) / 1000;
      const before = await this.#used();
      const [ms, made] = await timed(async () => {
        const made = await many(quickly, WIDTH * 2, seconds, () => this.#create());
        if (made === quickly) await this.fleet.full(300, 0);
        return made;
      });
      this.progress(`${this.sessions.length} sessions after ${((now() - begun) / 1000).toFixed(0)} s`);
      if (made < quickly) {
        this.table.note(`after ${((now() - begun) / 1000).toFixed(0)} s of ${LIMIT} there were ${this.sessions.length} of ${step} sessions, and no more came`);
        break;
      }
      if (quickly > 0) {
        this.add(`services started a minute, to ${step} sessions`, '1/min', (made / ms) * 60_000);
        const after = await this.#used();
        for (const [name, of] of Object.entries({ daemon: 'the daemon', manager: "the manager's dockerd", engines: 'all engines' })) {
          this.add(`processor time for each of them: ${of}`, 'ms', ((after[name].cpu - before[name].cpu) * 1000) / made);
        }
      }
      await this.#measure(step);
    }
    this.add(`${this.sessions.length} sessions were there after`, 's', (now() - begun) / 1000);
  }

  async #create() {
    this.sessions.push(await this.fleet.create({ headless: true }));
  }

  async #measure(step) {
    const times = [];
    while (step > 0 && times.length < ONE_BY_ONE) {
      await this.fleet.full(300);
      for (let at = 0; at < ONE_BY_ONE / 4; at += 1) times.push((await timed(() => this.#create()))[0]);
    }
    await this.fleet.full(300, 5000);
    const name = `${step} idle sessions`;
    if (step > 0) this.add(`${name}: create a session`, 'ms', summary(times));
    const used = await watchUsage(await this.#processes(), this.seconds);
    this.add(`${name}: the daemon`, '% of a core', used.daemon.percent);
    this.add(`${name}: the daemon, resident`, 'MB', used.daemon.rss);
    this.add(`${name}: the manager's dockerd`, '% of a core', used.manager.percent);
    this.add(`${name}: the manager's dockerd, resident`, 'MB', used.manager.rss);
    this.add(`${name}: all engines`, '% of a core', used.engines.percent);
    if (step > 0) this.add(`${name}: memory of the machine for each worker`, 'MB', (this.before - (await available())) / (step + WARM));
    if (step === 0) await this.#relay(`${name}: one client`, [await this.#alone()]);
  }

  async #alone() {
    await this.#create();
    await this.fleet.full();
    return this.#client(this.sessions[0]);
  }

  async #client({ websocket_url }) {
    const cdp = await Cdp.connect(websocket_url);
    await cdp.openPage();
    return cdp;
  }

  /** A client for each session, and what that takes. */
  async attach() {
    const count = this.sessions.length;
    const before = await this.fleet.memory();
    const silent = [];
    const waiting = [...this.sessions];
    await many(count, 20, 120, async () => silent.push(await attach(waiting.pop().websocket_url)));
    await pause(5000);
    const after = await this.fleet.memory();
    this.add(`${silent.length} websockets attached: the daemon, resident`, 'MB', after.rss);
    this.add('the daemon, for each of them', 'kB', ((after.rss - before.rss) * 1000) / silent.length);
    const used = await watchUsage(await this.#processes(), this.seconds);
    this.add('the same: the daemon', '% of a core', used.daemon.percent);
    const clients = [];
    const more = [...this.sessions];
    await many(count, 20, 120, async () => clients.push(await this.#client(more.pop())));
    await pause(5000);
    await this.#relay(`${clients.length} clients`, clients);
    const seconds = this.seconds / 2;
    const until = now() + seconds * 1000;
    let trips = 0;
    const loop = async (client) => {
      for (; now() < until; trips += 1) await client.evaluate('1');
    };
    const busy = clients.slice(0, 64);
    const [load] = await Promise.all([watchUsage(await this.#processes(), seconds), ...busy.map(loop)]);
    this.add(`round trips a second, ${busy.length} clients at once`, '1/s', trips / seconds);
    this.add('the same: the daemon', '% of a core', load.daemon.percent);
    for (const client of [...silent.map((socket) => ({ close: () => socket.terminate() })), ...clients]) client.close();
  }

  /** Round trips with one client after the other, and large results. */
  async #relay(name, clients) {
    const trips = [];
    for (let at = 0; at < 50; at += 1) await clients[at % clients.length].evaluate('1');
    for (let at = 0; at < 1000; at += 1) trips.push((await timed(() => clients[(at * 7) % clients.length].evaluate('1')))[0]);
    this.add(`${name}: round trip`, 'ms', summary(trips));
    const speeds = [];
    for (let at = 0; at < 6; at += 1) {
      const [ms] = await timed(() => clients[at % clients.length].evaluate(`'x'.repeat(${MEGABYTES} * 1e6)`));
      speeds.push((MEGABYTES / ms) * 1000);
    }
    this.add(`${name}: result of ${MEGABYTES} MB`, 'MB/s', summary(speeds.slice(1)).p50, { n: speeds.length - 1 });
  }
}
