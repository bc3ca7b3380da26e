// What clients hear that cannot be served, as their libraries tell it.
import assert from 'node:assert/strict';
import { chromium, firefox, webkit } from '@playwright/test';
import older from 'playwright-1.62';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY } = process.env;
const endpoint = (path, query = {}) => {
  const url = new URL(path, WARMPOOL_URL.replace(/^http/, 'ws'));
  url.search = new URLSearchParams({ token: WARMPOOL_SECRET_KEY, ...query });
  return url.href;
};
const options = { timeout: 20_000 };
const refused = (connecting, expected) => assert.rejects(connecting, expected);
const here = '/playwright/chromium';

await refused(older.chromium.connect(endpoint(here), options), /428[^]*version mismatch: the client is v1\.62[^]*v1\.63, v1\.65/);
await refused(chromium.connect(endpoint(here, { token: 'wp_0_x' }), options), /401/);
await refused(firefox.connect(endpoint('/playwright/firefox'), options), /400[^]*a build of its own/);
await refused(webkit.connect(endpoint('/webkit/playwright'), options), /400[^]*a build of its own/);
await refused(firefox.connect(endpoint(here), options), /400[^]*`browser` is `firefox`/);
await refused(chromium.connect(endpoint(here), { ...options, exposeNetwork: '*' }), /400[^]*exposeNetwork[^]*egress\.allow/);
const launch = (launchOptions) => chromium.connect(endpoint(here, { 'launch-options': JSON.stringify(launchOptions) }), options);
await refused(launch({ args: ['--mute-audio', '--remote-debugging-address=0.0.0.0'] }), /400[^]*launch-options\.args\[1\][^]*isolation/);
await refused(launch({ executablePath: '/bin/sh' }), /400[^]*launch-options\.executablePath/);
console.log('{}');
