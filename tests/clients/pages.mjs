// Steps on the site's pages that flows share.

import assert from 'node:assert/strict';

/** Fills in the form with Playwright; returns what the site got. */
export async function form(page, site) {
  await page.goto(`${site}/form`);
  await page.getByLabel('Name').fill('Ada Lovelace');
  await page.selectOption('#colour', 'green');
  await page.check('#agree');
  await page.click('#send');
  const echo = JSON.parse(await page.textContent('#echo'));
  assert.deepEqual(echo, { name: 'Ada Lovelace', colour: 'green', agree: 'yes' });
  return echo;
}

/** Loads two tabs at once. `opener` has `newPage`: a browser or a context. */
export async function tabs(opener, page, site) {
  const second = await opener.newPage();
  await Promise.all([page.goto(`${site}/tab/1`), second.goto(`${site}/tab/2`)]);
  assert.equal(await page.title(), 'Tab 1');
  assert.equal(await second.title(), 'Tab 2');
  await second.close();
}
