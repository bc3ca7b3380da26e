// Audits a page by Lighthouse, from a page beside it. The daemon evaluates this script there and calls what it returns
// (`orchestrator/pages/src/code/runner.rs`); `lighthouse.mjs` is how Lighthouse comes to be in it.

import type { HTTPRequest, HTTPResponse } from 'puppeteer-core/internal/puppeteer-core-browser.js';
import { type Answer, answer } from './answer.js';
import { Connection } from './connection.js';
import { type Config, initializeConfig, lighthouse, screenEmulationMetrics, userAgents } from './lighthouse.js';

/** What the daemon gets (`orchestrator/pages/src/audit.rs`). */
type Outcome =
  | Answer
  /** The configuration names what Lighthouse does not know. */
  | { refused: string }
  | Failure;

/** The page could not be audited. */
interface Failure {
  /** Lighthouse's words. */
  failed: string;
  /** The browser's name of the error, where the page did not open. */
  network?: string;
  /** That of a page which the daemon shows in a site's place. */
  mark?: string;
}

/** How often the page is opened where the network of the browser's young container has changed meanwhile. */
const ATTEMPTS = 3;
const CHANGED = 'ERR_NETWORK_CHANGED';

class AuditRunner extends Connection {
  /** Lighthouse has a screen of its own for its page. */
  async open(): Promise<void> {
    await this.connect(null);
  }

  async run(url: string, given: Config, limit: number): Promise<Outcome> {
    const config = complete(given);
    try {
      await initializeConfig('navigation', config);
    } catch (error) {
      return { refused: words(error) };
    }
    for (let attempt = 1; ; attempt += 1) {
      const network = this.#networkError();
      const outcome = await Promise.race([this.#audit(url, config, limit), network.failed]);
      network.stop();
      if (!('failed' in outcome)) return outcome;
      const { error, status } = network.seen();
      if (attempt < ATTEMPTS && error?.includes(CHANGED)) continue;
      if (error !== undefined) return { ...outcome, network: error };
      // Without a page of the site's own, the browser shows one, of which Lighthouse has no more to say.
      if (status >= 400) return { ...outcome, failed: `the site answered ${status}: ${outcome.failed}` };
      return outcome;
    }
  }

  async #audit(url: string, config: Config, limit: number): Promise<Answer | Failure> {
    try {
      const result = await lighthouse(url, {}, config, this.page);
      if (result === undefined) throw new Error('Lighthouse has no result');
      const { lhr } = result;
      if (lhr.runtimeError === undefined) {
        return await answer({ data: { data: lhr, type: 'json' }, type: 'application/json' }, limit);
      }
      return this.#failure(`${lhr.runtimeError.message} (${lhr.runtimeError.code})`);
    } catch (error) {
      return this.#failure(words(error));
    }
  }

  async #failure(failed: string): Promise<Failure> {
    const read = () => document.querySelector<HTMLMetaElement>('meta[name="warmpool-refusal"]')?.content;
    const mark = await this.page.evaluate(read).catch(() => undefined);
    return { failed, ...(mark === undefined ? {} : { mark }) };
  }

  /**
   * Whether the page's own request fails before a site has answered. `failed` is told at once, since Lighthouse waits for a while;
   * other pages than the first one are Lighthouse's to judge.
   */
  #networkError() {
    const seen: { error?: string; status: number } = { status: 0 };
    let tell: (failure: Failure) => void;
    const failed = new Promise<Failure>((resolve) => (tell = resolve));
    const isMain = (request: HTTPRequest) => request.isNavigationRequest() && request.frame() === this.page.mainFrame();
    const onResponse = (response: HTTPResponse) => {
      if (isMain(response.request()) && response.url() !== 'about:blank') seen.status = response.status();
    };
    const onFailed = (request: HTTPRequest) => {
      const text = request.failure()?.errorText;
      // What another page takes the place of is aborted.
      if (seen.status !== 0 || text === undefined || text.includes('ERR_ABORTED') || !isMain(request)) return;
      seen.error = text;
      if (!text.includes(CHANGED)) tell({ failed: text });
    };
    this.page.on('response', onResponse);
    this.page.on('requestfailed', onFailed);
    return {
      failed,
      seen: () => seen,
      stop: () => {
        this.page.off('response', onResponse);
        this.page.off('requestfailed', onFailed);
      },
    };
  }
}

/** A configuration on top of Lighthouse's own; a screen and a user agent suit the form factor, as by its command line. */
function complete(given: Config): Config {
  const settings = given.settings ?? {};
  const form = settings.formFactor ?? 'mobile';
  return {
    ...given,
    extends: 'lighthouse:default',
    settings: {
      ...settings,
      screenEmulation: { ...screenEmulationMetrics[form], ...settings.screenEmulation },
      emulatedUserAgent: settings.emulatedUserAgent ?? userAgents[form],
    },
  };
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export const runner = new AuditRunner();
