// A recording played by @puppeteer/replay, the Recorder's own player, in a session of Warmpool: what a run of the same
// recording is held against. RECORDING is the file, VALUES what its templates stand for, AGENT the user agent.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { PuppeteerRunnerExtension, createRunner, parse } from '@puppeteer/replay';
import puppeteer from 'puppeteer-core';
import { Session, run } from './session.mjs';

/** Of the custom steps only the branch changes the page; the others read it. */
class Player extends PuppeteerRunnerExtension {
  async runStep(step, flow) {
    if (step.frame && step.assertedEvents) {
      // Where the click in a frame moves the page around it, the player would wait in the frame, which goes away.
      const { assertedEvents, ...click } = step;
      const [url] = assertedEvents.map((event) => event.url.replace(/\*.*/, ''));
      await Promise.all([this.page.waitForNavigation(), super.runStep(click, flow)]);
      assert.ok(this.page.url().startsWith(url), `${this.page.url()} is where the step leads: ${url}`);
      return undefined;
    }
    if (step.type !== 'customStep') return super.runStep(step, flow);
    if (step.name !== 'lam:ifExists') return undefined;
    const { selectors, steps, else: otherwise = [] } = step.parameters;
    const chosen = (await this.page.$(selectors)) ? steps : otherwise;
    for (const inner of parse({ title: step.name, steps: chosen }).steps) await this.runStep(inner, flow);
    return undefined;
  }
}

await run(async (settings) => {
  const values = JSON.parse(process.env.VALUES);
  const text = (await readFile(process.env.RECORDING, 'utf8')).replace(/\{\{(?:input|secret)\.(\w+)\}\}/g, (_, name) => {
    assert.ok(name in values, `a value for ${name}`);
    return JSON.stringify(values[name]).slice(1, -1);
  });
  const recording = parse(JSON.parse(text));
  const session = await Session.create(settings, '', {
    url: 'about:blank',
    headless: true,
    settings: { user_agent: process.env.AGENT },
  });
  const browser = await puppeteer.connect({ browserWSEndpoint: session.websocket_url, defaultViewport: null });
  const [page] = await browser.pages();
  const runner = await createRunner(recording, new Player(browser, page, { timeout: 15_000 }));
  assert.equal(await runner.run(), true, 'the recording is played to its end');
  const left = await page.evaluate(() => ({ url: location.href, title: document.title, body: document.body.innerHTML }));
  await browser.close();
  return left;
});
