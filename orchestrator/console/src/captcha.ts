// The banner of a challenge that waits: what it is, and what the person who looks at it can say of it.

import type { Connection } from './connection';
import type { State } from './protocol';

const NAMES: Record<string, string> = {
  recaptcha_v2: 'reCAPTCHA',
  recaptcha_v3: 'reCAPTCHA',
  hcaptcha: 'hCaptcha',
  turnstile: 'Turnstile',
  image: 'picture puzzle',
};

const find = (id: string) => document.getElementById(id) as HTMLElement;
const button = (id: string) => find(id) as HTMLButtonElement;

export class CaptchaBanner {
  /** The tab that the challenge is in. */
  #tab: string | null = null;
  /** When it was found: a verdict is on the challenge that the person sees. */
  #since = 0;

  constructor(connection: Connection, show: (tab: string) => void) {
    button('captcha-show').addEventListener('click', () => this.#tab && show(this.#tab));
    const say = (act: 'solved' | 'give_up') => connection.send({ type: 'captcha', act, since: this.#since });
    button('captcha-solved').addEventListener('click', () => say('solved'));
    button('captcha-give-up').addEventListener('click', () => say('give_up'));
  }

  /** `acting` says whether this viewer has control; `front` is the tab that they see. */
  render({ captcha }: State, mayAct: boolean, acting: boolean, front: string | undefined): void {
    find('captcha').hidden = !captcha;
    if (!captcha) return;
    this.#tab = captcha.tab;
    this.#since = captcha.since;
    const name = NAMES[captcha.kind] ?? 'CAPTCHA';
    const person = captcha.by === 'person';
    const how = !mayAct ? 'Somebody with control can solve it.' : acting ? 'Solve it in the picture.' : 'Take control to solve it.';
    const text = person ? `The page shows a CAPTCHA: ${name}. ${how}` : `A service is solving the page’s CAPTCHA: ${name}.`;
    if (find('captcha-text').textContent !== text) find('captcha-text').textContent = text;
    for (const id of ['captcha-solved', 'captcha-give-up']) {
      button(id).hidden = !person || !acting;
    }
    button('captcha-show').hidden = captcha.tab === null || captcha.tab === front;
  }
}
