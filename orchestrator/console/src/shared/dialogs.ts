// The page's own dialogs.

import { find, tell } from './dom';

/** Opens a dialog whose buttons with `data-close` close it. */
export function openDialog(id: string): HTMLDialogElement {
  const dialog = find<HTMLDialogElement>(id);
  if (!dialog.open) dialog.showModal();
  return dialog;
}

/** Opens a dialog with a form, without the problem of its last use. */
export function openForm(id: string): void {
  const problem = openDialog(id).querySelector('.problem');
  if (problem) problem.textContent = '';
}

/** Closes dialogs: without `which` all but a firm one, since what that shows is never shown again. */
export function closeDialogs(which = 'dialog[open]:not([data-firm])'): void {
  for (const dialog of document.querySelectorAll<HTMLDialogElement>(which)) dialog.close();
}

export function prepareDialogs(): void {
  for (const button of document.querySelectorAll('dialog [data-close]')) {
    button.addEventListener('click', () => button.closest('dialog')?.close());
  }
  for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog:not([data-firm])')) {
    // Its content covers the dialog, so a click on the dialog itself is on the backdrop.
    dialog.addEventListener('mousedown', (event) => event.target === dialog && dialog.close());
  }
  for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[data-firm]')) {
    // What it shows is never shown again: no stray Escape may take it away.
    dialog.addEventListener('keydown', (event) => event.key === 'Escape' && event.preventDefault());
    dialog.addEventListener('cancel', (event) => event.preventDefault());
  }
}

/** Runs a form's action: the form is busy meanwhile, and shows a failure. */
export async function submit(form: HTMLFormElement, act: () => Promise<void>): Promise<void> {
  if (form.hasAttribute('aria-busy')) return;
  const problem = form.querySelector<HTMLElement>('.problem');
  const buttons = form.querySelectorAll<HTMLButtonElement>('button:not([data-close])');
  if (problem) problem.textContent = '';
  for (const input of form.querySelectorAll('[aria-invalid]')) input.removeAttribute('aria-invalid');
  for (const button of buttons) button.disabled = true;
  form.setAttribute('aria-busy', 'true');
  try {
    await act();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    if (problem) tell(problem, error.message);
    const field = 'field' in error && typeof error.field === 'string' ? error.field : undefined;
    const input = field ? form.elements.namedItem(field) : null;
    if (input instanceof HTMLElement) {
      input.setAttribute('aria-invalid', 'true');
      input.focus();
    }
  } finally {
    for (const button of buttons) button.disabled = false;
    form.removeAttribute('aria-busy');
  }
}

/** Clipboards work on secure pages only; elsewhere the selected text is copied the old way. */
export async function copy(input: HTMLInputElement | HTMLTextAreaElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(input.value);
    return true;
  } catch {
    input.focus();
    input.select();
    return document.execCommand('copy');
  }
}
