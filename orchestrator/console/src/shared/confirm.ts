// Asks before actions that cannot be undone.

import { openForm, submit } from './dialogs';
import { find } from './dom';

let act: (() => Promise<void>) | undefined;
let prepared = false;

/** Shows a question, and in the same dialog the action's failure. */
export function confirmAct(title: string, text: string, button: string, wanted: () => Promise<void>): void {
  const form = find<HTMLFormElement>('confirm-form');
  if (!prepared) {
    prepared = true;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(form, async () => {
        await act?.();
        find<HTMLDialogElement>('confirm-dialog').close();
        // The button that asked may be gone with its row.
        if (document.activeElement === document.body) find('heading').focus();
      });
    });
  }
  act = wanted;
  find('confirm-title').textContent = title;
  find('confirm-text').textContent = text;
  find('confirm-act').textContent = button;
  openForm('confirm-dialog');
}
