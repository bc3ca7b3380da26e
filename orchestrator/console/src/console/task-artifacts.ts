// The files that a task left: screenshots are shown, all can be saved.

import { find, make, tell } from '../shared/dom';
import { bytes } from '../shared/format';
import { download, Refusal, request, segment } from '../shared/request';
import type { Failed } from './page';
import type { Artifact, Task } from './task-record';

/** Pictures up to this size are shown. */
const MOST_BYTES = 8 << 20;

export class TaskArtifacts {
  #shown = '';
  #urls: string[] = [];

  constructor(private readonly failed: Failed) {}

  clear(): void {
    this.#shown = '';
    for (const url of this.#urls) URL.revokeObjectURL(url);
    this.#urls = [];
    find('task-artifacts').replaceChildren();
    find('task-artifacts-panel').hidden = true;
  }

  show(task: Task): void {
    const artifacts = task.artifacts ?? [];
    const text = JSON.stringify([task.taskId, artifacts]);
    if (text === this.#shown) return;
    this.clear();
    this.#shown = text;
    find('task-artifacts-panel').hidden = artifacts.length === 0;
    find('task-artifacts').replaceChildren(...artifacts.map((artifact) => this.#one(task, artifact)));
  }

  #one(task: Task, artifact: Artifact): HTMLElement {
    const path = `lam/tasks/${segment(task.taskId)}/artifacts/${segment(artifact.name)}`;
    const save = make('button', { type: 'button', class: 'small' }, 'Download', make('span', { class: 'unseen' }, ` ${artifact.name}`));
    save.addEventListener('click', () => void download(path, artifact.name).catch((error) => this.#say(error)));
    const failed = artifact.name === task.error?.screenshot ? 'the page when it failed, ' : '';
    const caption = make('span', { class: 'name' }, artifact.name, make('span', { class: 'note' }, `${failed}${artifact.mediaType}, ${bytes(artifact.bytes)}`));
    const made = make('li', {}, caption, save);
    if (/^image\/(png|jpeg)$/.test(artifact.mediaType) && artifact.bytes <= MOST_BYTES) {
      const image = make('img', { alt: `Screenshot ${artifact.name}` });
      made.prepend(image);
      // Fetched once it is near the screen.
      const watch = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watch.disconnect();
        void this.#load(path, image);
      }, { rootMargin: '300px' });
      watch.observe(made);
    }
    return made;
  }

  async #load(path: string, image: HTMLImageElement): Promise<void> {
    try {
      const reply = await request('GET', path);
      const url = URL.createObjectURL(await reply.blob());
      this.#urls.push(url);
      image.src = url;
    } catch (error) {
      image.remove();
      this.#say(error);
    }
  }

  #say(error: unknown): void {
    this.failed(error);
    if (error instanceof Refusal) tell(find('task-problem'), error.message);
  }
}
