// Forms that filter a list.

const PAUSE = 350;
const narrow = matchMedia('(max-width: 700px)');

/** Filters are folded where they would fill the screen. The fold says how many of them are set. */
export function prepareFolds(): void {
  for (const fold of document.querySelectorAll<HTMLDetailsElement>('details.fold')) {
    const fit = () => (fold.open = !narrow.matches);
    narrow.addEventListener('change', fit);
    fit();
    const form = fold.querySelector('form');
    const count = fold.querySelector('.fold-count');
    const print = () => {
      const set = form ? [...new FormData(form)].filter(([name, value]) => !name.startsWith('sort_') && String(value).trim() !== '').length : 0;
      if (count) count.textContent = set ? ` (${set} set)` : '';
    };
    form?.addEventListener('input', print);
    form?.addEventListener('reset', () => setTimeout(print));
  }
}

/** Calls `changed` once a form is sent or cleared, or typing in it has paused. Returns a function that cancels a pending call. */
export function watchFilters(form: HTMLFormElement, changed: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const cancel = () => clearTimeout(timer);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    changed();
  });
  form.addEventListener('input', () => {
    cancel();
    timer = setTimeout(changed, PAUSE);
  });
  // The fields are empty only after this event.
  form.addEventListener('reset', () => setTimeout(changed));
  return cancel;
}
