// Runs among the page's own scripts, once an answer is filled in: calls whom the page wants to be called, and answers those
// of its scripts that ask the widget.
(function (kind, token, siteKey) {
  const named = name => name.split('.').reduce((at, part) => at?.[part], window);
  const callbacks = new Set();
  const add = callback => {
    try {
      const found = typeof callback === 'string' ? named(callback) : callback;
      if (typeof found === 'function') callbacks.add(found);
    } catch {
      // A page may name what cannot be reached.
    }
  };
  for (const { dataset } of document.querySelectorAll('[data-sitekey][data-callback]')) {
    if (!siteKey || dataset.sitekey === siteKey) add(dataset.callback);
  }
  // What a page gave to grecaptcha.render() lies some levels deep, under names that change.
  const search = (at, depth) => {
    if (!at || typeof at !== 'object' || at instanceof Node || depth > 4) return;
    try {
      if (at.sitekey === siteKey && at.callback) add(at.callback);
      for (const name of Object.keys(at).slice(0, 50)) search(at[name], depth + 1);
    } catch {
      // Part of it may be of another site.
    }
  };
  if (kind.startsWith('recaptcha') && siteKey) search(window.___grecaptcha_cfg?.clients, 0);
  const widgets = {
    recaptcha_v2: [window.grecaptcha, window.grecaptcha?.enterprise],
    recaptcha_v3: [window.grecaptcha, window.grecaptcha?.enterprise],
    hcaptcha: [window.hcaptcha],
    turnstile: [window.turnstile],
  }[kind];
  for (const widget of widgets ?? []) {
    if (!widget) continue;
    try {
      widget.getResponse = () => token;
      if (kind === 'recaptcha_v3') widget.execute = () => Promise.resolve(token);
    } catch {
      // Frozen: the field will have to do.
    }
  }
  for (const callback of callbacks) {
    try {
      callback(token);
    } catch (error) {
      setTimeout(() => {
        throw error;
      });
    }
  }
  return callbacks.size;
})
