// Sends a call from the page, and shows its answer.

import { make } from '../shared/dom';
import { bytes, duration } from '../shared/format';
import { save } from '../shared/request';

/** Longer texts are shown up to here. */
const MOST = 40_000;

/** A button that sends a request, and a place for its answer. */
export function trying(send: () => Promise<Response>): HTMLElement[] {
  const button = make('button', { type: 'button', class: 'main' }, 'Send');
  const answer = make('div', { class: 'answer', 'aria-live': 'polite' });
  button.addEventListener('click', async () => {
    button.disabled = true;
    answer.replaceChildren(make('p', { class: 'hint' }, 'Waiting for the answer…'));
    try {
      const began = performance.now();
      const reply = await send();
      answer.replaceChildren(...(await shown(reply, performance.now() - began)));
    } catch (error) {
      answer.replaceChildren(make('p', { class: 'problem' }, error instanceof TypeError ? 'Warmpool does not answer.' : error instanceof Error ? error.message : String(error)));
    } finally {
      button.disabled = false;
    }
  });
  return [make('div', { class: 'buttons' }, button), answer];
}

async function shown(reply: Response, ms: number): Promise<HTMLElement[]> {
  const type = reply.headers.get('content-type')?.split(';')[0] ?? '';
  const content = await reply.blob();
  const tone = reply.ok ? 'good' : 'bad';
  const line = make('p', { class: 'member' }, make('code', { class: 'status', 'data-tone': tone }, String(reply.status)), make('span', { class: 'type' }, `${type || 'no content'}, ${bytes(content.size)}, ${duration(ms)}`));
  if (content.size === 0) return [line];
  if (!/^text\/|json/.test(type)) {
    const button = make('button', { type: 'button', class: 'small' }, 'Download');
    button.addEventListener('click', () => save(content, 'answer'));
    return [line, button];
  }
  const text = await content.text();
  return [line, make('pre', { tabindex: '0', role: 'region', 'aria-label': 'The answer' }, pretty(text, type).slice(0, MOST))];
}

function pretty(text: string, type: string): string {
  try {
    return type === 'application/json' ? JSON.stringify(JSON.parse(text), null, 2) : text;
  } catch {
    return text;
  }
}
