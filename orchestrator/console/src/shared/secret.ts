// The one time that a secret is shown.

import { copy, openDialog } from './dialogs';
import { find } from './dom';

let after: (() => void) | undefined;

/** Shows a secret until it was stored; then calls `closed`. */
export function revealSecret(title: string, name: string, value: string, closed: () => void): void {
  find('secret-name').textContent = name;
  find('secret-title').textContent = title;
  find('secret-copied').textContent = '';
  const secret = find<HTMLInputElement>('secret');
  secret.value = value;
  after = closed;
  openDialog('secret-dialog');
  secret.focus();
  secret.select();
}

export function prepareSecret(): void {
  const secret = find<HTMLInputElement>('secret');
  find('secret-copy').addEventListener('click', async () => {
    find('secret-copied').textContent = (await copy(secret)) ? 'Copied.' : 'Press Ctrl+C to copy it.';
  });
  find('secret-dialog').addEventListener('close', () => {
    // It stays nowhere, not even in the page.
    secret.value = '';
    after?.();
    after = undefined;
  });
}
