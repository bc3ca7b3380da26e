// Forms that filter a list.

const PAUSE = 350;

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
