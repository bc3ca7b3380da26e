// Hides ads in a document, by style sheets that pages cannot see.

/** Longer names are left out: no list has rules for them. */
const LONGEST = 200;
/** Names of a kind in one question: even the longest ones fit into a line to the agent. */
const MOST = 400;

/** Hides in one document what the agent says, for as long as it is there. */
export class WarmpoolAdsChild extends JSWindowActorChild {
  #seen = { classes: new Set(), ids: new Set() };
  #names = { classes: [], ids: [] };
  #exceptions = [];
  #begun = false;
  #asking = false;

  async handleEvent({ target }) {
    // One document for each actor; later roots of the same one are seen as changes.
    if (this.#begun || target !== this.document) return;
    this.#begun = true;
    const { css, generic, exceptions } = await this.sendQuery("ads", { page: this.document.documentURI });
    if (!this.contentWindow) return;
    this.#hide(css);
    if (!generic) return;
    this.#exceptions = exceptions;
    new this.contentWindow.MutationObserver(records => this.#changed(records)).observe(this.document, {
      subtree: true,
      childList: true,
      attributeFilter: ["class", "id"],
    });
    this.#lookInto(this.document);
    this.#ask();
  }

  #hide(css) {
    if (!css) return;
    const { windowUtils } = this.contentWindow;
    const sheet = `data:text/css;charset=utf-8,${encodeURIComponent(css)}`;
    windowUtils.loadSheetUsingURIString(sheet, windowUtils.USER_SHEET);
  }

  #add(kind, name) {
    if (!name || name.length > LONGEST || this.#seen[kind].has(name)) return;
    this.#seen[kind].add(name);
    this.#names[kind].push(name);
  }

  #look(element) {
    this.#add("ids", element.id);
    for (const name of element.classList) this.#add("classes", name);
  }

  #lookInto(root) {
    for (const element of root.querySelectorAll("[class], [id]")) this.#look(element);
  }

  #changed(records) {
    for (const { type, target, addedNodes } of records) {
      if (type === "attributes") this.#look(target);
      for (const node of addedNodes) {
        if (node.nodeType !== node.ELEMENT_NODE) continue;
        this.#look(node);
        this.#lookInto(node);
      }
    }
    this.#ask();
  }

  /** Asks for the rules of names that are new, one question at a time. */
  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    while (this.contentWindow && this.#names.classes.length + this.#names.ids.length > 0) {
      const { classes, ids } = this.#names;
      const names = { classes: classes.splice(0, MOST), ids: ids.splice(0, MOST) };
      const css = await this.sendQuery("ads", { names, exceptions: this.#exceptions });
      if (this.contentWindow) this.#hide(css);
    }
    this.#asking = false;
  }
}
