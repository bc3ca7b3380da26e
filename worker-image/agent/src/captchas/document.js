// Runs in a world of its own in each document: finds the challenge that a page puts to its visitor, says how it ends, and
// fills in an answer. Answers are JSON. `byPerson` leaves out what shows nothing that a person could do.
(byPerson => {
  // The agent may learn of a document twice.
  if (globalThis.captchas) return false;
  /** The pause between a change of the document and the look at it, and between two looks at an answer, in milliseconds. */
  const PAUSE = 300;
  const FIELDS = {
    recaptcha_v2: ['g-recaptcha-response'],
    recaptcha_v3: ['g-recaptcha-response'],
    hcaptcha: ['h-captcha-response', 'g-recaptcha-response'],
    turnstile: ['cf-turnstile-response'],
  };
  /** Documents of the widgets themselves. */
  const MAKERS = /(^|\.)(hcaptcha\.com|challenges\.cloudflare\.com|recaptcha\.net)$|^www\.google\.com$/;
  const MAX_PIXELS = 1 << 20;
  /** The most characters of a picture, of a name and of an address. The agent takes no longer ones, and a page may have any. */
  const MAX_IMAGE = 128 << 10;
  const MAX_NAME = 256;
  const MAX_URL = 2000;

  const all = selector => [...document.querySelectorAll(selector)];
  const parameter = (address, name) => {
    try {
      const { searchParams, hash } = new URL(address, document.baseURI);
      return searchParams.get(name) ?? new URLSearchParams(hash.slice(1)).get(name);
    } catch {
      return null;
    }
  };
  const isShown = element => {
    const { width, height } = element.getBoundingClientRect();
    return width > 1 && height > 1 && element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  };

  function* challenges() {
    // Version 3 has a frame as well, of the same key.
    const scored = new Set();
    for (const script of all('script[src*="/recaptcha/api.js"], script[src*="/recaptcha/enterprise.js"]')) {
      const siteKey = parameter(script.src, 'render');
      if (!siteKey || siteKey === 'explicit' || siteKey === 'onload') continue;
      scored.add(siteKey);
      const action = document.querySelector('[data-sitekey][data-action]')?.dataset.action;
      yield { kind: 'recaptcha_v3', element: script, siteKey, action, invisible: true };
    }
    const marks = [
      ['hcaptcha', '.h-captcha[data-sitekey]'],
      ['turnstile', '.cf-turnstile[data-sitekey]'],
      ['recaptcha_v2', '.g-recaptcha[data-sitekey]'],
    ];
    for (const [kind, selector] of marks) {
      for (const element of all(selector)) {
        const { sitekey, size, action } = element.dataset;
        if (scored.has(sitekey)) continue;
        const invisible = size === 'invisible' || element.localName === 'button';
        yield { kind, element, siteKey: sitekey, action, invisible };
      }
    }
    for (const element of all('iframe[src*="/recaptcha/api2/anchor"], iframe[src*="/recaptcha/enterprise/anchor"]')) {
      const siteKey = parameter(element.src, 'k');
      if (scored.has(siteKey)) continue;
      yield { kind: 'recaptcha_v2', element, siteKey, invisible: parameter(element.src, 'size') === 'invisible' };
    }
    for (const element of all('iframe[src*="hcaptcha.com/captcha/"]')) {
      const frame = parameter(element.src, 'frame') ?? '';
      if (!frame.startsWith('checkbox')) continue;
      yield { kind: 'hcaptcha', element, siteKey: parameter(element.src, 'sitekey'), invisible: frame !== 'checkbox' };
    }
    for (const element of all('iframe[src*="challenges.cloudflare.com/"]')) {
      const siteKey = /\/(\dx[\w-]{10,})\//.exec(element.src)?.[1];
      yield { kind: 'turnstile', element, siteKey, invisible: false };
    }
    for (const element of all('img')) {
      const { id, className, alt, name } = element;
      if (!/captcha/i.test(`${id} ${className} ${alt} ${name} ${element.getAttribute('src')?.slice(0, 500)}`)) continue;
      const field = fieldFor(element);
      if (field && element.complete && element.naturalWidth > 1) yield { kind: 'image', element, field, invisible: false };
    }
  }

  /** The field for the characters of a picture: the next one that is called so, or the only one beside it. */
  function fieldFor(image) {
    for (let around = image.parentElement, steps = 0; around && steps < 6; around = around.parentElement, steps += 1) {
      const fields = [...around.querySelectorAll('input:not([type]), input[type=text], input[type=tel], input[type=number]')];
      const named = fields.find(({ id, name, placeholder }) => /captcha|code|verif/i.test(`${id} ${name} ${placeholder}`));
      if (named) return named;
      if (around.localName === 'form') return fields.length === 1 ? fields[0] : null;
    }
    return null;
  }

  /** Where the answer to a widget goes: fields in its own element, else those of the document. */
  function fieldsOf({ kind, element, field }) {
    if (field) return [field];
    const selector = FIELDS[kind].map(name => `[name="${name}"]`).join(', ');
    const own = [...(element.closest('[data-sitekey]') ?? element).querySelectorAll(selector)];
    if (own.length > 0) return own;
    return [...(element.closest('form') ?? document).querySelectorAll(selector)];
  }

  const isAnswered = challenge => challenge.kind !== 'image' && fieldsOf(challenge).some(field => field.value);
  /** Its widget asks for something just now. */
  const asks = ({ kind }) => {
    const frames = { recaptcha_v2: 'iframe[src*="/bframe"]', hcaptcha: 'iframe[src*="frame=challenge"]' }[kind];
    return frames ? all(frames).some(isShown) : false;
  };

  function picture(image) {
    const { naturalWidth: width, naturalHeight: height } = image;
    if (width * height > MAX_PIXELS) return null;
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width, height });
    try {
      canvas.getContext('2d').drawImage(image, 0, 0);
      const encoded = canvas.toDataURL('image/png').replace('data:image/png;base64,', '');
      return encoded.length <= MAX_IMAGE ? encoded : null;
    } catch {
      // A picture of another site may be shown and not read.
      return null;
    }
  }

  const short = name => (name && name.length <= MAX_NAME ? name : null);

  /** Elements whose challenges are over. */
  const done = new WeakSet();
  let current = null;
  let look = null;
  let planned = 0;

  function find() {
    for (const challenge of challenges()) {
      if (done.has(challenge.element) || isAnswered(challenge)) continue;
      if (byPerson && challenge.invisible && !asks(challenge)) continue;
      if (byPerson && challenge.kind === 'recaptcha_v3') continue;
      return challenge;
    }
    return null;
  }

  /** Calls `step` at once and after changes of the document, until it gives something. */
  function until(step) {
    return new Promise(resolve => {
      look = () => {
        const answer = step();
        if (answer === null) return;
        look = null;
        resolve(answer);
      };
      look();
    });
  }
  const plan = () => {
    planned ||= setTimeout(() => {
      planned = 0;
      look?.();
    }, PAUSE);
  };
  if (!MAKERS.test(location.hostname)) {
    new MutationObserver(plan).observe(document, {
      subtree: true,
      childList: true,
      attributeFilter: ['src', 'class', 'data-sitekey', 'style'],
    });
    // A value that changes is no change of the document, and neither is a picture that arrives.
    document.addEventListener('load', plan, { capture: true });
    setInterval(() => look?.(), PAUSE * 2);
  }

  const set = (field, value) => {
    const proto = field.localName === 'textarea' ? HTMLTextAreaElement.prototype : HTMLInputElement.prototype;
    Object.getOwnPropertyDescriptor(proto, 'value').set.call(field, value);
    if (field.localName === 'textarea') field.textContent = value;
    for (const type of ['input', 'change']) field.dispatchEvent(new Event(type, { bubbles: true }));
  };

  globalThis.captchas = {
    /** Waits for a challenge. */
    async next() {
      current = await until(() => (MAKERS.test(location.hostname) ? null : find()));
      const { kind, element, siteKey, action, invisible } = current;
      const image = kind === 'image' ? picture(element) : null;
      const url = location.href.slice(0, MAX_URL);
      return JSON.stringify({ kind, siteKey: short(siteKey), action: short(action), invisible, image, url });
    },
    /** Waits until the challenge is over without our doing; says whether it was solved. */
    async ended() {
      const { element } = current;
      return until(() => {
        if (isAnswered(current)) return 'true';
        return element.isConnected ? null : 'false';
      });
    },
    /** Fills in the answer; says whether there was a place for it. */
    fill(answer) {
      const { kind, element } = current;
      done.add(element);
      look = null;
      const fields = fieldsOf(current);
      for (const field of fields) set(field, answer);
      // A script that asked for a score reads the answer from a call and not from a field.
      return String(element.isConnected && (fields.length > 0 || kind !== 'image'));
    },
    /** Leaves the challenge alone from now on. */
    leave() {
      done.add(current.element);
      look = null;
      return 'true';
    },
  };
  return true;
})
