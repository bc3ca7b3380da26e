// How large what one installs is.

import { stat } from 'node:fs/promises';
import { imageSize } from '../docker.mjs';
import { goal } from '../table.mjs';

export async function size({ binary, image, table }) {
  table.add({ measure: 'worker image', unit: 'MB', p50: await imageSize(image), goal: goal.below(700) });
  table.add({ measure: 'daemon program', unit: 'MB', p50: (await stat(binary)).size / 1e6 });
}
