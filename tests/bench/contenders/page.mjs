// What a client does once it has a browser, timed in the parts that every contender has.

import { now } from '../stats.mjs';

/**
 * Runs a visit to `url`: `create` and `attach` give a browser, `release` takes it back. Puppeteer and Playwright agree on all
 * between. Answers the milliseconds of the parts, and of all but the last together.
 */
export async function visit(url, { create, attach, release }) {
  const marks = [now()];
  const created = await create();
  marks.push(now());
  const browser = await attach(created);
  marks.push(now());
  const page = await browser.newPage();
  marks.push(now());
  await page.goto(url);
  const title = await page.title();
  marks.push(now());
  if (title !== 'Bench') throw new Error(`the page's title is ${title}`);
  await release(created, browser);
  marks.push(now());
  const part = (at) => marks[at + 1] - marks[at];
  const whole = { total: marks[4] - marks[0] };
  return { create: part(0), attach: part(1), open: part(2), load: part(3), release: part(4), ...whole };
}
