// Small helpers for pages without a framework.

export function find<T extends Element = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as Element as T;
}

type Child = Node | string;

/** A new element. Texts stay texts: no value becomes markup. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Puts these elements into a parent. Those in their places already are not touched: a click that has begun on one goes on, and a selection stays. */
export function arrange(parent: Element, elements: readonly Element[]): void {
  const wanted = new Set(elements);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, at) => {
    if (parent.children[at] !== element) parent.insertBefore(element, parent.children[at] ?? null);
  });
}

/** The same for elements that are made anew each time and listen to nothing: what would look the same stays. */
export function redraw(parent: Element, drawn: readonly Element[]): void {
  const before = [...parent.children];
  arrange(parent, drawn.map((element, at) => (before[at]?.isEqualNode(element) ? before[at] : element)));
}

let addressOf: (code: string) => string | undefined = () => undefined;

/** Says where the codes of the daemon's messages lead to: a session's id to its page. */
export function linkCodes(address: (code: string) => string | undefined): void {
  addressOf = address;
}

function coded(code: string): Node {
  const href = addressOf(code);
  return href === undefined ? make('code', {}, code) : make('a', { href, class: 'id' }, code);
}

/** A message of the daemon's with its `code` as such. */
export function inline(text: string): (Node | string)[] {
  const parts = text.split('`');
  // One without its partner belongs to the text.
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? coded(part) : part)) : [text];
}

/** Puts a message of the daemon's in the place of what an element says. A live region speaks when it is written to, even the same text. */
export function tell(element: HTMLElement, message: string): void {
  if (element.dataset['said'] === message && element.textContent !== '') return;
  element.dataset['said'] = message;
  element.replaceChildren(...inline(message));
}
