// Starts probes: as clients, or beside the browser of a container.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { folderOf } from './ports.mjs';

const PROBE = fileURLToPath(new URL('probe.mjs', import.meta.url));
const ROOT = process.getuid() === 0;

/** The words of a command that root runs. */
export const asRoot = (words) => [...(ROOT ? [] : ['sudo', '-n']), ...words];

export class Probe {
  /** A probe; with `pid` it speaks with the programs beside that process, which takes root or a sudo that does not ask. */
  static start(pid) {
    return Probe.#run(pid === undefined ? [] : asRoot(['env', `WORKER_PORTS=${folderOf(pid)}`]));
  }

  static #run(beside) {
    const probe = new Probe();
    const [program, ...words] = [...beside, process.execPath, PROBE];
    probe.process = spawn(program, words, { stdio: ['pipe', 'pipe', 'inherit'] });
    probe.answers = createInterface({ input: probe.process.stdout })[Symbol.asyncIterator]();
    return probe;
  }

  /** A probe on the network of a process, whose ports are not hidden. Takes root as well. */
  static enter(pid) {
    return Probe.#run(asRoot(['nsenter', '--net', '--target', String(pid)]));
  }

  /** Gives an order and waits for its answer. */
  async ask(order, wanted = {}) {
    this.process.stdin.write(`${JSON.stringify({ order, ...wanted })}\n`);
    const { value: line, done } = await this.answers.next();
    if (done) throw new Error('the probe ended (to look beside the browser takes root)');
    const answer = JSON.parse(line);
    if (answer.error) throw new Error(answer.error);
    return answer.value;
  }

  stop() {
    this.process.stdin.end();
  }
}

/** Starts two probes, one here and one beside container process `pid`, for `work`, and stops them after it. */
export async function withTwoProbes(pid, work, beside = Probe.start) {
  const pair = [Probe.start(), beside(pid)];
  try {
    return await work(...pair);
  } finally {
    for (const probe of pair) probe.stop();
  }
}
