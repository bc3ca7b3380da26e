// The kernel's table of neighbours: all network namespaces of a machine share it, and who finds no place there sends nothing.

import { readFile, writeFile } from 'node:fs/promises';

const FOLDER = '/proc/sys/net/ipv4/neigh/default';

/** Has `work` run with room for so many neighbours. Takes root. */
export async function withNeighbours(count, work) {
  const files = [2, 3].map((number) => `${FOLDER}/gc_thresh${number}`);
  const before = await Promise.all(files.map((file) => readFile(file, 'utf8')));
  const set = async (values) => {
    for (const [at, file] of files.entries()) await writeFile(file, values[at]);
  };
  if (Number(before[1]) >= count) return work();
  await set([`${count / 2}`, `${count}`]);
  try {
    return await work();
  } finally {
    await set(before);
  }
}
