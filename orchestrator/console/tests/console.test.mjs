import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CLIENTS, fitting, linesFor, programFor } from '../src/console/client-lines.ts';
import { createBody } from '../src/console/create-body.ts';
import { labelsOf, splitLabels, spreadLabels } from '../src/console/labels.ts';
import { places, tone } from '../src/console/log-entry.ts';
import { steady } from '../src/console/session-record.ts';
import { ago, bytes, counted, duration, percent, shortened, statusTone } from '../src/shared/format.ts';

const session = (browser_type, more) => ({ session_id: 'ses_1', browser_type, protocol: 'cdp', ...more });
const named = (id) => CLIENTS.find((client) => client.id === id);

test('each engine and kind of session has the clients that fit it', () => {
  const ids = (engine, kind) => fitting(engine, kind).map(({ id }) => id);
  assert.deepEqual(ids('chromium', 'devtools'), ['playwright', 'puppeteer', 'playwright-python', 'curl']);
  assert.deepEqual(ids('firefox', 'devtools'), ['puppeteer', 'curl']);
  assert.deepEqual(ids('webkit', 'devtools'), ['playwright', 'curl']);
  for (const engine of ['chromium', 'firefox', 'webkit']) {
    assert.deepEqual(ids(engine, 'webdriver'), ['selenium-python', 'selenium', 'fantoccini', 'curl']);
  }
});

test('the lines connect to the session that they are for', () => {
  const url = 'ws://h/sessions/ses_1/devtools?token=T';
  assert.match(linesFor(named('puppeteer'), session('firefox', { websocket_url: url })), /protocol: 'webDriverBiDi'/);
  const webkit = linesFor(named('playwright'), session('webkit', { websocket_url: url, connect_headers: { 'x-a': '1' } }));
  assert.match(webkit, /webkit\.connectOverCDP\("ws:.*token=T", \{ headers: \{"x-a":"1"\} \}\)/);
  const driver = session('webkit', { connect_url: 'http://h/sessions/ses_1/webdriver/T/' });
  assert.match(linesFor(named('selenium-python'), driver), /WebKitGTKOptions/);
  assert.equal(linesFor(named('curl'), driver), 'curl "http://h/sessions/ses_1/webdriver/T/status"');
});

test('a program sends the options that were chosen, whatever they hold', () => {
  const hostile = `it's "$(rm -rf)" \\ ünï`;
  const body = { url: hostile, headless: true };
  for (const client of CLIENTS) {
    const text = programFor(client, 'http://h:4444/', client.kind, body);
    assert.ok(text.includes('http://h:4444/sessions/'), client.id);
    assert.ok(!text.includes('wp_'), 'the key stays in the environment');
  }
  const shell = programFor(named('curl'), 'http://h/', 'devtools', body);
  // The shell gives curl back what was meant.
  const argument = /-d '((?:[^']|'\\'')*)' \\/.exec(shell)[1].replaceAll(`'\\''`, "'");
  assert.deepEqual(JSON.parse(argument), body);
  const python = programFor(named('selenium-python'), 'http://h/', 'webdriver', body);
  assert.deepEqual(JSON.parse(JSON.parse(/data=(".*")\.encode/.exec(python)[1])), body);
});

test('values are shown in units that people read', () => {
  assert.deepEqual([0.5, 42, 1500, 61_000, 3_700_000, 200_000_000].map(duration), ['0.5 ms', '42 ms', '1.5 s', '1 min 1 s', '1 h 1 min', '2 d 7 h']);
  assert.deepEqual([0, 1023, 2048, 5 << 20, 200 << 20].map(bytes), ['0 bytes', '1023 bytes', '2.0 KiB', '5.0 MiB', '200 MiB']);
  assert.deepEqual([ago(1000, 2000), ago(0, 60_000), ago(0, 7_200_000)], ['just now', '1 minute ago', '2 hours ago']);
  assert.deepEqual([counted(1, 'key', 'keys'), counted(0, 'key', 'keys'), percent(0.256)], ['1 key', '0 keys', '26 %']);
  assert.deepEqual([shortened('abcdef', 4), shortened('abc', 4)], ['abc…', 'abc']);
  assert.deepEqual(['running', 'failure', 'queued', 'success', 'cancelled'].map(statusTone), ['accent', 'bad', 'wait', 'good', 'off']);
});

test('a form becomes the body of a create call, without what was left as it is', () => {
  const of = (values) => createBody(new Map(Object.entries(values)));
  assert.deepEqual(of({ kind: 'devtools', browser_type: 'chromium', url: ' ', session_timeout: '' }), {});
  const all = { kind: 'devtools', browser_type: 'webkit', headless: 'on', session_timeout: '60', 'settings.locales': 'de-DE, en', 'settings.viewport.width': '800', app_name: 'x' };
  assert.deepEqual(of(all), { browser_type: 'webkit', headless: true, session_timeout: 60, settings: { locales: ['de-DE', 'en'], viewport: { width: 800 } } });
  const place = { 'advanced.proxy': 'on', 'advanced.proxy.country': 'de', 'advanced.block_ads': 'on' };
  assert.deepEqual(of({ kind: 'devtools', ...place }), { advanced: { proxy: { country: 'de' }, block_ads: true } });
  assert.deepEqual(of({ kind: 'webdriver', app_name: 'x', ...place }), { app_name: 'x', advanced: { proxy: true, block_ads: true } });
  assert.deepEqual(of({ kind: 'devtools', 'advanced.proxy.country': 'de' }), {});
  assert.deepEqual(of({ kind: 'devtools', 'advanced.extension_ids': 'ext_a ext_b' }), { advanced: { extension_ids: ['ext_a', 'ext_b'] } });
  const read = { 'profile.name': 'shop', 'profile.mode': '' };
  assert.deepEqual(of({ kind: 'devtools', ...read, metadata: 'team=search' }), { profile: { name: 'shop' }, metadata: { team: 'search' } });
  assert.deepEqual(of({ kind: 'devtools', 'profile.name': '', 'profile.mode': 'write' }), {}, 'a mode alone names no profile');
});

test('what a living session goes on counting is no change of it', () => {
  const of = (status, count) => ({ session_id: 'ses_1', status, execution_time: count, egress: { bytes_in: count, bytes_out: 0 }, ads: { blocked: count } });
  assert.deepEqual(steady(of('running', 1)), steady(of('running', 2)));
  assert.deepEqual(steady(of('terminated', 1)), of('terminated', 1));
});

test('labels are read as people write them', () => {
  assert.deepEqual(splitLabels(' team=search , env=a, b,c=d '), ['team=search', 'env=a, b', 'c=d']);
  assert.deepEqual(labelsOf('team = search, why=a=b, x.y/z-1='), { team: 'search', why: 'a=b', 'x.y/z-1': '' });
  assert.deepEqual(labelsOf('team'), { team: '' });
  const query = new URLSearchParams({ page: '1', 'metadata[]': 'a=1, b=2' });
  spreadLabels(query);
  assert.equal(String(query), 'page=1&metadata%5B%5D=a%3D1&metadata%5B%5D=b%3D2');
});

test('an entry of a log is as bad as what it tells of', () => {
  const asked = { type: 'request', method: 'GET', url: 'http://a/', resource: 'Document', duration: 4 };
  assert.equal(tone({ ...asked, status: 304 }), 'good');
  assert.equal(tone({ ...asked, status: 404 }), 'bad');
  assert.equal(tone({ ...asked, failure: 'net::ERR_ABORTED' }), 'bad');
  assert.equal(tone({ type: 'console', level: 'warning', text: '' }), 'wait');
  assert.equal(tone({ type: 'console', level: 'debug', text: '' }), 'off');
  assert.equal(tone({ type: 'page_error', text: 'Error' }), 'bad');
  assert.equal(places({ url: 'http://a/s.js', line: 3 }), 'http://a/s.js:3');
  assert.equal(places({ url: 'http://a/s.js' }), 'http://a/s.js');
  assert.equal(places({}), undefined);
});
