// Makes the body of a create call from a form. Pure.

import { labelsOf } from './labels';

/** Fields that the API wants as numbers. */
const NUMBERS = ['session_timeout', 'idle_timeout', 'settings.viewport.width', 'settings.viewport.height', 'advanced.proxy.zip'];
/** Fields that are lists. */
const LISTS = ['settings.locales', 'advanced.extension_ids'];
const FLAGS = ['headless', 'keep_alive', 'recording', 'logs', 'kiosk', 'advanced.block_ads', 'advanced.proxy'];

/** The changed fields of a form as the body of a create call. */
export function createBody(values: ReadonlyMap<string, string>): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  const put = (path: string, value: unknown) => {
    const parts = path.split('.');
    let at = body;
    for (const part of parts.slice(0, -1)) {
      if (typeof at[part] !== 'object') at[part] = {};
      at = at[part] as Record<string, unknown>;
    }
    at[parts.at(-1) as string] = value;
  };
  const webdriver = values.get('kind') === 'webdriver';
  for (const [path, given] of values) {
    const text = given.trim();
    if (path === 'kind' || text === '') continue;
    if (path === 'browser_type') {
      if (text !== 'chromium') put(path, text);
    } else if (path === 'app_name') {
      if (webdriver) put(path, text);
    } else if (path === 'profile.mode' && !values.get('profile.name')?.trim()) {
      // There is nothing to save.
    } else if (path === 'metadata') put(path, labelsOf(text));
    else if (path.startsWith('advanced.proxy.') && !(values.has('advanced.proxy') && !webdriver)) {
      // A place counts only where a proxy is wanted, and WebDriver sessions take no place.
    } else if (FLAGS.includes(path)) put(path, true);
    else if (NUMBERS.includes(path)) put(path, Number(text));
    else if (LISTS.includes(path)) put(path, text.split(/[\s,]+/).filter(Boolean));
    else put(path, text);
  }
  return body;
}
