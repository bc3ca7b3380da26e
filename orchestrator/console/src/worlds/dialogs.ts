// The page's own dialogs.

import { find } from '../shared/dom';

/** Opens a dialog whose buttons with `data-close` close it. */
export function openDialog(id: string): HTMLDialogElement {
  const dialog = find<HTMLDialogElement>(id);
  if (!dialog.open) dialog.showModal();
  return dialog;
}

export function closeDialogs(): void {
  for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[open]')) dialog.close();
}

export function prepareDialogs(): void {
  for (const button of document.querySelectorAll('dialog [data-close]')) {
    button.addEventListener('click', () => button.closest('dialog')?.close());
  }
  for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog:not([data-firm])')) {
    // The dialog's own area is covered by its content: what is left is the backdrop.
    dialog.addEventListener('mousedown', (event) => event.target === dialog && dialog.close());
  }
  for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[data-firm]')) {
    // What it shows is never shown again: no stray Escape may take it away.
    dialog.addEventListener('keydown', (event) => event.key === 'Escape' && event.preventDefault());
    dialog.addEventListener('cancel', (event) => event.preventDefault());
  }
}

/** Runs what a form asks for: busy while it lasts, and its failure said in the form. */
export async function submit(form: HTMLFormElement, act: () => Promise<void>): Promise<void> {
  const problem = form.querySelector<HTMLElement>('.problem');
  const button = form.querySelector<HTMLButtonElement>('button[type=submit]');
  if (problem) problem.textContent = '';
  for (const input of form.querySelectorAll('[aria-invalid]')) input.removeAttribute('aria-invalid');
  if (button) button.disabled = true;
  form.setAttribute('aria-busy', 'true');
  try {
    await act();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    if (problem) problem.textContent = error.message;
    const field = 'field' in error && typeof error.field === 'string' ? error.field : undefined;
    const input = field ? form.elements.namedItem(field) : null;
    if (input instanceof HTMLElement) {
      input.setAttribute('aria-invalid', 'true');
      input.focus();
    }
  } finally {
    if (button) button.disabled = false;
    form.removeAttribute('aria-busy');
  }
}

/** Clipboards work on secure pages only; elsewhere the selected text is copied the old way. */
export async function copy(input: HTMLInputElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(input.value);
    return true;
  } catch {
    input.focus();
    input.select();
    return document.execCommand('copy');
  }
}
