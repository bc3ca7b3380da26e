// What the console's parts need of a browser, as far as their unit tests use them: elements by their ids, and a daemon that
// answers when the test says so.

/** Takes these from where they are. */
function take(children, parent) {
  for (const child of children) {
    if (!(child instanceof Place)) continue;
    child.remove();
    child.parent = parent;
    child.puts += 1;
  }
}

class Place extends EventTarget {
  children = [];
  parent = undefined;
  /** How often it was put somewhere: what stays in its place keeps a selection, and a click that has begun. */
  puts = 0;
  dataset = {};
  style = {};
  hidden = false;
  value = '';
  classList = { contains: () => false };
  #attributes = new Set();

  get textContent() {
    return this.children.map((child) => (typeof child === 'string' ? child : child.textContent)).join('');
  }

  set textContent(text) {
    this.children = text ? [text] : [];
  }

  append(...children) {
    take(children, this);
    this.children.push(...children);
  }

  prepend(...children) {
    take(children, this);
    this.children.unshift(...children);
  }

  insertBefore(child, before) {
    take([child], this);
    this.children.splice(before ? this.children.indexOf(before) : this.children.length, 0, child);
  }

  replaceChildren(...children) {
    take(children, this);
    this.children = children;
  }

  setAttribute(name) {
    this.#attributes.add(name);
  }

  removeAttribute(name) {
    this.#attributes.delete(name);
  }

  hasAttribute(name) {
    return this.#attributes.has(name);
  }

  querySelector() {
    return null;
  }

  querySelectorAll() {
    return [];
  }

  contains() {
    return false;
  }

  isEqualNode(other) {
    return this.textContent === other.textContent;
  }

  remove() {
    if (this.parent) this.parent.children = this.parent.children.filter((child) => child !== this);
    this.parent = undefined;
  }
}

const places = new Map();

/** The element of this id. */
export function place(id) {
  if (!places.has(id)) places.set(id, new Place());
  return places.get(id);
}

/** Values of all forms. */
export const form = new Map();

Object.assign(globalThis, {
  document: Object.assign(new EventTarget(), { getElementById: place, createElement: () => new Place(), querySelectorAll: () => [], querySelector: () => null }),
  location: { href: 'http://daemon/console/' },
  Element: Place,
  FormData: class extends Map {
    constructor() {
      super(form);
    }
  },
  Option: Place,
  matchMedia: () => new EventTarget(),
  requestAnimationFrame: (act) => setImmediate(act),
  window: globalThis,
});

/** The calls that have no answer yet, and what takes the next one. */
let waiting = [];
let takes = [];

globalThis.fetch = (url, { method = 'GET', headers, signal }) => {
  const { pathname, search } = new URL(url, location.href);
  return new Promise((resolve, reject) => {
    const call = { what: `${method} ${pathname.slice(1)}${search}`, headers, answer: (body, init) => resolve(new Response(typeof body === 'string' || body instanceof ReadableStream ? body : JSON.stringify(body), init)), fail: () => reject(new TypeError('no connection')) };
    signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
    const take = takes.shift();
    if (take) take(call);
    else waiting.push(call);
  });
};

/** The next call of the page. */
export function asked() {
  const call = waiting.shift();
  return call ? Promise.resolve(call) : new Promise((resolve) => takes.push(resolve));
}

/** Whether the page asks for nothing more, once it has done all that it can. */
export async function atRest() {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  const rest = waiting.map(({ what }) => what);
  [waiting, takes] = [[], []];
  return rest.length === 0 || rest;
}

/** A body whose parts come when the test says so. */
export function parts() {
  let to;
  const body = new ReadableStream({ start: (controller) => (to = controller) });
  return { body, send: (text) => to.enqueue(new TextEncoder().encode(text)), end: () => to.close(), breakOff: () => to.error(new TypeError('network error')) };
}
