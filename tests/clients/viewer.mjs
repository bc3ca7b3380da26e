// A person who watches: the live view's page in a browser of this machine, driven by Playwright. FLOW names what they do,
// STREAM_URL the view, and SHOTS an optional folder for screenshots.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { BLUE, RED, accessible, acting, browser, click, colour, force, go, open, perform, ringed, says, shot, shown, text, turns } from './live_page.mjs';
import { until } from './session.mjs';

const env = process.env;
const flows = { look, takeover, control, pause, tabs, steer, states, share, reconnect, outlive, proxied, play };

/** Watches without the right to act: sees the page turn, and cannot turn it. */
async function look() {
  const page = await open(env.STREAM_URL);
  await shown(page);
  await says(page, 'status-text', 'Live');
  await until('a colour', async () => (await colour(page)) !== 'neither');
  const before = await colour(page);
  assert.equal(await page.locator('#control').isVisible(), false, 'there is no control to take');
  await click(page);
  await page.keyboard.press('F5');
  const socket = env.STREAM_URL.replace('http', 'ws').replace('/stream?', '/stream/socket?');
  await force(page, socket);
  // A viewer with control turns it once: had our click arrived, it would have turned the page back.
  const other = await open(acting(env.STREAM_URL));
  await shown(other);
  await click(other);
  const after = before === RED ? BLUE : RED;
  await turns(page, after);
  await turns(other, after);
  await shot(page, `look-${env.NAME}`);
  assert.deepEqual([...page.problems, ...other.problems], []);
  return { who: await text(page, 'who') };
}

async function takeover() {
  const page = await open(acting(env.STREAM_URL));
  await shown(page);
  await turns(page, RED);
  await click(page);
  await turns(page, BLUE);
  await says(page, 'who', 'You have control');
  assert.equal(await ringed(page), true, 'who has control sees it');
  // The browser on a display has an address bar already; another one comes when it is asked for.
  assert.equal(await page.locator('#place').isVisible(), env.NAME === 'headless');
  // Letters of this keyboard's layout, and of none.
  await page.keyboard.type('Zürich 5 € 日本');
  await page.keyboard.press('Enter');
  await shot(page, `takeover-${env.NAME}`);
  if (env.TABS === 'true') {
    if (env.NAME === 'headed') await page.click('#bars');
    await page.fill('#address', `${env.SITE_URL}/tab/2`);
    await page.press('#address', 'Enter');
    await says(page, 'one-title', 'Tab 2');
    const url = `${env.SITE_URL}/tab/2`;
    assert.equal(await page.inputValue('#address'), url);
    assert.equal(await page.title(), 'Tab 2', 'the title is the page\'s own');
    const selected = () => page.$eval('#address', (field) => field.selectionEnd - field.selectionStart);
    await page.click('#address');
    assert.equal(await selected(), url.length, 'one click selects the address');
    await page.click('#address');
    assert.equal(await selected(), 0, 'another one places the cursor');
    await page.click('#back');
    await until('the page before', async () => !(await text(page, 'one-title')).includes('Tab 2'));
    await page.click('#forward');
    await says(page, 'one-title', 'Tab 2');
    await page.fill('#address', 'file:///etc/passwd');
    await page.press('#address', 'Enter');
    await says(page, 'toast', 'must be http');
  }
  await page.click('#control');
  await says(page, 'who', 'Click the picture');
  assert.equal(await ringed(page), false);
  assert.deepEqual(page.problems, []);
}

async function control() {
  const one = await open(acting(env.STREAM_URL));
  const two = await open(acting(env.STREAM_URL));
  await Promise.all([shown(one), shown(two)]);
  await turns(one, RED);
  await one.click('#control');
  await says(two, 'who', 'Viewer 1 has control');
  await click(two);
  await says(two, 'toast', 'Viewer 1 has control');
  // The click of the one counts, that of the other did not.
  await click(one);
  await turns(two, BLUE);
  await two.click('#control');
  await says(one, 'who', 'Viewer 2 has control');
  await two.close();
  await says(one, 'who', 'Only you are watching');
  await says(one, 'who', 'Click the picture');
  // It can be used without a mouse: the button is reached by Tab, and F8 leaves the picture again.
  await one.locator('#control').focus();
  await one.keyboard.press('Enter');
  await says(one, 'who', 'You have control');
  await until('the keys to go to the picture', () => one.evaluate(() => document.activeElement?.id === 'keys'));
  await one.keyboard.press('F8');
  assert.equal(await one.evaluate(() => document.activeElement?.id), 'control');
  await one.keyboard.press('Shift+Tab');
  assert.equal(await one.evaluate(() => document.activeElement?.id), 'keys', 'and Tab comes back to it');
  await accessible(one);
  await shot(one, 'control');
  assert.deepEqual([...one.problems, ...two.problems], []);
}

/** The client's command waits while a person drives. */
async function pause() {
  const client = await chromium.connectOverCDP(env.WEBSOCKET_URL);
  const [driven] = client.contexts()[0].pages();
  const page = await open(acting(env.STREAM_URL));
  await shown(page);
  await turns(page, RED);
  await page.click('#control');
  await page.click('#pause');
  await page.waitForSelector('#pause[aria-pressed=true]');
  await page.waitForSelector('#paused', { state: 'visible' });
  const looker = await open(env.STREAM_URL);
  await looker.waitForSelector('#paused', { state: 'visible' });
  const answer = driven.evaluate(() => document.title);
  await click(page);
  await turns(page, BLUE);
  await page.click('#pause');
  assert.equal(await answer, 'Turned 1', 'the command was held until the person was done');
  await looker.waitForSelector('#paused', { state: 'hidden' });
  // A viewer who leaves releases control.
  await page.click('#pause');
  await page.waitForSelector('#pause[aria-pressed=true]');
  const held = driven.evaluate(() => document.title);
  await page.close();
  assert.equal(await held, 'Turned 1');
  await client.close();
}

async function tabs() {
  const client = await chromium.connectOverCDP(env.WEBSOCKET_URL);
  const context = client.contexts()[0];
  const page = await open(env.STREAM_URL);
  await shown(page);
  await turns(page, RED);
  const second = await context.newPage();
  await second.goto(`${env.SITE_URL}/tab/1`);
  await second.bringToFront();
  // The tab in front is followed by itself.
  await until('the new tab', async () => (await colour(page)) === 'neither');
  await says(page, 'title', 'Tab 1');
  const options = await page.locator('#title option').allTextContents();
  const turned = options.findIndex((title) => title.startsWith('Turned'));
  await page.selectOption('#title', { index: turned });
  await turns(page, RED);
  await shot(page, 'tabs');
  await context.pages()[0].close();
  // Its tab is gone: back to the one in front.
  await until('the other tab', async () => (await colour(page)) === 'neither');
  assert.deepEqual(page.problems, []);
  await client.close();
}

/** Title, address, history and tabs of a display, by the controls of the page. */
async function steer() {
  const page = await open(acting(`${env.STREAM_URL}&theme=light&address_bar=true`));
  const looker = await open(`${env.STREAM_URL}&theme=dark&address_bar=true`);
  await Promise.all([shown(page), shown(looker)]);
  const at = (wanted) => until(`the address ${wanted}`, async () => (await page.inputValue('#address')) === wanted);
  const go = async (url) => {
    await page.fill('#address', url);
    await page.press('#address', 'Enter');
  };
  await at(`${env.SITE_URL}/turn`);
  for (const id of ['back', 'forward', 'reload']) assert.equal(await page.locator(`#${id}`).isDisabled(), true, `${id} is for the viewer with control`);
  assert.equal(await looker.locator('#history').isVisible(), false);
  await turns(page, RED);
  await click(page);
  await turns(page, BLUE);
  await says(page, 'one-title', 'Turned 1');
  await says(looker, 'one-title', 'Turned 1');
  await page.click('#reload');
  await turns(page, RED);
  await go(`${env.SITE_URL}/tab/2`);
  await says(page, 'one-title', 'Tab 2');
  await at(`${env.SITE_URL}/tab/2`);
  await until('that page to be seen', async () => (await colour(page)) === 'neither');
  await shot(page, `steer-${env.NAME}-light`);
  await shot(looker, `steer-${env.NAME}-dark`);
  await page.click('#back');
  await at(`${env.SITE_URL}/turn`);
  await turns(page, RED);
  await page.click('#forward');
  await says(page, 'one-title', 'Tab 2');
  for (const address of ['file:///etc/passwd', 'javascript:alert(1)']) {
    await go(address);
    await says(page, 'toast', 'must be http');
    await until('the message to go', () => page.locator('#toast').isHidden());
  }
  // A page opens another: a tab, or a window where there are no tabs.
  const opener = `<title>Opener</title><body style=background:red><a style=position:fixed;inset:0 target=_blank href=${env.SITE_URL}/tab/3></a>`;
  await go(`data:text/html,${encodeURIComponent(opener)}`);
  await says(page, 'one-title', 'Opener');
  await turns(page, RED);
  await click(page);
  await page.waitForSelector('#title:not([hidden])');
  const front = (where) => where.evaluate(() => document.querySelector('#title').selectedOptions[0]?.text);
  await until('the new page in front', async () => (await front(page)) === 'Tab 3');
  await until('the new page to be seen', async () => (await colour(page)) === 'neither');
  await at(`${env.SITE_URL}/tab/3`);
  assert.deepEqual((await page.locator('#title option').allTextContents()).sort(), ['Opener', 'Tab 3']);
  assert.equal(await looker.locator('#title').isDisabled(), true);
  await shot(page, `steer-${env.NAME}-two-light`);
  await shot(looker, `steer-${env.NAME}-two-dark`);
  await page.selectOption('#title', { label: 'Opener' });
  await until('the first page in front', async () => (await front(looker)) === 'Opener');
  await turns(page, RED);
  await page.selectOption('#title', { label: 'Tab 3' });
  await until('the second page in front', async () => (await front(looker)) === 'Tab 3');
  await until('the second page to be seen', async () => (await colour(looker)) === 'neither');
  await shot(looker, `steer-${env.NAME}-end`);
  assert.deepEqual([...page.problems, ...looker.problems], []);
}

/** Colours, a phone, and what is shown where there is nothing to watch. */
async function states() {
  const light = await open(`${env.STREAM_URL}&theme=light`);
  const dark = await open(`${env.STREAM_URL}&theme=dark`);
  const system = await open(env.STREAM_URL, { colorScheme: 'dark' });
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(await ground(light), await ground(dark));
  assert.equal(await ground(system), await ground(dark), 'without a theme the system decides');
  const phone = await open(acting(`${env.STREAM_URL}&theme=dark`), { viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });
  await Promise.all([light, dark, phone].map(shown));
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `nothing sticks out on a phone: ${wide}`);
  const box = await phone.locator('#screen canvas').boundingBox();
  const before = await colour(phone);
  await phone.touchscreen.tap(box.x + box.width / 2, box.y + box.height * 0.8);
  await turns(phone, before === RED ? BLUE : RED);
  await phone.click('#more');
  await phone.click('#clipboard');
  for (const [name, page] of Object.entries({ light, dark, phone })) {
    await shot(page, `states-${name}`);
    await accessible(page);
  }
  await phone.keyboard.press('Escape');
  assert.equal(await phone.evaluate(() => document.activeElement?.id), 'more', 'the focus goes back to where it came from');

  const unknown = await open(env.STREAM_URL.replace(/ses_[^/]+/, 'ses_AAAAAAAAAAAAAAAAAAAAAA'));
  await says(unknown, 'card-title', 'No such session');
  const denied = await open(env.STREAM_URL.replace(/token=.*/, 'token=wrong'));
  await says(denied, 'card-title', 'No access');
  for (const [name, page] of Object.entries({ unknown, denied })) {
    await shot(page, `states-${name}`);
    await accessible(page);
  }

  const reply = await fetch(env.SESSION_URL, { method: 'DELETE', headers: { 'service-secret-key': env.WARMPOOL_SECRET_KEY } });
  assert.equal(reply.status, 200);
  for (const page of [light, phone]) {
    await says(page, 'card-title', 'The session has ended');
    await says(page, 'card-text', "The session's owner ended it");
  }
  await dark.reload();
  await says(dark, 'card-text', "The session's owner ended it");
  for (const [name, page] of Object.entries({ light, dark, phone })) {
    await shot(page, `ended-${name}`);
    await accessible(page);
  }
  assert.deepEqual([...light.problems, ...dark.problems, ...phone.problems, ...unknown.problems], []);
}

async function share() {
  const page = await open(env.SHARE_URL);
  await shown(page);
  assert.equal(await page.locator('#control').isVisible(), false);
  // The link decides, and not what its holder adds to the URL.
  const more = await open(acting(env.SHARE_URL));
  await shown(more);
  assert.equal(await more.locator('#control').isVisible(), false);
  const reply = await fetch(env.UNSHARE_URL, { method: 'DELETE', headers: { 'service-secret-key': env.WARMPOOL_SECRET_KEY } });
  assert.equal(reply.status, 204);
  await says(page, 'card-text', 'This link has ended');
  await page.reload();
  await says(page, 'card-title', 'No access');
}

/** The connection breaks; the page comes back by itself, and so does the picture. */
async function reconnect() {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.addInitScript(() => {
    const Native = window.WebSocket;
    window.sockets = [];
    window.WebSocket = class extends Native {
      constructor(...given) {
        super(...given);
        window.sockets.push(this);
      }
    };
  });
  await page.goto(env.STREAM_URL);
  await shown(page);
  await page.evaluate(() => window.sockets[0].close());
  await until('another socket', () => page.evaluate(() => window.sockets.length > 1));
  await says(page, 'status-text', 'Live');
  await turns(page, RED);
  const socket = await page.evaluate(() => window.sockets.length);
  await page.reload();
  await shown(page);
  await turns(page, RED);
  return { socket };
}

/** Reports progress to the test. */
const tell = (what) =>
  fetch(`${env.SITE_URL}/input/${env.NAME}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ what }) });

/** The daemon is killed and comes back: so does what its viewers see, by each address that opened it before. */
async function outlive() {
  const one = await open(acting(env.STREAM_URL));
  const two = await open(env.SHARE_URL);
  await Promise.all([shown(one), shown(two)]);
  await one.click('#control');
  await says(two, 'who', 'has control');
  await Promise.all([turns(one, RED), turns(two, RED)]);
  await tell('watching');
  await Promise.all([one, two].map((page) => says(page, 'status-text', 'Reconnecting')));
  await tell('waiting');
  await Promise.all([one, two].map((page) => says(page, 'status-text', 'Live')));
  await Promise.all([one, two].map((page) => page.waitForSelector('#stage[data-lost=false]')));
  await says(one, 'who', 'Click the picture');
  await click(one);
  await Promise.all([turns(one, BLUE), turns(two, BLUE)]);
  const gone = await open(env.REVOKED_URL);
  await says(gone, 'card-title', 'No access');
}

/** Through a proxy that serves https below a path, and cuts connections on which nothing is said. */
async function proxied() {
  const options = { ignoreHTTPSErrors: true };
  const page = await open('about:blank', options);
  let [sockets, beats] = [0, 0];
  page.on('websocket', (socket) => {
    sockets++;
    socket.on('framereceived', ({ payload }) => (beats += typeof payload === 'string' ? 1 : 0));
  });
  await go(page, acting(env.STREAM_URL));
  await shown(page);
  await turns(page, RED);
  await click(page);
  await turns(page, BLUE);
  const before = beats;
  // Only keepalives pass, for longer than the proxy waits.
  await until('many signs of life', () => beats > before + 8);
  assert.equal(sockets, 1, 'the one connection held');
  await says(page, 'status-text', 'Live');
  const shared = await open('about:blank', options);
  await go(shared, env.SHARE_URL);
  await shown(shared);
  await turns(shared, BLUE);
  assert.deepEqual(page.problems.filter((problem) => !problem.startsWith('asked')), []);
}

/** Plays a recording as any page would, and tells the colours that its middle takes. */
async function play() {
  const page = await browser.newPage();
  const reply = await fetch(env.VIDEO_URL, { headers: { 'service-secret-key': env.WARMPOOL_SECRET_KEY } });
  const body = Buffer.from(await reply.arrayBuffer());
  await page.route('http://player.test/**', (route) =>
    route.fulfill(route.request().url().endsWith('.webm') ? { body, contentType: 'video/webm' } : { body: '', contentType: 'text/html' }),
  );
  await page.goto('http://player.test/');
  return page.evaluate(async () => {
    const video = document.createElement('video');
    const loaded = new Promise((resolve, reject) => {
      video.onloadeddata = resolve;
      video.onerror = () => reject(new Error(video.error.message));
    });
    // Of a whole one any place can be reached.
    video.src = URL.createObjectURL(await (await fetch('/a.webm')).blob());
    await loaded;
    const canvas = document.createElement('canvas');
    const [width, height] = [video.videoWidth, video.videoHeight];
    Object.assign(canvas, { width, height });
    const context = canvas.getContext('2d', { willReadFrequently: true });
    const colours = [];
    for (let part = 1; part <= 20; part++) {
      const seeked = new Promise((resolve) => (video.onseeked = resolve));
      video.currentTime = (video.duration * part) / 20 - 0.001;
      await seeked;
      context.drawImage(video, 0, 0);
      const [red, green, blue] = context.getImageData(Math.floor(width / 2), Math.floor(height * 0.7), 1, 1).data;
      const colour = red > 150 && blue < 100 && green < 100 ? 'red' : blue > 150 && red < 100 ? 'blue' : 'neither';
      if (colours.at(-1) !== colour) colours.push(colour);
    }
    return { seconds: video.duration, width, height, colours };
  });
}

await perform(flows[env.FLOW]);
