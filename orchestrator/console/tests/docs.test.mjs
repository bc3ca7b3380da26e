import assert from 'node:assert/strict';
import { test } from 'node:test';
import { example, pythonLiteral } from '../src/docs/examples.ts';

const call = (method, path, more = {}) => ({
  method,
  path,
  operation: { operationId: 'x', tags: [], summary: '', description: '', parameters: [], security: [{ serviceKey: [] }, { bearer: [] }], responses: { 200: { description: '', content: { 'application/json': {} } } }, ...more },
});
const filled = { path: {}, query: [], headers: [], body: '' };
const body = { requestBody: { required: true, content: { 'application/json': { schema: {} } } } };

test('values are as Python writes them', () => {
  assert.equal(pythonLiteral({ a: [true, null, 'é"'], b: {} }), '{\n    "a": [True, None, "é\\""],\n    "b": {},\n}');
});

test('a quote in a body does not end it in the shell', () => {
  const lines = example('curl', call('POST', '/a', body), 'http://h/', { ...filled, body: `{"a": "it's"}` });
  assert.ok(lines.startsWith("curl -X POST 'http://h/a'"), lines);
  assert.ok(lines.includes(`-d '{"a": "it'\\''s"}'`), lines);
});

test('what is not filled in stands out, and what is filled in is escaped', () => {
  const get = call('GET', '/sessions/{id}/files/{name}');
  assert.ok(example('javascript', get, 'http://h', filled).includes('"http://h/sessions/ID/files/NAME"'));
  const full = { ...filled, path: { id: 'ses_1', name: 'a b/c' }, query: [['q', 'x&y'], ['empty', ' ']] };
  assert.ok(example('python', get, 'http://h', full).includes('"http://h/sessions/ses_1/files/a%20b%2Fc?q=x%26y"'));
});

test('the slashes of a command are those of its path', () => {
  const path = { id: 'a/b', command: 'element/A B/click' };
  for (const language of ['curl', 'python', 'javascript']) {
    const lines = example(language, call('POST', '/session/{id}/{command}'), 'http://h', { ...filled, path });
    assert.ok(lines.includes('http://h/session/a%2Fb/element/A%20B/click'), lines);
  }
});

test('a key is named only where it is needed', () => {
  for (const language of ['curl', 'python', 'javascript']) {
    assert.ok(example(language, call('GET', '/a'), 'http://h', filled).includes('WARMPOOL_SECRET_KEY'), language);
    const open = { security: [{}, { serviceKey: [] }] };
    assert.ok(!example(language, call('GET', '/a', open), 'http://h', filled).includes('KEY'), language);
  }
});

test('a body that is no JSON is shown as it is', () => {
  for (const language of ['python', 'javascript']) assert.ok(example(language, call('POST', '/a', body), 'http://h', { ...filled, body: '{"a"' }).includes('{\\"a\\"'), language);
});

test('bytes are not sent as a form', () => {
  const bytes = { requestBody: { required: true, content: { 'application/octet-stream': { schema: {} } } } };
  for (const language of ['curl', 'python', 'javascript']) {
    assert.match(example(language, call('PUT', '/a', bytes), 'http://h', filled), /content-type["']?: ["']?application\/octet-stream/, language);
  }
});
