// Runs the agent's script in a document: with the rights of the page and no more, in a world that the page cannot see.

export class WarmpoolCaptchasChild extends JSWindowActorChild {
  #begun = false;
  #world = null;
  #pageScript = null;

  async handleEvent({ target }) {
    // One document for each actor; later roots of the same one are seen as changes.
    if (this.#begun || target !== this.document) return;
    this.#begun = true;
    const { documentScript, pageScript, byPerson } = await this.sendQuery("scripts");
    const window = this.contentWindow;
    if (!window) return;
    this.#pageScript = pageScript;
    this.#world = Cu.Sandbox([window], { sandboxName: "captchas", sandboxPrototype: window, sameZoneAs: window });
    if (Cu.evalInSandbox(`(${documentScript})(${byPerson})`, this.#world)) this.sendAsyncMessage("begun");
  }

  async receiveMessage({ data: { method, given } }) {
    const values = JSON.stringify(given).slice(1, -1);
    if (method !== "page") return Cu.evalInSandbox(`captchas.${method}(${values})`, this.#world);
    const window = this.contentWindow;
    // Without the walls between the page's objects and what runs here: it acts as one of the page's own scripts.
    const page = Cu.Sandbox(window, { sandboxPrototype: window, sameZoneAs: window, wantXrays: false });
    Cu.evalInSandbox(`(${this.#pageScript})(${values})`, page);
    return "true";
  }

  didDestroy() {
    if (this.#world) Cu.nukeSandbox(this.#world);
    this.#world = null;
  }
}
