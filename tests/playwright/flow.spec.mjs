import { expect, test } from '@playwright/test';
import { readFile, writeFile } from 'node:fs/promises';

test('a file goes up by its path', async ({ page }, info) => {
  const path = info.outputPath('note.txt');
  await writeFile(path, 'by the runner');
  await page.goto('/upload');
  await page.locator('#file').setInputFiles(path);
  await page.locator('#send').click();
  await expect(page.locator('#echo')).toContainText('"size":13');
});

test('what is asked for without a page passes the same rules', async ({ page, baseURL }) => {
  expect(await (await page.request.get(`${baseURL}/tab/2`)).text()).toContain('Tab 2');
  await expect(page.request.get('http://10.255.255.1/')).rejects.toThrow();
  expect((await page.goto('http://10.255.255.1/')).status()).toBe(403);
});

test('a file comes down to a path', async ({ page }, info) => {
  await page.goto('/downloads');
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#file').click()]);
  const path = info.outputPath('saved.bin');
  await download.saveAs(path);
  expect((await readFile(path)).length).toBeGreaterThan(0);
  expect(download.suggestedFilename()).toBe('file.bin');
});
