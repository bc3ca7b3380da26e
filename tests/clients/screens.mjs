// The live view's page on screens of every size, and what it says once its session has ended. FLOW says which.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { RED, accessible, acting, open, perform, ringed, says, shot, shown, text, turns } from './live_page.mjs';
import { until } from './session.mjs';

const env = process.env;
const flows = { layout, touch, wide, ended };

const SCREENS = {
  upright: { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true },
  sideways: { viewport: { width: 640, height: 360 }, hasTouch: true, isMobile: true },
  small: { viewport: { width: 900, height: 700 } },
  usual: { viewport: { width: 1440, height: 900 } },
};

const box = (page, id) => page.locator(`#${id}`).boundingBox();

/** On every screen: nothing sticks out, the buttons are one row or a menu, and most of the screen is the picture. */
async function layout() {
  for (const [name, options] of Object.entries(SCREENS)) {
    const page = await open(`${acting(env.STREAM_URL)}&theme=${name === 'small' ? 'dark' : 'light'}`, options);
    const { width, height } = options.viewport;
    await shown(page);
    await says(page, 'who', options.hasTouch ? 'Tap the picture' : 'Click the picture');
    await page.click('#control');
    await says(page, 'who', 'You have control');
    assert.equal(await ringed(page), true);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `${name}: nothing sticks out`);
    const stage = await box(page, 'stage');
    assert.ok(stage.width * stage.height > 0.72 * width * height, `${name}: ${JSON.stringify(stage)}`);
    const menu = name === 'upright';
    assert.equal(await page.locator('#more').isVisible(), menu, name);
    assert.equal(await page.locator('#pause').isVisible(), !menu, name);
    if (menu) {
      await page.click('#more');
      assert.equal(await page.locator('#pause').isVisible(), true);
      await shot(page, 'layout-menu');
      await accessible(page);
      await page.keyboard.press('Escape');
      assert.equal(await page.locator('#pause').isVisible(), false);
      const canvas = await page.locator('#screen canvas').boundingBox();
      assert.ok(canvas.width > width - 10, `the picture fills the width: ${canvas.width}`);
    } else if (name !== 'sideways') {
      const tools = await box(page, 'tools');
      assert.ok(tools.height < 60, `${name}: one row of ${tools.height}`);
    }
    await shot(page, `layout-${name}`);
    await accessible(page);
    await page.click('#control');
    await says(page, 'who', 'the picture to take control');
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
}

/** Two fingers enlarge the picture; the remote page hears of no click. */
async function touch() {
  const page = await open(acting(env.STREAM_URL), SCREENS.upright);
  await shown(page);
  await turns(page, RED);
  const width = async () => (await page.locator('#screen canvas').boundingBox()).width;
  const before = await width();
  const devtools = await page.context().newCDPSession(page);
  const fingers = (type, ...places) =>
    devtools.send('Input.dispatchTouchEvent', { type, touchPoints: places.map((x, id) => ({ id, x, y: 300 })) });
  await fingers('touchStart', 150);
  await fingers('touchStart', 150, 200);
  for (let by = 10; by <= 60; by += 10) await fingers('touchMove', 150 - by, 200 + by);
  await fingers('touchEnd');
  await until('the picture to be larger', async () => (await width()) > before * 1.5);
  assert.equal(await page.title(), 'Turned 0', 'nothing was clicked');
  await page.click('#more');
  await page.click('#zoom');
  await until('the picture to fit again', async () => Math.abs((await width()) - before) < 2);
  assert.deepEqual(page.problems, []);
}

/** A large page on a large screen comes in its own size. */
async function wide() {
  const page = await open(env.STREAM_URL, { viewport: { width: 2560, height: 1500 } });
  await shown(page);
  await until('a picture in full size', () => page.$eval('#screen canvas', (canvas) => canvas.width === 2400));
  await page.setViewportSize({ width: 1000, height: 700 });
  await until('a smaller picture', () => page.$eval('#screen canvas', (canvas) => canvas.width === 1920));
}

/** What ends the session; a time limit does so without anybody's help. */
const ENDS = {
  limit: () => undefined,
  delete: () => fetch(env.SESSION_URL, { method: 'DELETE', headers: { 'service-secret-key': env.WARMPOOL_SECRET_KEY } }),
  crash: async () => {
    const client = await chromium.connectOverCDP(env.WEBSOCKET_URL);
    const devtools = await client.newBrowserCDPSession();
    devtools.send('Browser.crash').catch(() => {});
  },
};

/** What an ended session shows, to a viewer who watched its end and to one who comes later: HEADING, and WORDS below it. */
async function ended() {
  const page = await open(`${env.STREAM_URL}&theme=light`);
  await shown(page);
  await ENDS[env.END]();
  for (const round of ['watched', 'later']) {
    await says(page, 'card-title', env.HEADING);
    await says(page, 'card-text', env.WORDS);
    assert.match(await text(page, 'card-text'), /It lasted .+\./);
    assert.doesNotMatch(await text(page, 'card-text'), /_/, 'no setting is named');
    assert.equal(await page.getAttribute('#status', 'data-tone'), env.END === 'crash' ? 'bad' : 'over', 'red is for failures');
    if (env.RECORDED === 'true') {
      const link = page.locator('#card-links a');
      await link.waitFor();
      const reply = await page.request.get(new URL(await link.getAttribute('href'), page.url()).href);
      assert.equal(reply.status(), 200);
      assert.match(reply.headers()['content-type'], /^video\//);
    } else {
      assert.equal(await page.locator('#card-links').isVisible(), false);
    }
    await shot(page, `ended-${env.END}-${round}`);
    await accessible(page);
    await page.reload();
  }
  assert.deepEqual(page.problems, []);
}

await perform(flows[env.FLOW]);
