import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readOptions } from './options.mjs';
import { findProcesses, readAvailable, readFamily, readStat, spent, timeSpent, usage } from './processes.mjs';
import { many, runningNode } from './swarm.mjs';

test('a name may look like the end of a name', () => {
  const text = '7 (a) S (b) S 1 7 7 0 -1 4194560 2000 0 0 0 150 50 0 0 20 0 9 0 100 1000000 250 18446744073709551615';
  assert.deepEqual(readStat(text), { cpu: 2, rss: 1.024 });
});

test('the time of children that have ended is told apart', () => {
  const text = '7 (a b) T 3 7 7 0 -1 4194560 2000 0 0 0 150 50 20 5 20 0 9 0 100 1000000 250 18446744073709551615';
  assert.deepEqual(readFamily(text), { state: 'T', parent: 3, children: 0.25 });
});

test('processor time is finer than the ticks of the kernel', async () => {
  const spin = async () => {
    for (const from = performance.now(); performance.now() - from < 20; );
  };
  const { me } = await timeSpent({ me: process.pid }, spin);
  assert.ok(me > 0.001 && me < 1, `${me} s`);
  assert.equal(await spent(4194303), undefined);
});

test('memory is what programs could still get', () => {
  assert.equal(readAvailable('MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:    2000 kB\n'), 2.048);
});

test('processes are found by their words, and those that have ended count nothing', async () => {
  const found = await findProcesses((words) => words[0] === process.argv[0] && words.includes(process.argv.at(-1)));
  assert.ok(found.some(({ pid }) => pid === process.pid));
  const { rss } = await usage([process.pid, 4194303]);
  assert.ok(rss > 1);
});

test('a task that has ended is on no node', () => {
  assert.equal(runningNode('wp-2 Running 3 seconds ago\nwp-1 Shutdown 9 seconds ago'), 'wp-2');
  assert.equal(runningNode('wp-1 Shutdown 9 seconds ago\nwp-3 Running less than a second ago'), 'wp-3');
  assert.equal(runningNode(''), undefined);
});

test('work is done so often, with so many at once, until one fails', async () => {
  let [running, most] = [0, 0];
  const work = async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise(setImmediate);
    running -= 1;
  };
  assert.equal(await many(10, 3, 9, work), 10);
  assert.equal(most, 3);
  assert.equal(await many(10, 3, 0, work), 0);
  assert.equal(await many(10, 1, 9, () => Promise.reject(new Error('no'))), 0);
});

test('rows that take long run only where they are named', () => {
  assert.ok(!readOptions([]).rows.includes('swarm'));
  assert.deepEqual(readOptions(['--rows', 'swarm,thousand']).rows, ['swarm', 'thousand']);
  assert.throws(() => readOptions(['--rows', 'swarms']), /no row swarms; there are size,.* swarm, thousand/);
});
