// All input of a person in a live view: STREAM_URL is the view, with SITE_URL/input/NAME open in it, a page that reports
// what is done to it. DRIVER_URL, if there is one, is the WebDriver address of the same session.

import assert from 'node:assert/strict';
import { acting, force, open, perform, says, shot, shown, turns, BLUE, RED } from './live_page.mjs';
import { until } from './session.mjs';

const env = process.env;
const TOUCH = env.TOUCH === 'true';

/** What the page has reported so far. */
async function report() {
  const reply = await fetch(`${env.SITE_URL}/reported/${env.NAME}`);
  return reply.ok ? reply.json() : undefined;
}

/** Waits until the page's report satisfies `probe`, for at most this many seconds. */
async function reports(what, probe, seconds = 15) {
  let last;
  try {
    return await until(what, async () => {
      last = await report();
      return last && probe(last) && last;
    }, seconds);
  } catch (error) {
    throw new Error(`${error.message}: ${JSON.stringify(last)}`);
  }
}

/** The picture shows what the page reports. */
async function turned(page) {
  await turns(page, (await report()).clicks % 2 ? BLUE : RED);
}

/** Where the remote page's top left corner is in the picture, found by pointing at it. */
async function calibrate(page) {
  const { width, height } = await page.locator('#screen canvas').evaluate(({ width, height }) => ({ width, height }));
  const at = async (x, y) => {
    const box = await page.locator('#screen canvas').boundingBox();
    return { x: box.x + (x * box.width) / width, y: box.y + (y * box.height) / height };
  };
  const middle = { x: Math.round(width * 0.3), y: Math.round(height * 0.7) };
  // Not before the picture has found its size.
  const seen = await until('the pointer to be seen', async () => {
    for (const away of [7, 0]) {
      const place = await at(middle.x + away, middle.y);
      await page.mouse.move(place.x, place.y);
      await until('a move', async () => (await report())?.at);
    }
    const now = await report();
    return Math.abs(now.at.x - middle.x) < 3 && now;
  });
  const top = middle.y - seen.at.y;
  return { left: middle.x - seen.at.x, top, at: (x, y) => at(x + (middle.x - seen.at.x), y + top) };
}

/** A key of a person's keyboard, as the browser reports it to the page. */
async function key(page, key, code, { keyCode = 0, location = 0, graph = false, control = false } = {}) {
  const given = { key, code, keyCode, location, graph, control };
  await page.evaluate(({ graph, control, ...given }) => {
    const field = document.querySelector('#keys');
    const modifiers = { modifierAltGraph: graph, ctrlKey: control, altKey: control };
    for (const type of ['keydown', 'keyup']) {
      field.dispatchEvent(new KeyboardEvent(type, { ...modifiers, ...given, bubbles: true, cancelable: true }));
    }
  }, given);
}

async function held(page, down, key, code, init = {}) {
  await page.evaluate(
    ([type, given]) => document.querySelector('#keys').dispatchEvent(new KeyboardEvent(type, { ...given, bubbles: true, cancelable: true })),
    [down ? 'keydown' : 'keyup', { key, code, ...init }],
  );
}

async function empty(page) {
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete');
  await reports('an empty field', ({ value }) => value === '');
}

async function keyboard(page, { at }) {
  const field = await at(300, 40);
  await page.mouse.click(field.x, field.y);
  // WebKit may take a key before a click that came earlier.
  await reports('the field to have the keys', ({ focused }) => focused);
  await page.keyboard.type('Az 9!');
  await key(page, 'ä', 'Quote', { keyCode: 222 });
  // As on Linux, and as on Windows, where AltGr comes with a Control.
  await key(page, 'AltGraph', 'AltRight', { keyCode: 225 });
  await key(page, '@', 'KeyQ', { keyCode: 81, graph: true });
  await held(page, true, 'Control', 'ControlLeft', { ctrlKey: true, keyCode: 17 });
  await held(page, true, 'AltGraph', 'AltRight', { ctrlKey: true, altKey: true, keyCode: 18, modifierAltGraph: true });
  await key(page, '€', 'KeyE', { keyCode: 69, graph: true, control: true });
  await held(page, false, 'Control', 'ControlLeft', { keyCode: 17 });
  await held(page, false, 'AltGraph', 'AltRight', { keyCode: 18 });
  await key(page, '5', 'Numpad5', { keyCode: 101, location: 3 });
  await page.keyboard.press('Enter');
  await page.keyboard.type('x');
  await page.keyboard.press('Backspace');
  const wanted = 'Az 9!ä@€5\n';
  await reports('what was typed', ({ value, held }) => value === wanted && held.length === 0);
  // An input method is at its text, drops it, and begins anew.
  const cdp = await page.context().newCDPSession(page);
  for (const text of ['に', 'にほ', '', 'にほんご']) {
    await cdp.send('Input.imeSetComposition', { text, selectionStart: text.length, selectionEnd: text.length });
  }
  await cdp.send('Input.insertText', { text: '日本語' });
  await reports('what was composed', ({ value }) => value === `${wanted}日本語`);
  await page.keyboard.insertText('한국어 😀');
  await reports('text from nowhere', ({ value }) => value === `${wanted}日本語한국어 😀`);
  await empty(page);
  // More letters than any keyboard has keys.
  const many = String.fromCodePoint(...Array.from({ length: 300 }, (_, at) => 0x4e00 + at * 7));
  await page.keyboard.insertText(many);
  // A browser on a display reads the whole keyboard again for each letter that gets a key.
  await reports('very many letters', ({ value }) => value === many, 60);
  await empty(page);
}

async function clipboard(page) {
  const mine = 'clip → äöü 日本 😀';
  await page.click('#clipboard');
  await page.fill('#clip-text', mine);
  await page.click('#clip-paste');
  await reports('what was pasted from the panel', ({ value }) => value === mine);
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'keys', 'the keys go on');
  await page.evaluate((text) => navigator.clipboard.writeText(text), ' and more');
  await page.keyboard.press('Control+v');
  await reports('what was pasted by its keys', ({ value }) => value === `${mine} and more`);
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Control+c');
  await until('the copy', async () => (await page.inputValue('#clip-text')) === `${mine} and more`);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `${mine} and more`);
  await empty(page);
}

async function pointer(page, { at }) {
  const pad = await at(400, 300);
  const before = await report();
  await page.mouse.click(pad.x, pad.y);
  await reports('a click', ({ clicks }) => clicks === before.clicks + 1);
  // Not so near the last one that three become of two.
  // A display takes the time between two clicks as it comes. On a busy machine they may be too far apart: a person tries again.
  let doubled;
  for (let tries = 1; doubled === undefined || (doubled.doubles === 0 && tries <= 4); tries++) {
    const far = await at(540 - 40 * tries, 200);
    await page.mouse.dblclick(far.x, far.y, { delay: 40 });
    doubled = await reports('two clicks', ({ clicks }) => clicks === before.clicks + 1 + 2 * tries);
  }
  await reports('a double click', ({ doubles }) => doubles > 0);
  await page.mouse.click(pad.x, pad.y, { button: 'right' });
  await reports('a right click', ({ rights }) => rights === 1);
  await page.mouse.wheel(0, 300);
  await reports('the wheel', ({ wheel }) => wheel > 0);
  const [from, to] = [await at(300, 250), await at(600, 350)];
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps: 5 });
  await page.mouse.up();
  const near = (text, kind, x, y) => {
    const [type, ...place] = text.split(' ');
    return type === kind && Math.abs(place[0] - x) <= 2 && Math.abs(place[1] - y) <= 2;
  };
  await reports('a drag', ({ drag }) => near(drag.at(-2), 'mousedown', 300, 250) && near(drag.at(-1), 'mouseup', 600, 350));
  await turned(page);
}

async function finger() {
  const phone = await open(acting(env.STREAM_URL), { viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });
  await shown(phone);
  const before = await report();
  const box = await phone.locator('#screen canvas').boundingBox();
  await phone.touchscreen.tap(box.x + box.width / 2, box.y + box.height * 0.7);
  await says(phone, 'who', 'You have control');
  await reports('a tap', ({ clicks }) => clicks === before.clicks + 1);
  await turned(phone);
  assert.equal((await report()).touches > 0, TOUCH, 'a finger is a finger where the browser can be told so');
  await shot(phone, `input-phone-${env.NAME}`);
  assert.deepEqual(phone.problems, []);
  await phone.context().close();
}

/** Two viewers who may act, one at a time. */
async function control(one) {
  const two = await open(acting(env.STREAM_URL));
  await shown(two);
  await says(one, 'who', 'You have control');
  await says(two, 'who', 'has control');
  await two.bringToFront();
  // The first viewer holds it when the second takes over, which releases it.
  await held(one, true, 'Shift', 'ShiftLeft', { shiftKey: true, keyCode: 16 });
  await reports('a key that is held', ({ held }) => held.includes('ShiftLeft'));
  await two.click('#control');
  await says(one, 'who', 'has control');
  await says(two, 'who', 'You have control');
  await reports('the key that was let go of', ({ held }) => held.length === 0);
  const before = await report();
  await one.keyboard.type('nothing');
  await force(one, one.url().replace('http', 'ws').replace('/stream?', '/stream/socket?').replaceAll('&enable_actions=true', ''));
  // What the viewer with control does comes after all of it.
  await held(two, true, 'Shift', 'ShiftLeft', { shiftKey: true, keyCode: 16 });
  const after = await reports('a key of the other', ({ held }) => held.includes('ShiftLeft'));
  assert.deepEqual(after, { ...before, keys: before.keys + 1, held: ['ShiftLeft'] }, 'nobody else did anything');
  // A key that is held when its window loses the focus goes up.
  await two.evaluate(() => document.querySelector('#keys').focus());
  await two.evaluate(() => document.querySelector('#keys').blur());
  await reports('the key that the lost focus released', ({ held }) => held.length === 0);
  await two.click('#control');
  await says(one, 'who', 'Click the picture');
  await two.click('#control');
  await says(two, 'who', 'You have control');
  await held(two, true, 'Shift', 'ShiftLeft', { shiftKey: true, keyCode: 16 });
  await reports('a key that is held', ({ held }) => held.includes('ShiftLeft'));
  assert.deepEqual(two.problems, []);
  await two.context().close();
  await says(one, 'who', 'Only you are watching');
  await says(one, 'who', 'Click the picture');
  await reports('the key of a viewer who has left', ({ held }) => held.length === 0);
}

/** The commands of a WebDriver client wait while a person drives, in their order. */
async function pause(page) {
  const driver = async (method, path, body) => {
    const reply = await fetch(`${env.DRIVER_URL}${path}`, { method, body: body && JSON.stringify(body), headers: { 'content-type': 'application/json' } });
    const { value } = await reply.json();
    assert.equal(reply.status, 200, JSON.stringify(value));
    return value;
  };
  const run = (script) => driver('POST', '/execute/sync', { script, args: [] });
  const before = await report();
  await page.click('#control');
  await page.click('#pause');
  await says(page, 'who', 'the client is paused');
  let answered = 0;
  const clicks = run('return window.seen.clicks').then((value) => (answered++, value));
  const title = driver('POST', '/element', { using: 'css selector', value: '#pad' }).then(() => answered++);
  const pad = await calibrate(page).then(({ at }) => at(400, 300));
  await page.mouse.click(pad.x, pad.y);
  await reports('a click in the pause', (now) => now.clicks === before.clicks + 1);
  assert.equal(answered, 0, 'the client waits');
  await page.click('#pause');
  assert.equal(await clicks, before.clicks + 1, 'it was held, and not lost');
  await title;
  await page.click('#pause');
  await says(page, 'who', 'the client is paused');
  const still = run('return 6 * 7');
  await page.click('#control');
  assert.equal(await still, 42, 'the client goes on when control is released');
}

await perform(async () => {
  const page = await open(acting(env.STREAM_URL), { permissions: ['clipboard-read', 'clipboard-write'] });
  await shown(page);
  await reports('that it is there', () => true);
  await page.locator('#control').focus();
  await page.keyboard.press('Enter');
  await says(page, 'who', 'You have control');
  const place = await calibrate(page);
  await keyboard(page, place);
  await clipboard(page);
  await pointer(page, place);
  await shot(page, `input-${env.NAME}`);
  await control(page);
  if (env.DRIVER_URL) await pause(page);
  await page.context().close();
  await finger();
  assert.deepEqual(page.problems, []);
  return { who: 'done' };
});
