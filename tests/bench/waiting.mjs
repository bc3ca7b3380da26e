// One waiting worker of each engine, for rows that compare two daemons.

/** Each engine, and whether its worker is headless. */
export const KINDS = [
  ['chromium', true],
  ['firefox', false],
  ['webkit', false],
];

/** A daemon's settings for them. */
export const POOL = {
  ...{ POOL_CHROMIUM_HEADLESS: 1, POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 1, POOL_WEBKIT_HEADED: 1 },
  POOL_MAX_WORKERS: 8,
};

/** The container of a daemon's waiting worker of an engine. */
export async function waitingContainer(daemon, engine) {
  return (await daemon.containers()).find((found) => found.engine === engine);
}
