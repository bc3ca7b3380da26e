// Runs in a world of its own in each frame: hides what it is given, and answers with classes and ids that are new.
(css, generic) => {
  // A frame that tells of itself twice.
  if (globalThis.adBlocker) return null;
  const sheet = new CSSStyleSheet();
  let text = '';
  const apply = more => {
    if (more) sheet.replaceSync((text += more));
    // A page may have set a list of its own.
    if (text && !document.adoptedStyleSheets.includes(sheet)) document.adoptedStyleSheets.push(sheet);
  };
  apply(css);
  globalThis.adBlocker = true;
  if (!generic) return null;

  const seen = { classes: new Set(), ids: new Set() };
  let names = { classes: [], ids: [] };
  let answer = null;
  const add = (kind, name) => {
    if (!name || seen[kind].has(name)) return;
    seen[kind].add(name);
    names[kind].push(name);
  };
  const look = element => {
    add('ids', element.id);
    element.classList.forEach(name => add('classes', name));
  };
  const lookInto = root => root.querySelectorAll('[class], [id]').forEach(look);
  const send = () => {
    if (!answer || names.classes.length + names.ids.length === 0) return;
    answer(names);
    [answer, names] = [null, { classes: [], ids: [] }];
  };
  globalThis.adBlocker = more => {
    apply(more);
    return new Promise(resolve => {
      answer = resolve;
      send();
    });
  };
  new MutationObserver(records => {
    for (const { type, target, addedNodes } of records) {
      if (type === 'attributes') look(target);
      for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE) continue;
        look(node);
        lookInto(node);
      }
    }
    apply('');
    send();
  }).observe(document, { subtree: true, childList: true, attributeFilter: ['class', 'id'] });
  lookInto(document);
  return globalThis.adBlocker('');
}
