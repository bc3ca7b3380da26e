// Puppeteer in a page of the browser that it drives: what code and audits have in common.

import { connect, type Page, type Viewport } from 'puppeteer-core/internal/puppeteer-core-browser.js';
import { Transport } from './transport.js';

/** The name of the binding, which the daemon adds to this page alone and which is gone before other code runs. */
const BINDING = 'warmpoolSend';

/** The connection to the browser. The daemon calls its functions (`orchestrator/pages/src/code/runner.rs`). */
export class Connection {
  #transport = new Transport(binding());
  #page?: Page;

  receive(messages: string[]): void {
    this.#transport.receive(messages);
  }

  /** Connects to the browser, and opens a page there. Without a viewport, the browser's window is it. */
  protected async connect(viewport: Viewport | null): Promise<void> {
    const own = location.href;
    const browser = await connect({
      transport: this.#transport,
      defaultViewport: viewport,
      // Code that looks at all pages finds its own alone.
      targetFilter: (target) => target.url() !== own,
    });
    this.#page = await browser.newPage();
    // As in browsers that Puppeteer starts: nobody is there to scroll, and pictures would show the bars.
    const session = await this.#page.createCDPSession();
    await session.send('Emulation.setScrollbarsHidden', { hidden: true });
  }

  /** The page that was opened. */
  protected get page(): Page {
    if (this.#page === undefined) throw new Error('no page is open');
    return this.#page;
  }
}

function binding(): (message: string) => void {
  const scope = globalThis as unknown as Record<string, (message: string) => void>;
  const send = scope[BINDING];
  delete scope[BINDING];
  if (send === undefined) throw new Error('the daemon has added no binding');
  return send;
}
