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
  /** Ends the stream that is shown. */
  let stop: (() => void) | undefined;
  button.addEventListener('click', async () => {
    if (stop) return stop();
    button.disabled = true;
    answer.replaceChildren(make('p', { class: 'hint' }, 'Waiting for the answer…'));
    try {
      const began = performance.now();
      const reply = await send();
      if (reply.body && typeOf(reply) === 'text/event-stream') {
        const reader = reply.body.getReader();
        stop = () => void reader.cancel();
        button.textContent = 'Stop';
        button.disabled = false;
        await follow(reply, reader, answer);
      } else answer.replaceChildren(...(await shown(reply, performance.now() - began)));
    } catch (error) {
      const problem = make('p', { class: 'problem' }, error instanceof TypeError ? 'Warmpool does not answer.' : error instanceof Error ? error.message : String(error));
      // What has come of a stream that broke off stays.
      if (stop) answer.append(problem);
      else answer.replaceChildren(problem);
    } finally {
      stop = undefined;
      button.textContent = 'Send';
      button.disabled = false;
    }
  });
  return [make('div', { class: 'buttons' }, button), answer];
}

const typeOf = (reply: Response): string => reply.headers.get('content-type')?.split(';')[0] ?? '';

/** The status of an answer, and what else there is to say about it. */
function head(reply: Response, about: string): HTMLElement {
  return make('p', { class: 'member' }, make('code', { class: 'status', 'data-tone': reply.ok ? 'good' : 'bad' }, String(reply.status)), make('span', { class: 'type' }, about));
}

function textBox(text: string): HTMLElement {
  return make('pre', { tabindex: '0', role: 'region', 'aria-label': 'The answer' }, text);
}

/** Shows the newest part of a stream as it comes, until it ends. */
async function follow(reply: Response, reader: ReadableStreamDefaultReader<Uint8Array>, answer: HTMLElement): Promise<void> {
  const box = textBox('');
  // Nobody wants all of it read out.
  box.setAttribute('aria-live', 'off');
  answer.replaceChildren(head(reply, `${typeOf(reply)}, as it comes`), box);
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    box.append(decoder.decode(value, { stream: true }));
    while ((box.textContent ?? '').length > MOST && box.childNodes.length > 1) box.firstChild?.remove();
  }
}

async function shown(reply: Response, ms: number): Promise<HTMLElement[]> {
  const type = typeOf(reply);
  const content = await reply.blob();
  const line = head(reply, `${type || 'no content'}, ${bytes(content.size)}, ${duration(ms)}`);
  if (content.size === 0) return [line];
  if (!/^text\/|json/.test(type)) {
    const button = make('button', { type: 'button', class: 'small' }, 'Download');
    button.addEventListener('click', () => save(content, 'answer'));
    return [line, button];
  }
  const text = await content.text();
  return [line, textBox(pretty(text, type).slice(0, MOST))];
}

function pretty(text: string, type: string): string {
  try {
    return type === 'application/json' ? JSON.stringify(JSON.parse(text), null, 2) : text;
  } catch {
    return text;
  }
}
