import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aboutItem, aboutPlace, choose } from '../src/world/prompts.ts';
import { placed } from '../src/world/scene.ts';
import { EventParser } from '../src/shared/events.ts';
import { query, tone } from '../src/worlds/format.ts';

test('events are the same in whichever pieces they arrive', () => {
  const text = ': hello\n\nevent: request\r\ndata: {"a":\r\ndata: "ü"}\r\n\r\ndata: x\n\nevent: end\n\n';
  const all = [
    { type: 'request', data: '{"a":\n"ü"}' },
    { type: 'message', data: 'x' },
  ];
  for (const size of [1, 2, 3, 7, 1000]) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(found, all);
  }
});

test('an event has whatever its data says', () => {
  for (const data of ['{"message":"a\u2028b\u2029c"}', 'a: b', ' a', '']) {
    assert.deepEqual(new EventParser().push(`data: ${data}\n\n`), [{ type: 'message', data }]);
  }
});

test('a filter leaves out what is empty', () => {
  const none = { patient_id: ' ', environment_type: '', status: '', key_id: '', from: '', to: '' };
  assert.equal(String(query(none, undefined)), '');
  const some = { ...none, patient_id: ' p&1 ', status: '4xx', from: '2026-01-02T03:04' };
  const start = Date.parse('2026-01-02T03:04');
  assert.equal(String(query(some, { page: 2, limit: 25 })), `patient_id=p%261&status=4xx&start_time=${start}&page=2&limit=25`);
});

test('what has no direction is not in the picture', () => {
  const radio = { kind: 'belonging', label: 'Radio', yaw: 0, pitch: -5, width: 4, height: 3 };
  assert.deepEqual(placed([{ kind: 'image', label: 'Lost' }, radio]), [radio]);
});

test('a status has its tone', () => {
  assert.deepEqual(['200 OK', '429 Too Many Requests', '500 Internal Server Error'].map(tone), ['good', 'wait', 'bad']);
});

test('each round brings other questions until all were shown', () => {
  const list = ['a', 'b', 'c', 'd', 'e'];
  assert.deepEqual([choose(list, 0, 2), choose(list, 1, 2), choose(list, 2, 2)], [['a', 'b'], ['c', 'd'], ['e', 'a']]);
  assert.deepEqual(choose(['a'], 3, 2), ['a']);
});

test('every place and every thing has questions, none of which asks for memory', () => {
  const lists = [...['garden', 'home', 'porch', 'moon'].map(aboutPlace), ...['image', 'video', 'belonging'].map(aboutItem)];
  for (const question of lists.flat()) {
    assert.match(question, /^[A-Z].*\?$/);
    assert.doesNotMatch(question, /remember|forg[eo]t|^(Do|Did|Can|Is|Was) /i);
  }
  assert.ok(lists.every((list) => list.length >= 4));
});
