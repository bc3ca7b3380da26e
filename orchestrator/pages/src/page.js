// What a call asks of a page. The daemon calls one of these functions by its name. On Chromium they run in a world of
// their own, in which the page's scripts have changed nothing; elsewhere they run beside them.
function (name, ...given) {
  const refused = (why) => ({ refused: String(why && why.message ? why.message : why) });

  const find = (selector) => {
    try {
      return { element: document.querySelector(selector) };
    } catch (error) {
      return refused(error);
    }
  };

  const isVisible = (element) => {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return style.visibility !== 'hidden' && style.display !== 'none' && box.width > 0 && box.height > 0;
  };

  const html = () => {
    const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '';
    return type + (document.documentElement ? document.documentElement.outerHTML : '');
  };

  // A text of more characters than this has more bytes as well.
  const bounded = (text, most) => (text.length > most ? { large: text.length } : { text });

  const functions = {
    write(text) {
      document.open();
      document.write(text);
      document.close();
    },

    content: (most) => bounded(html(), most),

    // Whether an element is as it is wanted.
    state(selector, wanted) {
      const found = find(selector);
      if (found.refused) return found;
      const { element } = found;
      if (wanted === 'hidden') return { is: !element || !isVisible(element) };
      return { is: Boolean(element) && (wanted !== 'visible' || isVisible(element)) };
    },

    // Whether an event of this name has been dispatched since the first call.
    event(name) {
      const key = `warmpool:${name}`;
      if (document[key] === undefined) {
        document[key] = false;
        addEventListener(name, () => { document[key] = true; }, { capture: true, once: true });
      }
      return document[key];
    },

    tag({ tag, url, content, type, id }) {
      const element = document.createElement(tag === 'style' && url ? 'link' : tag);
      if (id) element.id = id;
      if (type) element.type = type;
      const into = document.head || document.documentElement;
      if (!url) {
        element.append(content);
        into.append(element);
        return {};
      }
      return new Promise((resolve) => {
        element.onload = () => resolve({});
        element.onerror = () => resolve(refused('it cannot be loaded'));
        if (tag === 'style') {
          element.rel = 'stylesheet';
          element.href = url;
        } else {
          element.src = url;
        }
        into.append(element);
      });
    },

    // The page's height, in steps of what is shown.
    steps: () => Math.ceil(document.documentElement.scrollHeight / Math.max(innerHeight, 1)),

    scroll: (step) => scrollTo({ top: step * innerHeight, behavior: 'instant' }),

    ready: () => document.readyState,

    size() {
      const whole = document.documentElement;
      const body = document.body || whole;
      return {
        width: Math.max(whole.scrollWidth, body.scrollWidth, whole.clientWidth),
        height: Math.max(whole.scrollHeight, body.scrollHeight, whole.clientHeight),
        ratio: devicePixelRatio,
        innerWidth,
        innerHeight,
        outerWidth,
        outerHeight,
      };
    },

    // An element's place in the page.
    place(selector) {
      const found = find(selector);
      if (found.refused || !found.element) return found.refused ? found : { absent: true };
      found.element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
      const { left, top, width, height } = found.element.getBoundingClientRect();
      return { x: left + scrollX, y: top + scrollY, width, height };
    },

    fonts: () => document.fonts.ready.then(() => true),

    text: (most) => ({ text: document.documentElement.textContent.slice(0, most) }),

    status() {
      const [entry] = performance.getEntriesByType('navigation');
      const mark = document.querySelector('meta[name="warmpool-refusal"]');
      return { url: location.href, status: (entry && entry.responseStatus) || 0, mark: mark && mark.content };
    },

    scrape(selectors, most) {
      let size = 0;
      const data = selectors.map((selector) => ({
        selector,
        results: [...document.querySelectorAll(selector)].map((element) => {
          const { left, top, width, height } = element.getBoundingClientRect();
          const result = {
            text: element.innerText === undefined ? element.textContent : element.innerText,
            html: element.innerHTML,
            attributes: [...element.attributes].map(({ name, value }) => ({ name, value })),
            left: left + scrollX,
            top: top + scrollY,
            width,
            height,
          };
          // With what the daemon needs for each: what is short here takes much more there.
          size += 256 + result.text.length + result.html.length;
          for (const { name, value } of result.attributes) size += 64 + name.length + value.length;
          if (size > most) throw { large: size };
          return result;
        }),
      }));
      return { data };
    },
  };

  try {
    return functions[name](...given);
  } catch (error) {
    return error && error.large ? error : refused(error);
  }
}
