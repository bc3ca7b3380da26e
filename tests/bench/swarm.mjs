// A Docker Swarm on this machine: several engines, each in namespaces of its own, by the tests' program bench-swarm.

import { execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { findProcesses } from './processes.mjs';
import { now } from './stats.mjs';

const run = promisify(execFile);

export class Swarm {
  /** Starts one whose nodes have `image`. Takes root. */
  static async start(image, count) {
    const program = process.env.BENCH_SWARM;
    if (!program) throw new Error('BENCH_SWARM must name the program that makes a swarm; scripts/bench does');
    const swarm = new Swarm();
    swarm.process = spawn(program, [image, String(count)], { stdio: ['pipe', 'pipe', 'inherit'] });
    swarm.ended = new Promise((resolve) => swarm.process.once('exit', resolve));
    swarm.answers = createInterface({ input: swarm.process.stdout })[Symbol.asyncIterator]();
    const told = await swarm.#answer();
    if (told.skipped) throw new Error(told.skipped);
    Object.assign(swarm, told);
    await swarm.#find();
    return swarm;
  }

  async #answer() {
    const { value: line, done } = await this.answers.next();
    if (done) throw new Error('the swarm ended');
    const answer = JSON.parse(line);
    if (answer.error) throw new Error(answer.error);
    return answer;
  }

  /** Pulls a node's plug (`down`), or puts it in again (`up`). */
  plug(node, state) {
    this.process.stdin.write(`${state} ${node}\n`);
    return this.#answer();
  }

  /** Names of the nodes; the first one manages. */
  get names() {
    return this.nodes.map(({ name }) => name);
  }

  /** What a daemon must be started with to have its workers here. */
  get settings() {
    const engine = { DOCKER_HOST: this.nodes[0].engine, SWARM_ENABLED: true, SWARM_ENCRYPTED: false };
    return { ...engine, SERVER_LISTEN: `${this.address}:0` };
  }

  /** The words before a program that is to run where it reaches workers. */
  get inside() {
    return ['nsenter', `--net=/proc/${this.seat}/ns/net`];
  }

  /** Runs a docker command on the manager; answers what it printed. */
  async docker(...words) {
    const { stdout } = await run('docker', ['--host', this.nodes[0].engine, ...words], { maxBuffer: 1 << 26 });
    return stdout.trim();
  }

  /** The node on which a worker runs; none while it runs nowhere. */
  async nodeOf(worker) {
    const format = '{{.Node}} {{.CurrentState}}';
    return runningNode(await this.docker('service', 'ps', '--format', format, `warmpool-${worker}`));
  }

  /** Finds the engines, which are there for as long as the swarm is. */
  async #find() {
    for (const node of this.nodes) {
      const [engine] = await findProcesses((words) => words[0] === 'dockerd' && words.includes(node.engine));
      node.pid = engine.pid;
      node.folder = engine.words[engine.words.indexOf('--exec-root') + 1];
    }
  }

  /** Process ids: {manager: its engine, engines: those of all nodes with what belongs to them}. */
  async processes() {
    const folders = this.nodes.map(({ folder }) => folder);
    const isTheirs = (words) => words[0].includes('containerd') && words.some((word) => folders.some((folder) => word.startsWith(folder)));
    const theirs = (await findProcesses(isTheirs)).map(({ pid }) => pid);
    return { manager: [this.nodes[0].pid], engines: [...this.nodes.map(({ pid }) => pid), ...theirs] };
  }

  async stop() {
    this.process.stdin.end();
    const slow = setTimeout(() => this.process.kill('SIGTERM'), 120_000);
    await this.ended;
    clearTimeout(slow);
  }
}

/** The node in what `docker service ps` lists of one service, a task a line. */
export function runningNode(listed) {
  const line = listed.split('\n').find((line) => line.includes(' Running'));
  return line?.slice(0, line.indexOf(' Running'));
}

/** Has `work` use a swarm, which ends after it. */
export async function onSwarm(image, count, work) {
  const swarm = await Swarm.start(image, count);
  try {
    return await work(swarm);
  } finally {
    await swarm.stop();
  }
}

/** Calls `work` `count` times, `width` at once, until the seconds are over; answers how many calls succeeded. It stops at the
 * first that fails. */
export async function many(count, width, seconds, work) {
  const deadline = now() + seconds * 1000;
  let [begun, done, failed] = [0, 0, false];
  const loop = async () => {
    while (begun < count && !failed && now() < deadline) {
      begun += 1;
      try {
        await work();
        done += 1;
      } catch (error) {
        failed = true;
        process.stderr.write(`   ${error.message}\n`);
      }
    }
  };
  await Promise.all(Array.from({ length: width }, loop));
  return done;
}
