// What a client does once it has a browser, timed in the parts that every contender has.

import { now } from '../stats.mjs';

/** Runs a visit: `create`, `attach`, `page` and `release` are the four parts. Answers their milliseconds, and those of the first three together. */
export async function visit({ create, attach, page, release }) {
  const marks = [now()];
  const created = await create();
  marks.push(now());
  const browser = await attach(created);
  marks.push(now());
  const title = await page(browser);
  marks.push(now());
  if (title !== 'Bench') throw new Error(`the page's title is ${title}`);
  await release(created, browser);
  marks.push(now());
  const part = (at) => marks[at + 1] - marks[at];
  return { create: part(0), attach: part(1), page: part(2), release: part(3), total: marks[3] - marks[0] };
}

/** Opens `url` in a new page and reads its title; Puppeteer and Playwright agree on how. */
export async function firstPage(browser, url) {
  const page = await browser.newPage();
  await page.goto(url);
  return page.title();
}
