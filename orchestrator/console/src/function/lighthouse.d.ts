// What of Lighthouse is used. Its own types want those of Node, which no page has.

import type { Page } from 'puppeteer-core/internal/puppeteer-core-browser.js';

export type FormFactor = 'mobile' | 'desktop';

/** The daemon has checked it (`orchestrator/pages/src/request/audit.rs`). */
export interface Config {
  extends?: 'lighthouse:default';
  settings?: {
    formFactor?: FormFactor;
    screenEmulation?: object;
    emulatedUserAgent?: string | boolean;
  };
}

export interface Result {
  runtimeError?: { code: string; message: string };
}

export function lighthouse(url: string, flags: object, config: Config, page: Page): Promise<{ lhr: Result } | undefined>;
/** Rejects a configuration that cannot be used. */
export function initializeConfig(mode: 'navigation', config: Config): Promise<unknown>;
export const screenEmulationMetrics: Record<FormFactor, object>;
export const userAgents: Record<FormFactor, string>;
