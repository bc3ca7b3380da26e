// A generated history: tasks as the daemon would have written them, added to a backup of an empty daemon.

import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
/** In the order of their numbers in the rows of the index. */
const KINDS = ['extract', 'fleet', 'run'];
const STATUSES = ['cancelled', 'failure', 'queued', 'running', 'success'];
/** End users, of whom each has as many tasks as any other. */
export const USERS = 2;
export const BEGAN = 1_700_000_000_000;
/** Between two tasks, in milliseconds. */
export const EVERY = 997;

/** A ULID as number and text. */
function ulid(ms, number) {
  const value = (BigInt(ms) << 80n) | (BigInt(number) << 16n) | 7n;
  let text = '';
  for (let left = value, at = 0; at < 26; at += 1, left >>= 5n) text = DIGITS[Number(left & 31n)] + text;
  return { key: Buffer.from(value.toString(16).padStart(32, '0'), 'hex'), text: `tsk_${text}` };
}

/** Some number for `n`, spread over 32 bits, the same on each run. */
const spread = (n) => Math.imul(n ^ (n >>> 15), 0x2c1b3c6d) >>> 0;

/** The `n`th task of `owner`: its two rows. */
function task(n, owner) {
  const { key, text } = ulid(BEGAN + n * EVERY, n);
  const random = spread(n + 1);
  const kind = [2, 2, 0, 1][random % 4];
  const status = random % 50 === 0 ? 0 : random % 9 === 0 ? 1 : 4;
  const length = 200 + ((random >>> 8) % 60_000);
  const passcode = `user-${(random >>> 4) % USERS}`;
  const started_ms = BEGAN + n * EVERY + 5;
  const record = {
    task_id: text,
    owner,
    kind: KINDS[kind],
    status: STATUSES[status],
    engine: 'chromium',
    mode: 'headless',
    inputs: { url: `https://shop.example/item/${n}` },
    service_passcode: passcode,
    started_ms,
    ended_ms: started_ms + length,
    session_id: `ses_${text.slice(8)}`,
    output: { inline: [{ title: `Item ${n}`, price: (random % 10_000) / 100, available: n % 3 > 0 }] },
  };
  const head = Buffer.alloc(6);
  head[0] = kind;
  head[1] = status;
  head.writeUInt32BE(length, 2);
  const user = createHash('sha256').update(passcode).digest().subarray(0, 16);
  const row = Buffer.concat([Buffer.from(owner), head, user]);
  return { key, record: Buffer.from(JSON.stringify(record)), row };
}

/** Copies the dump `from` to `to` with `count` tasks of `owner` more. */
export async function addTasks(from, to, count, owner) {
  const out = createWriteStream(to);
  const hash = createHash('sha256');
  let counts = {};
  const write = async (line) => {
    const text = `${JSON.stringify(line)}\n`;
    hash.update(text);
    if (!out.write(text)) await once(out, 'drain');
  };
  for await (const text of createInterface({ input: createReadStream(from) })) {
    const line = JSON.parse(text);
    if (line.sha256) counts = line.lines;
    else await write(line);
  }
  for (let n = 0; n < count; n += 1) {
    const { key, record, row } = task(n, owner);
    const k = key.toString('base64');
    await write({ t: 'tasks', k, v: record.toString('base64') });
    await write({ t: 'task_index', k, v: row.toString('base64') });
  }
  counts.tasks = (counts.tasks ?? 0) + count;
  counts.task_index = (counts.task_index ?? 0) + count;
  out.end(`${JSON.stringify({ lines: counts, sha256: hash.digest('hex') })}\n`);
  await once(out, 'finish');
}
