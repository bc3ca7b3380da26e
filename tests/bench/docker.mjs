// Containers from outside: what the docker command and the control groups tell.

import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Runs a docker command; answers what it printed. */
export async function docker(...words) {
  const { stdout } = await run('docker', words, { maxBuffer: 16 << 20 });
  return stdout.trim();
}

/** The running containers with a label: {id, mode, name, engine}. */
export async function containers(label) {
  const format = '{{.ID}} {{.Label "warmpool.mode"}} {{.Names}} {{.Label "warmpool.engine"}}';
  const text = await docker('ps', '--no-trunc', '--filter', `label=${label}`, '--format', format);
  return text.split('\n').filter(Boolean).map((line) => {
    const [id, mode, name, engine] = line.split(' ');
    return { id, mode, name, engine };
  });
}

export const removeContainer = (id) => docker('rm', '--force', '--volumes', id).catch(() => '');

/** Process id, on the host, of a container's first process. */
export async function mainProcess(id) {
  return Number(await docker('inspect', '--format', '{{.State.Pid}}', id));
}

/** The address of this host on a network of containers. */
export async function gateway(network) {
  const format = '{{with index .IPAM.Config 0}}{{.Gateway}}|{{.Subnet}}{{end}}';
  const [named, subnet] = (await docker('network', 'inspect', '--format', format, network)).split('|');
  // Some engines name no gateway. They take the first address.
  return named || subnet.replace(/\d+\/.*$/, (last) => String(parseInt(last, 10) + 1));
}

/** Size of an image, in MB (10^6 bytes). */
export async function imageSize(image) {
  return Number(await docker('image', 'inspect', '--format', '{{.Size}}', image)) / 1e6;
}

/** Command line of the browser in a worker, word by word. */
export async function browserCommand(id) {
  const text = await docker('top', id, '-eo', 'pid,args');
  const line = text.split('\n').find((line) => line.includes('--remote-debugging-port=') && !line.includes('--type='));
  if (!line) throw new Error(`no browser in container ${id}`);
  const words = await readFile(`/proc/${line.trim().split(/\s+/)[0]}/cmdline`, 'utf8');
  return words.split('\0').filter(Boolean);
}

/** Every process of a container: {pid, command}. */
export async function processes(id) {
  const text = await docker('top', id, '-eo', 'pid,args');
  return text.split('\n').slice(1).map((line) => {
    const [, pid, command] = /^\s*(\d+)\s+(.*)$/.exec(line) ?? [];
    return { pid: Number(pid), command };
  });
}
