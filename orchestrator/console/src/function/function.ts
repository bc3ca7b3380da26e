// Runs the code of a call of /function or /download, in a page of its own. The daemon evaluates this script there and calls what it
// returns (`orchestrator/pages/src/code/runner.rs`).

import type { Page, Viewport } from 'puppeteer-core/internal/puppeteer-core-browser.js';
import { type Answer, answer } from './answer.js';
import { Connection } from './connection.js';

type Code = (given: { page: Page; context: unknown }) => unknown;

/** As Puppeteer has it. */
const VIEWPORT: Viewport = { width: 800, height: 600 };

class CodeRunner extends Connection {
  async open(viewport: Viewport | null): Promise<void> {
    await this.connect(viewport ?? VIEWPORT);
  }

  async run(code: string, context: unknown, limit: number): Promise<Answer> {
    const page = this.page;
    const address = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
    const module = (await import(address).catch((error: unknown) => {
      // It names the code's own address alone.
      if (!(error instanceof TypeError) || !error.message.includes(address)) throw error;
      throw new Error('a module that it imports cannot be loaded: its site has to answer, and to allow other origins (CORS)');
    })) as { default?: unknown };
    if (typeof module.default !== 'function') {
      throw new TypeError('the module has no function as its default export: write `export default async ({ page, context }) => …`');
    }
    return answer(await (module.default as Code)({ page, context }), limit);
  }
}

export const runner = new CodeRunner();
