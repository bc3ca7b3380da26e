// The ports of a worker's browser and driver, which are Unix sockets in its container: see worker-image/unix-ports.

/** Where the sockets of the worker are whose programs this process speaks with; unset where it speaks with a daemon. */
const FOLDER = process.env.WORKER_PORTS;

/** The folder of a container's sockets, seen from here, which takes root. */
export const folderOf = (pid) => ['/proc', pid, 'root', 'tmp/.ports'].join('/');

/** The socket in the place of a URL's port; nothing where that is a port indeed. */
export const socketOf = (url) => (FOLDER ? `${FOLDER}/${new URL(url).port}` : undefined);
