// Runs the code of a call of /function or /download, in a page of its own. The daemon evaluates this script there and calls what it
// returns (`orchestrator/pages/src/code/runner.rs`).

import { connect, type Page, type Viewport } from 'puppeteer-core/internal/puppeteer-core-browser.js';
import { type Answer, answer } from './answer.js';
import { Transport } from './transport.js';

type Code = (given: { page: Page; context: unknown }) => unknown;

/** The name of the binding, which the daemon adds to this page alone and which is gone before other code runs. */
const BINDING = 'warmpoolSend';

class Runner {
  #transport: Transport;
  #page?: Page;

  constructor(send: (message: string) => void) {
    this.#transport = new Transport(send);
  }

  receive(messages: string[]): void {
    this.#transport.receive(messages);
  }

  /** Connects to the browser, and opens a page there for the code. */
  async open(viewport: Viewport | null): Promise<void> {
    const own = location.href;
    const browser = await connect({
      transport: this.#transport,
      ...(viewport === null ? {} : { defaultViewport: viewport }),
      // Code that looks at all pages finds its own alone.
      targetFilter: (target) => target.url() !== own,
    });
    this.#page = await browser.newPage();
    // As in browsers that Puppeteer starts: nobody is there to scroll, and pictures would show the bars.
    const session = await this.#page.createCDPSession();
    await session.send('Emulation.setScrollbarsHidden', { hidden: true });
  }

  async run(code: string, context: unknown, limit: number): Promise<Answer> {
    const page = this.#page;
    if (page === undefined) throw new Error('no page is open');
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

const scope = globalThis as unknown as Record<string, (message: string) => void>;
const send = scope[BINDING];
delete scope[BINDING];
if (send === undefined) throw new Error('the daemon has added no binding');

export const runner = new Runner(send);
