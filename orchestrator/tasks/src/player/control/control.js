// What somebody who drives a page step by step asks of it, beside what `page.js` has. Like that it leaves nothing behind.
const control = (() => {
  'use strict';

  const { children, fault, has_value, name_of, one_line, role_of, silent, tag, tell } = page;
  const LONGEST_NAME = 300;
  const LONGEST_TEXT = 2000;
  const DEEPEST = 400;

  const unnamed = new Set('code definition emphasis generic none paragraph presentation row rowgroup strong term'.split(' '));

  const is_clickable = (element, style) => {
    if (element.hasAttribute('onclick') || element.isContentEditable !== element.parentElement?.isContentEditable) return true;
    if (element.tabIndex >= 0 || element.draggable) return true;
    return style.cursor === 'pointer' && getComputedStyle(element.parentElement ?? element).cursor !== 'pointer';
  };

  const role_here = (element) => {
    const role = role_of(element);
    if (tag(element) === 'input' && element.type === 'file') return 'button';
    if (tag(element) === 'frame') return 'iframe';
    if (role === 'presentation' || role === 'none') return 'generic';
    if (role === 'generic' && element.isContentEditable && !element.parentElement?.isContentEditable) return 'textbox';
    return role;
  };

  function states_of(element, role) {
    const states = [];
    const said = (name) => element.getAttribute('aria-' + name);
    const kind = tag(element);
    if (kind === 'input' && (element.type === 'checkbox' || element.type === 'radio')) {
      if (element.indeterminate) states.push('checked=mixed');
      else if (element.checked) states.push('checked');
    } else if (said('checked') === 'true') states.push('checked');
    else if (said('checked') === 'mixed') states.push('checked=mixed');
    if (element.matches(':disabled') || said('disabled') === 'true') states.push('disabled');
    const open = kind === 'summary' ? element.parentElement?.open : kind === 'dialog' ? undefined : said('expanded');
    if (open === true || open === 'true') states.push('expanded');
    const level = /^h[1-6]$/.test(kind) ? kind[1] : role === 'heading' ? Number(said('level')) || 2 : null;
    if (level) states.push('level=' + level);
    if (said('pressed') === 'true') states.push('pressed');
    if (kind === 'option' ? element.selected : said('selected') === 'true') states.push('selected');
    if (element === element.getRootNode().activeElement && element !== document.body) states.push('active');
    return states;
  }

  // The tree of what can be seen, with `most` elements at most.
  function snapshot(root, most, deepest, with_boxes) {
    const elements = [];
    let cut = false;

    const add_text = (into, text) => {
      const last = into[into.length - 1];
      if (typeof last === 'string') into[into.length - 1] = (last + ' ' + text).slice(0, LONGEST_TEXT);
      else into.push(text.slice(0, LONGEST_TEXT));
    };

    const visit = (node, into, level) => {
      if (cut) return;
      if (elements.length >= most || level > DEEPEST) {
        cut = true;
        return;
      }
      if (node.nodeType === 3) {
        const text = one_line(node.nodeValue);
        if (text && getComputedStyle(node.parentElement ?? document.documentElement).visibility === 'visible') add_text(into, text);
        return;
      }
      if (node.nodeType !== 1 || (silent.has(tag(node)) && node !== root)) return;
      if (node.getAttribute('aria-hidden') === 'true') return;
      const style = getComputedStyle(node);
      if (style.display === 'none') return;
      const role = role_here(node);
      const clickable = role === 'generic' && node !== document.body && is_clickable(node, style);
      if (style.visibility !== 'visible' || (role === 'generic' && !clickable)) {
        for (const child of children(node)) visit(child, into, level + 1);
        return;
      }
      const found = { r: role, s: states_of(node, role), e: elements.push(node) - 1, c: [] };
      if (clickable) found.s.push('clickable');
      if (with_boxes) {
        const { x, y, width, height } = node.getBoundingClientRect();
        found.s.push('box=' + [x, y, width, height].map(Math.round).join(','));
      }
      if (!unnamed.has(role)) found.n = name_of(node, new Set(), false).slice(0, LONGEST_NAME);
      if (role === 'link' && node.href) found.u = String(node.href).slice(0, LONGEST_TEXT);
      if (node.placeholder && node.placeholder !== found.n) found.p = String(node.placeholder).slice(0, LONGEST_NAME);
      into.push(found);
      if (role === 'iframe') {
        found.f = true;
        return;
      }
      if (has_value(node)) {
        // What a password field holds is nobody's to read.
        const value = node.type === 'password' ? '•'.repeat(node.value.length) : node.value;
        if (value) found.t = value.slice(0, LONGEST_TEXT);
        return;
      }
      if (tag(node) === 'svg' || tag(node) === 'img' || tag(node) === 'input') return;
      for (const child of children(node)) visit(child, found.c, level + 1);
      // What is only its name again.
      if (found.c.length === 1 && typeof found.c[0] === 'string') {
        if (found.c[0] !== found.n) found.t = found.c[0];
        found.c = [];
      }
    };

    const tree = [];
    visit(root ?? document.body ?? document.documentElement, tree, 0);

    const lines = [];
    const write = (nodes, depth) => {
      if (deepest !== null && depth >= deepest) return;
      for (const node of nodes) {
        if (typeof node === 'string') {
          lines.push({ d: depth, t: node });
          continue;
        }
        const { c, ...line } = node;
        lines.push({ d: depth, ...line });
        write(c, depth + 1);
      }
    };
    write(tree, 0);
    return { lines, elements, cut };
  }

  const named = (element) => {
    const name = one_line(name_of(element, new Set(), false)).slice(0, 80);
    return '<' + tag(element) + (element.id ? ' id="' + element.id.slice(0, 80) + '"' : '') + '>' + (name ? ' "' + name + '"' : '');
  };

  // What lies over an element, where it is to be clicked.
  function over(element, x, y) {
    let top = document.elementFromPoint(x, y);
    while (top?.shadowRoot) {
      const inner = top.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === top) break;
      top = inner;
    }
    const label = top?.closest?.('label');
    if (!top || label?.control === element) return {};
    for (let node = top; node; node = node.assignedSlot ?? node.parentNode ?? node.host) if (node === element) return {};
    for (let node = element; node; node = node.assignedSlot ?? node.parentNode ?? node.host) {
      // What lets clicks through to what is around it.
      if (node === top && getComputedStyle(element).pointerEvents === 'none') return {};
    }
    return fault('not_ready', 'it is covered by ' + named(top));
  }

  const attached = (element) => ({ attached: element.isConnected });

  const how_many = (selectors) => {
    const { elements, broken } = page.find(selectors);
    if (broken) return fault('invalid_selector', broken);
    return { found: elements.length, element: elements[0] ?? null };
  };

  // The file input that a click would open.
  const chooser = (element) => {
    const input = tag(element) === 'input' ? element : element.closest('label')?.control;
    return { element: input && tag(input) === 'input' && input.type === 'file' ? input : null };
  };

  const file_inputs = () => ({ elements: page.look_up({ by: 'pierce', css: 'input[type=file]' }, document).slice(0, 10) });

  const is_checked = (element) => ({
    checked: 'checked' in element ? element.checked : element.getAttribute('aria-checked') === 'true',
  });

  function choose(element, values) {
    if (tag(element) !== 'select') return fault('not_supported', 'it is no list of options: click it, and then the option');
    const options = [...element.options];
    const wanted = [];
    for (const value of values) {
      const label = value.trim();
      const option = options.find((one) => one.value === value) ?? options.find((one) => one.label.trim() === label);
      if (!option) return fault('not_ready', 'it has no option ' + JSON.stringify(value.slice(0, 80)));
      wanted.push(option);
    }
    if (wanted.length > 1 && !element.multiple) return fault('not_supported', 'it takes one option only');
    if (element.multiple) for (const option of options) option.selected = wanted.includes(option);
    else for (const option of wanted) option.selected = true;
    tell(element, 'input', 'change');
    return {};
  }

  // Drags what only a browser's own drag would move: no driver makes one without a display.
  function drop(from, to) {
    const source = from.closest('[draggable="true"]');
    if (!source) return { dropped: false };
    const dataTransfer = new DataTransfer();
    const fire = (target, type) => {
      const { x, y, width, height } = target.getBoundingClientRect();
      const [clientX, clientY] = [x + width / 2, y + height / 2];
      const options = { bubbles: true, cancelable: true, composed: true, dataTransfer, clientX, clientY };
      return target.dispatchEvent(new DragEvent(type, options));
    };
    if (!fire(source, 'dragstart')) return fault('not_supported', 'the page does not let it be dragged');
    fire(to, 'dragenter');
    const is_taken = !fire(to, 'dragover');
    fire(to, is_taken ? 'drop' : 'dragleave');
    fire(source, 'dragend');
    return is_taken ? { dropped: true } : fault('not_supported', 'nothing can be dropped there');
  }

  const shows = (text) => ({ shows: one_line(document.body?.innerText ?? '').includes(one_line(text)) });

  function html(most) {
    const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '';
    const text = type + (document.documentElement?.outerHTML ?? '');
    return text.length > most ? fault('too_large', 'the page is longer than ' + most + ' bytes') : { html: text, url: location.href };
  }

  // A page whole, and where it is.
  const look = (...how) => ({ tree: snapshot(...how), where: page.where() });

  // Waits until the page has loaded and is quiet for a moment; but for neither as long as some pages would take.
  const settle = (quiet, longest, load) => new Promise((done) => {
    let timer;
    let latest;
    const end = () => {
      observer.disconnect();
      clearTimeout(timer);
      clearTimeout(latest);
      done({});
    };
    const again = () => {
      clearTimeout(timer);
      timer = setTimeout(end, quiet);
    };
    const observer = new MutationObserver(again);
    const begin = () => {
      clearTimeout(latest);
      latest = setTimeout(end, longest);
      observer.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
      again();
    };
    if (document.readyState === 'complete') return begin();
    latest = setTimeout(end, load);
    addEventListener('load', begin, { once: true });
  });

  return { attached, choose, chooser, drop, file_inputs, how_many, html, is_checked, look, over, settle, shows, snapshot };
})();
