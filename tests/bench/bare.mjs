// The yardstick for a worker: the same Chromium with the same switches in a container of the same image and limits, and
// nothing else in it.

import { fileURLToPath } from 'node:url';
import { browserCommand, docker } from './docker.mjs';

const SECCOMP = fileURLToPath(new URL('../../worker-image/seccomp.json', import.meta.url));
const PROFILE = '/home/worker/profile-0';

/** Starts one, with the command line of the browser in container `like`, changed by `change`; answers its container id. */
export async function startBare(image, network, like, change = (words) => words) {
  const [program, ...words] = await browserCommand(like);
  const switches = change(words).map((word) => (word.startsWith('--user-data-dir=') ? `--user-data-dir=${PROFILE}` : word));
  return docker(
    ...['run', '--detach', '--label', 'warmpool.bench=bare', '--network', network, '--user', '61000:61000'],
    ...['--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--security-opt', `seccomp=${SECCOMP}`],
    ...['--read-only', '--shm-size', '512m', '--memory', '2g', '--memory-swap', '2g', '--pids-limit', '1024', '--cpus', '2'],
    ...['--tmpfs', '/tmp:rw,nosuid,nodev,mode=1777', '--tmpfs', '/run:rw,nosuid,nodev,uid=61000,gid=61000,mode=0700'],
    ...['--tmpfs', '/home/worker:rw,nosuid,nodev,uid=61000,gid=61000,mode=0700'],
    ...['--entrypoint', program, image, ...switches],
  );
}
