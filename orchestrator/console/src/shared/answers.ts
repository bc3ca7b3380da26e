// Answers may come in another order than they were asked for.

/** Tells an answer that is older than the one already shown. */
export class Answers {
  #asked = 0;
  #shown = 0;

  /** Call it before asking. The function it gives says whether the answer may be shown, and counts it as shown. */
  ask(): () => boolean {
    const asked = ++this.#asked;
    return () => {
      if (asked < this.#shown) return false;
      this.#shown = asked;
      return true;
    };
  }
}
