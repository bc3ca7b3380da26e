// What a task does inside a page. It is sent along with each command and leaves nothing behind, so a page cannot wait
// for it, and the three engines do the same.
const page = (() => {
  'use strict';

  const one_line = (text) => text.replace(/\s+/g, ' ').trim();
  const fault = (code, message) => ({ fault: { code, message } });
  const tag = (element) => element.localName;

  // Every element below a root in the order of the document, those in shadow roots included.
  function* within(root) {
    const stack = [root.firstElementChild];
    while (stack.length > 0) {
      const element = stack.pop();
      if (!element) continue;
      yield element;
      stack.push(element.nextElementSibling, element.firstElementChild);
      if (element.shadowRoot) stack.push(element.shadowRoot.firstElementChild);
    }
  }

  const is_seen = (element) => {
    const { visibility } = getComputedStyle(element);
    if (visibility === 'hidden' || visibility === 'collapse') return false;
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };

  // ---- Text

  const silent = new Set(['script', 'style', 'noscript', 'template', 'head', 'title']);
  const unvalued = new Set(['checkbox', 'radio', 'image', 'file', 'hidden']);
  const has_value = (element) =>
    tag(element) === 'textarea' || (tag(element) === 'input' && !unvalued.has(element.type));
  const chosen = (select) => [...select.selectedOptions].map((option) => option.label).join(' ');

  const blocks = new Set(('address article aside blockquote br caption dd details dialog div dl dt fieldset figcaption ' +
    'figure footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol option p pre section summary table tbody td ' +
    'tfoot th thead tr ul').split(' '));

  const children = (node) => {
    if (node.shadowRoot) return node.shadowRoot.childNodes;
    if (node.localName === 'slot' && node.assignedNodes().length > 0) return node.assignedNodes();
    return node.childNodes;
  };

  // The text of a tree as it is drawn, but told from its elements alone, so that every engine tells the same.
  const text_of = (root) => {
    let text = '';
    const read = (node) => {
      if (node.nodeType === 3) {
        text += node.nodeValue;
        return;
      }
      if (node.nodeType === 1) {
        if (silent.has(tag(node)) && node !== root) return;
        if (has_value(node)) {
          text += ' ' + node.value + ' ';
          return;
        }
        if (tag(node) === 'select') {
          text += ' ' + chosen(node) + ' ';
          return;
        }
      }
      const block = blocks.has(node.localName);
      if (block) text += ' ';
      for (const child of children(node)) read(child);
      if (block) text += ' ';
    };
    read(root);
    return one_line(text);
  };

  function by_text(root, wanted) {
    const known = new Map();
    // The text with nothing between its pieces, as the Recorder looks for it.
    const full = (node) => {
      if (known.has(node)) return known.get(node);
      let text = '';
      if (node.nodeType === 3) text = node.nodeValue;
      else if (node.nodeType === 1 && has_value(node)) text = node.value;
      else {
        for (const child of node.childNodes) if (child.nodeType !== 8) text += full(child);
        if (node.shadowRoot) text += full(node.shadowRoot);
      }
      known.set(node, text);
      return text;
    };
    const found = [];
    const look = (node) => {
      let below = false;
      const next = [...(node.shadowRoot ? node.shadowRoot.children : []), ...(node.children ?? [])];
      for (const child of next) {
        if (silent.has(tag(child)) || !one_line(full(child)).includes(wanted)) continue;
        below = true;
        if (!look(child)) found.push(child);
      }
      return below;
    };
    look(root);
    return found;
  }

  // ---- Roles and names, as far as people name things by them (Accessible Name and Description Computation 1.2)

  const input_roles = {
    button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio',
    range: 'slider', number: 'spinbutton', search: 'searchbox', email: 'textbox', tel: 'textbox', text: 'textbox',
    url: 'textbox', password: 'textbox',
  };
  const roles = {
    article: 'article', aside: 'complementary', blockquote: 'blockquote', button: 'button', caption: 'caption',
    code: 'code', datalist: 'listbox', dd: 'definition', details: 'group', dialog: 'dialog', dt: 'term', em: 'emphasis',
    fieldset: 'group', figure: 'figure', footer: 'contentinfo', form: 'form', h1: 'heading', h2: 'heading',
    h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading', header: 'banner', hr: 'separator', iframe: 'iframe',
    img: 'img', li: 'listitem', main: 'main', menu: 'list', meter: 'meter', nav: 'navigation', ol: 'list',
    optgroup: 'group', option: 'option', output: 'status', p: 'paragraph', progress: 'progressbar', search: 'search',
    section: 'region', strong: 'strong', summary: 'button', svg: 'img', table: 'table', tbody: 'rowgroup', td: 'cell',
    textarea: 'textbox', tfoot: 'rowgroup', th: 'columnheader', thead: 'rowgroup', tr: 'row', ul: 'list',
  };
  const same_role = { image: 'img', presentation: 'none', directory: 'list' };

  const role_of = (element) => {
    const said = element.getAttribute('role')?.trim().toLowerCase().split(/\s+/)[0];
    if (said) return same_role[said] ?? said;
    const name = tag(element);
    if (name === 'a' || name === 'area') return element.hasAttribute('href') ? 'link' : 'generic';
    if (name === 'input') {
      const role = input_roles[element.type];
      return element.hasAttribute('list') && (role === 'textbox' || role === 'searchbox') ? 'combobox' : role ?? 'generic';
    }
    if (name === 'select') return element.multiple || element.size > 1 ? 'listbox' : 'combobox';
    if (name === 'img' && element.getAttribute('alt') === '') return 'none';
    if (name === 'th' && element.getAttribute('scope') === 'row') return 'rowheader';
    return roles[name] ?? 'generic';
  };

  const named_by_content = new Set(('button cell checkbox columnheader gridcell heading link menuitem menuitemcheckbox ' +
    'menuitemradio option radio row rowheader switch tab tooltip treeitem').split(' '));
  const unnameable = new Set('generic paragraph none caption code definition emphasis strong term'.split(' '));

  const is_out = (element) => {
    if (element.getAttribute('aria-hidden') === 'true') return true;
    const style = getComputedStyle(element);
    return style.display === 'none' || style.visibility === 'hidden';
  };

  const painted = (element, where) => {
    const { content } = getComputedStyle(element, where);
    return /^"(.*)"$/.exec(content)?.[1].replace(/\\(.)/g, '$1') ?? '';
  };

  function content_name(element, visited) {
    let text = painted(element, '::before');
    for (const child of children(element)) {
      if (child.nodeType === 3) text += child.nodeValue;
      if (child.nodeType !== 1 || silent.has(tag(child)) || is_out(child)) continue;
      const apart = tag(child) === 'br' || !getComputedStyle(child).display.startsWith('inline');
      const name = name_of(child, visited, true);
      text += apart ? ' ' + name + ' ' : name;
    }
    return text + painted(element, '::after');
  }

  function name_of(element, visited, inside) {
    if (visited.has(element)) return '';
    visited.add(element);
    const referred = element.getAttribute('aria-labelledby');
    if (referred && !visited.referring) {
      visited.referring = true;
      const root = element.getRootNode();
      const names = referred.trim().split(/\s+/).map((id) => root.getElementById?.(id)).filter(Boolean).map((other) => {
        visited.delete(other);
        return name_of(other, visited, true);
      });
      visited.referring = false;
      const name = one_line(names.join(' '));
      if (name) return name;
    }
    const label = element.getAttribute('aria-label')?.trim();
    if (label) return label;
    const kind = tag(element);
    if (inside && has_value(element)) return element.value;
    if (inside && kind === 'select') return chosen(element);
    const own = native_name(element, kind, visited);
    if (own) return own;
    const by_content = named_by_content.has(role_of(element)) || (inside && !has_value(element));
    if (by_content) {
      const name = one_line(content_name(element, visited));
      if (name) return name;
    }
    return element.getAttribute('title')?.trim() || (has_value(element) && element.getAttribute('placeholder')?.trim()) || '';
  }

  function native_name(element, kind, visited) {
    const of = (other) => (other ? one_line(name_of(other, visited, true)) : '');
    const child = (name) => [...element.children].find((other) => tag(other) === name);
    if (kind === 'input' && ['button', 'submit', 'reset'].includes(element.type)) {
      return element.value || { submit: 'Submit', reset: 'Reset' }[element.type] || '';
    }
    if (kind === 'input' && element.type === 'image') return element.alt || element.value || element.title || 'Submit';
    if (element.labels?.length > 0) return one_line([...element.labels].map(of).join(' '));
    if (kind === 'img' || kind === 'area') return element.alt?.trim() ?? '';
    if (kind === 'fieldset') return of(child('legend'));
    if (kind === 'table') return of(child('caption'));
    if (kind === 'figure') return of(child('figcaption'));
    if (kind === 'svg') return one_line(child('title')?.textContent ?? '');
    if (kind === 'optgroup') return element.label;
    if (kind === 'option') return one_line(element.label);
    return '';
  }

  function by_aria(root, { name, role }) {
    const wanted = role === undefined ? undefined : same_role[role.toLowerCase()] ?? role.toLowerCase();
    const found = [];
    for (const element of within(root)) {
      if (silent.has(tag(element))) continue;
      const own = role_of(element);
      if (wanted !== undefined ? own !== wanted : unnameable.has(own) && !element.hasAttribute('aria-label')) continue;
      if (is_out(element)) continue;
      if (name === undefined || one_line(name_of(element, new Set(), false)) === name) found.push(element);
    }
    return found;
  }

  // ---- Selectors

  function by_xpath(root, xpath) {
    const evaluate = (node, expression) => {
      const result = document.evaluate(expression, node, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
      return Array.from({ length: result.snapshotLength }, (_, at) => result.snapshotItem(at));
    };
    // Below an element, `//a` means the element's own: what it means elsewhere is the same for every element.
    const own = root.nodeType === 1 && xpath.startsWith('/') ? '.' + xpath : xpath;
    const nodes = root.nodeType === 11
      // XPath knows no shadow roots: each tree in one is searched, itself included.
      ? [...root.children].flatMap((child) => evaluate(child, xpath.replace(/^\.?\/\//, 'descendant-or-self::')))
      : evaluate(root, own);
    return nodes.filter((node) => node.nodeType === 1);
  }

  function by_pierce(root, css) {
    const found = [...root.querySelectorAll(css)];
    if (root.shadowRoot) found.push(...by_pierce(root.shadowRoot, css));
    for (const element of within(root)) if (element.shadowRoot) found.push(...element.shadowRoot.querySelectorAll(css));
    return found;
  }

  function look_up(part, root) {
    switch (part.by) {
      case 'css': return [...root.querySelectorAll(part.css)];
      case 'pierce': return by_pierce(root, part.css);
      case 'text': return by_text(root, one_line(part.text));
      case 'xpath': return by_xpath(root, part.xpath);
      case 'aria': return by_aria(root, part);
      case 'element': return [part.element];
    }
  }

  // The elements that one alternative finds below a root.
  function follow(chain, root) {
    let roots = [root];
    chain.forEach((part, at) => {
      const found = new Set();
      for (const from of roots) {
        const start = at > 0 && from.shadowRoot ? from.shadowRoot : from;
        for (const element of look_up(part, start)) found.add(element);
      }
      roots = [...found];
    });
    return roots;
  }

  // The elements of the first alternative that finds any, and whether any alternative could be read at all.
  function find(selectors, root = document) {
    let broken = null;
    for (const [alternative, chain] of selectors.entries()) {
      try {
        const elements = follow(chain, root);
        if (elements.length > 0) return { elements, alternative };
      } catch (error) {
        // A later alternative may still be good.
        broken ??= String(error?.message ?? error);
        if (selectors.length === 1) return { elements: [], broken };
      }
    }
    return { elements: [], broken: selectors.length === 1 ? broken : null };
  }

  // ---- What steps do

  const where = () => ({
    origin: performance.timeOrigin,
    href: location.href,
    ready: document.readyState,
    title: document.title.slice(0, 2000),
    // Firefox leaves the address of a page that did not come in its place.
    uri: document.documentURI.slice(0, 2000),
    // By which the daemon knows its own page again.
    refusal: document.querySelector('meta[name="warmpool-refusal"]')?.content?.slice(0, 64) ?? null,
  });

  const frame_time = () => new Promise((done) => {
    // By then the page has been told of scrolling, and has moved what it moves for that: a machine at work can take its
    // time for it, and a click before it would miss.
    requestAnimationFrame(() => done());
    // A window that is not painted has no frames.
    setTimeout(done, document.hidden ? 40 : 1000);
  });

  // The first rectangle that has a size: a link over two lines has two.
  const box_of = (element) => {
    for (const box of element.getClientRects()) if (box.width >= 1 && box.height >= 1) return box;
    return element.getBoundingClientRect();
  };

  const inside = (value, from, size) => Math.min(Math.max(value, from), from + Math.max(size - 1, 0));

  const point_in = (box, offset) => ({
    x: offset ? inside(box.left + offset[0], box.left, box.width) : box.left + box.width / 2,
    y: offset ? inside(box.top + offset[1], box.top, box.height) : box.top + box.height / 2,
  });

  // Where drivers count from when a command points at an element (W3C WebDriver, section 12.1).
  const center_in_view = (element) => {
    const box = element.getClientRects()[0] ?? element.getBoundingClientRect();
    const middle = (from, to, size) => Math.floor((Math.max(0, from) + Math.min(size, to)) / 2);
    return { x: middle(box.left, box.right, innerWidth), y: middle(box.top, box.bottom, innerHeight) };
  };

  const in_view = ({ x, y }) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;

  function unusable(element, need) {
    if (need !== 'present' && !is_seen(element)) return 'it is hidden, or has no size';
    if (need === 'enabled' && element.matches(':disabled')) return 'it is disabled';
    return null;
  }

  // Finds the element to act on, or takes the one that is given, brings it into view, and waits until it stands still.
  async function prepare(selectors, need, offset, given) {
    let reason = null;
    let broken = null;
    const chains = given ? [[{ by: 'element', element: given }]] : selectors;
    for (const [alternative, chain] of chains.entries()) {
      const { elements, broken: unreadable } = find([chain]);
      broken ??= unreadable;
      if (elements.length === 0) continue;
      const element = elements[0];
      const fails = unusable(element, need);
      if (fails) {
        reason ??= fails;
        continue;
      }
      if (need === 'present') return { element, alternative };
      // Brings the frames around into view, too.
      if (window !== top) element.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: 'instant' });
      let point = point_in(box_of(element), offset);
      if (!in_view(point)) {
        element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
        point = point_in(box_of(element), offset);
        if (!in_view(point)) {
          scrollBy({ left: point.x - innerWidth / 2, top: point.y - innerHeight / 2, behavior: 'instant' });
        }
      }
      const before = element.getBoundingClientRect();
      await frame_time();
      const after = element.getBoundingClientRect();
      const still = ['x', 'y', 'width', 'height'].every((side) => Math.abs(before[side] - after[side]) < 0.5);
      if (!still) {
        reason ??= 'it moves';
        continue;
      }
      point = point_in(box_of(element), offset);
      if (!in_view(point)) {
        reason ??= 'it cannot be scrolled into view';
        continue;
      }
      const [x, y] = [Math.floor(point.x), Math.floor(point.y)];
      const middle = center_in_view(element);
      return { element, alternative, x, y, from_center: [x - middle.x, y - middle.y] };
    }
    if (reason) return fault('not_ready', reason);
    if (broken && selectors.length === 1) return fault('invalid_selector', broken);
    return fault('no_match', '');
  }

  const tell = (element, ...names) => {
    for (const name of names) element.dispatchEvent(new Event(name, { bubbles: true, composed: name === 'input' }));
  };

  // By the prototype's own setter, so that frameworks which watch the element's see a change.
  const set_value = (element, value) => {
    const owner = Object.getPrototypeOf(element);
    const setter = Object.getOwnPropertyDescriptor(owner, 'value')?.set;
    if (setter) setter.call(element, value);
    else element.value = value;
  };

  const typeable = new Set(['text', 'url', 'tel', 'search', 'password', 'number', 'email']);

  // Makes a field ready for a value, or gives it the value where nothing can be typed.
  function fill(element, value, by_script) {
    const kind = tag(element);
    if (kind === 'select') {
      const options = [...element.options];
      const option = options.find((one) => one.value === value) ?? options.find((one) => one.label.trim() === value.trim());
      if (!option) return fault('not_ready', 'it has no such option');
      option.selected = true;
      tell(element, 'input', 'change');
      return { typed: true };
    }
    const editable = element.isContentEditable && kind !== 'input' && kind !== 'textarea';
    if (editable || kind === 'textarea' || (kind === 'input' && typeable.has(element.type))) {
      if (!editable && element.readOnly) return fault('not_ready', 'it is read-only');
      element.focus();
      if (editable) element.textContent = by_script ? value : '';
      else set_value(element, by_script ? value : '');
      if (by_script || value === '') tell(element, 'input', 'change');
      return { typed: by_script || value === '' };
    }
    if (kind === 'input' && element.type === 'file') return fault('not_supported', 'it is for files: use lam:upload');
    if (!('value' in element)) return fault('not_ready', 'it is no field');
    element.focus();
    set_value(element, value);
    tell(element, 'input', 'change');
    return { typed: true };
  }

  function scroll(element, x, y) {
    const to = { left: x, top: y, behavior: 'instant' };
    if (element) element.scrollTo(to);
    else scrollTo(to);
    return {};
  }

  function is_like(wanted, found) {
    if (wanted === found) return true;
    // What is an object is one of another realm's, in some engines.
    if (Object(wanted) !== wanted || Object(found) !== found) return false;
    return Object.entries(wanted).every(([name, value]) => is_like(value, found[name]));
  }

  // Whether the elements compare as a step says.
  function compares(selectors, { operator, count, visible, properties, attributes }) {
    const { elements: all, broken } = find(selectors);
    if (broken) return fault('invalid_selector', broken);
    const elements = visible ? all : all.filter(is_seen);
    const holds = { '>=': elements.length >= count, '==': elements.length === count, '<=': elements.length <= count }[operator]
      && elements.every((element) =>
        Object.entries(attributes).every(([name, value]) => element.getAttribute(name) === value) &&
        is_like(properties, element));
    return { holds: holds === visible, found: elements.length };
  }

  function texts(selectors) {
    if (!selectors) return { texts: [text_of(document.body ?? document.documentElement)] };
    const { elements, broken } = find(selectors);
    if (broken) return fault('invalid_selector', broken);
    return { texts: elements.slice(0, 1000).map(text_of) };
  }

  const frame_element = (index) => {
    let left = index;
    for (const element of within(document)) {
      if (tag(element) !== 'iframe' && tag(element) !== 'frame') continue;
      if (left === 0) return { element, where: where() };
      left -= 1;
    }
    return { element: null, where: where() };
  };

  const frame_elements = () => ({
    elements: [...within(document)].filter((element) => tag(element) === 'iframe' || tag(element) === 'frame').slice(0, 100),
  });

  const sizes = () => ({ inner: [innerWidth, innerHeight], outer: [outerWidth, outerHeight] });

  const all_of_it = () => ({
    width: Math.max(document.documentElement.scrollWidth, innerWidth),
    height: Math.max(document.documentElement.scrollHeight, innerHeight),
  });

  const file_input = (element) => tag(element) === 'input' && element.type === 'file'
    ? { multiple: element.multiple }
    : fault('not_ready', 'it is no file input');

  const exists = (selectors) => {
    const { elements, broken } = find(selectors);
    return broken ? fault('invalid_selector', broken) : { found: elements.length };
  };

  // The next page's address, or the element to click where it is no link.
  const next_page = (selectors) => {
    const { elements, broken } = find(selectors);
    if (broken) return fault('invalid_selector', broken);
    const element = elements.find((one) => !one.matches(':disabled, [aria-disabled="true"], .disabled'));
    if (!element) return { href: null, click: false };
    const link = element.closest('a[href]') ?? element.querySelector('a[href]');
    if (tag(element) === 'link' && element.href) return { href: element.href, click: false };
    const plain = link && /^https?:$/.test(link.protocol) && link.getAttribute('href') !== '#';
    return { href: plain ? link.href : null, click: !plain };
  };

  return {
    // What `control.js` builds on.
    children, fault, has_value, look_up, name_of, role_of, silent, tell,
    all_of_it, compares, exists, file_input, fill, find, frame_element, frame_elements, next_page, one_line, prepare,
    scroll, sizes, tag, text_of, texts, where,
  };
})();
