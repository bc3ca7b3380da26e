// Reads a page by a plan. Values come back as they stand in the page, in the order of the plan; the daemon makes numbers
// and days of them.
const extract = (() => {
  'use strict';

  class TooLarge extends Error {}

  let left = 0;
  let matched = 0;
  let broken = null;

  const take = (text) => {
    left -= text.length + 8;
    if (left < 0) throw new TooLarge();
    return text;
  };

  const addresses = new Set(['href', 'src', 'action', 'formaction', 'poster', 'cite', 'data', 'background', 'longdesc']);

  const attribute = (element, name) => {
    const value = element.getAttribute(name);
    if (value === null || !addresses.has(name.toLowerCase())) return value;
    try {
      return new URL(value, element.baseURI).href;
    } catch {
      return value;
    }
  };

  function read(source, element) {
    switch (source.from) {
      case 'html': return source.inner ? element.innerHTML : element.outerHTML;
      case 'attribute': return attribute(element, source.name);
      case 'state':
        if (page.tag(element) === 'input' && ['checkbox', 'radio'].includes(element.type)) return element.checked;
        break;
      case 'moment': {
        const moment = page.tag(element) === 'time' ? element.getAttribute('datetime') : null;
        if (moment) return moment;
      }
    }
    return page.text_of(element);
  }

  const cells = (row) => [...row.cells].map((cell) => ({
    text: take(page.text_of(cell)),
    head: page.tag(cell) === 'th',
    wide: Math.min(Math.max(cell.colSpan, 1), 100),
    high: Math.min(Math.max(cell.rowSpan, 1), 1000),
  }));

  // A table as a grid: a cell over several columns or rows stands in each of them.
  function table(element) {
    const grid = [];
    const heads = [];
    [...element.rows].forEach((row, y) => {
      grid[y] ??= [];
      let x = 0;
      let head = row.cells.length > 0;
      for (const cell of cells(row)) {
        head = head && cell.head;
        while (grid[y][x] !== undefined) x += 1;
        for (let down = 0; down < cell.high && y + down < element.rows.length; down += 1) {
          grid[y + down] ??= [];
          for (let right = 0; right < cell.wide; right += 1) grid[y + down][x + right] = take(cell.text);
        }
        x += cell.wide;
      }
      heads[y] = head || row.parentElement === element.tHead;
    });
    const rows = grid.map((row) => Array.from(row, (text) => text ?? ''));
    const body = heads.findIndex((head) => !head);
    const first = body < 0 ? heads.length : body;
    return { head: first > 0 ? rows[first - 1] : null, rows: rows.slice(first) };
  }

  const pairs = (selector, key) => [...document.querySelectorAll(selector)]
    .map((element) => [key(element), take(element.getAttribute('content') ?? '')])
    .filter(([name]) => name);

  const builtins = {
    json_ld: () => [...document.querySelectorAll('script[type="application/ld+json" i]')].map((one) => take(one.textContent)),
    open_graph: () => pairs('meta[property*=":"]', (element) => element.getAttribute('property')),
    meta: () => [
      ['title', take(document.title)],
      ['url', location.href],
      ['language', document.documentElement.lang],
      ['charset', document.characterSet],
      ['canonical', document.querySelector('link[rel~="canonical" i]')?.href ?? ''],
      ...pairs('meta[name], meta[http-equiv]', (element) => element.name || element.httpEquiv),
    ].filter(([, value]) => value !== ''),
    links: () => [...document.querySelectorAll('a[href], area[href]')].map((link) => ({
      url: take(link.href),
      text: take(page.text_of(link)),
      rel: link.rel,
    })),
    tables: () => [...document.querySelectorAll('table')].map(table),
    // The daemon finds the main content in it.
    article: () => take(document.documentElement.outerHTML),
  };

  function locate(selectors, root) {
    const found = page.find(selectors, root);
    broken ??= found.broken;
    matched += found.elements.length > 0 ? 1 : 0;
    return found.elements;
  }

  function probe(field, root) {
    const here = root === document ? document.documentElement : root;
    if (field.kind === 'builtin') {
      const value = builtins[field.builtin]();
      matched += value.length > 0 ? 1 : 0;
      return value;
    }
    const elements = field.selectors ? locate(field.selectors, root) : [here];
    if (field.kind === 'list') return elements.map((element) => probe(field.item, element));
    const element = elements[0];
    if (!element) return null;
    switch (field.kind) {
      case 'nested': return fields(field.fields, element);
      case 'table': {
        const own = page.tag(element) === 'table' ? element : element.querySelector('table');
        return own ? table(own) : null;
      }
      default: {
        const value = read(field.source, element);
        return typeof value === 'string' ? take(value) : value;
      }
    }
  }

  const fields = (list, root) => list.map((field) => probe(field, root));

  return (plan, limit) => {
    left = limit;
    try {
      const roots = plan.rows ? locate(plan.rows, document) : [document];
      const rows = roots.map((root) => fields(plan.fields, root));
      if (broken) return { fault: { code: 'invalid_selector', message: broken } };
      return { rows, matched, where: page.where() };
    } catch (error) {
      if (error instanceof TooLarge) return { fault: { code: 'too_large', message: '' } };
      throw error;
    }
  };
})();
