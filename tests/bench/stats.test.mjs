import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quantile, rotated, summary } from './stats.mjs';
import { Table, figure, goal } from './table.mjs';

test('quantiles are samples, by the nearest rank', () => {
  const hundred = Array.from({ length: 100 }, (_, at) => 100 - at);
  assert.deepEqual(summary(hundred), { p50: 50, p99: 99, n: 100 });
  assert.deepEqual(summary([3, 1, 2]), { p50: 2, p99: 3, n: 3 });
  assert.equal(quantile([], 0.5), undefined);
});

test('everybody goes first as often as the others', () => {
  const firsts = [0, 1, 2, 3].map((round) => rotated(['a', 'b'], round)[0]);
  assert.deepEqual(firsts, ['a', 'b', 'a', 'b']);
});

test('a line knows its ratio and whether its goal is met', () => {
  const table = new Table();
  const line = { measure: 'm', unit: 'ms', p50: 3, against: { name: 'other', p50: 2 } };
  assert.equal(table.add({ ...line, goal: goal.atMost(1.5) }).met, true);
  assert.equal(table.add({ ...line, goal: goal.atMost(1.4) }).met, false);
  assert.equal(table.add({ ...line, p99: 30, goal: goal.both(5, 25) }).met, false);
  assert.match(table.text(), /m +ms +3\.00 +other +2\.00 +1\.50 +ratio ≤ 1\.4 +NO/);
  assert.match(table.markdown(), /^\| m \| ms \| 3\.00 \|/m);
});

test('figures have three digits that count', () => {
  assert.deepEqual([0.1234, 12.34, 1234.5].map(figure), ['0.12', '12.3', '1235']);
});
