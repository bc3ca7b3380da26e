// Lines of code for one of several clients, to be copied.

import { copy } from '../shared/dialogs';
import { make } from '../shared/dom';
import type { Client } from './client-lines';

let last = '';
let boxes = 0;

/** Shows lines for the clients, one at a time. The choice stays for the next ones. */
export function codeBox(clients: readonly Client[], lines: (client: Client) => string): HTMLElement[] {
  if (clients.length === 0) return [make('p', { class: 'hint' }, 'No client fits.')];
  const id = `code-${(boxes += 1)}`;
  const select = make('select', { id }, ...clients.map((client) => make('option', { value: client.id }, client.name)));
  if (clients.some((client) => client.id === last)) select.value = last;
  const text = make('textarea', { class: 'code', readonly: '', rows: '12', spellcheck: 'false', 'aria-label': 'Lines to paste' });
  const button = make('button', { type: 'button', class: 'small' }, 'Copy');
  const said = make('span', { class: 'hint', role: 'status' });
  const print = () => {
    const client = clients.find((one) => one.id === select.value) ?? clients[0];
    if (client) text.value = lines(client);
    text.rows = Math.min(22, text.value.split('\n').length + 1);
    said.textContent = '';
  };
  select.addEventListener('change', () => {
    last = select.value;
    print();
  });
  button.addEventListener('click', async () => {
    said.textContent = (await copy(text)) ? 'Copied.' : 'Press Ctrl+C to copy it.';
  });
  print();
  return [make('div', { class: 'code-head' }, make('label', { for: id }, 'Client'), select, button, said), text];
}
