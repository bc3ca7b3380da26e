// The first page says whether the daemon is ready, as long as somebody looks.

import { find } from '../shared/dom';
import { write } from '../shared/list';
import { sentence } from '../shared/text';

/** Between two looks. */
const PAUSE = 5000;

async function look(): Promise<void> {
  if (document.visibilityState !== 'visible') return;
  const reply = await fetch('readyz', { cache: 'no-store' }).catch(() => undefined);
  const said = (await reply?.text().catch(() => undefined))?.split('\n')[0];
  const ready = reply?.ok === true;
  find('ready').dataset['ready'] = String(ready);
  write(find('ready-text'), ready ? 'Ready' : said?.startsWith('not ready') ? sentence(said) : 'Warmpool does not answer.');
}

setInterval(() => void look(), PAUSE);
document.addEventListener('visibilitychange', () => void look());
