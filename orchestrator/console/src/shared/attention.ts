// Whether somebody is at the page. A sign-in ends where nobody is, however long the page follows the daemon by itself.

/** What a person does, as a page hears of it. The last one is how they go to an address of the page. */
const ACTS = ['pointerdown', 'keydown', 'wheel', 'click', 'hashchange'];

// Somebody has opened the page.
let acted = true;

/** Counts what is done in this window, too. */
export function attend(view: EventTarget | null): void {
  for (const act of ACTS) view?.addEventListener(act, () => (acted = true), { capture: true, passive: true });
}

/** Whether somebody has done anything since this was last asked. */
export function attended(): boolean {
  const was = acted;
  acted = false;
  return was;
}
