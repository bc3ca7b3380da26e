// Browserless with one browser: the Chromium that BENCH_CHROMIUM names. As it comes it wants Chrome, Edge, Firefox and WebKit
// too, or refuses to start.

import playwright from 'playwright-core';

playwright.chromium.executablePath = () => process.env.BENCH_CHROMIUM;

// It looks for its browsers when it is loaded, which must therefore come after.
const { Browserless } = await import('@browserless.io/browserless');

class ChromiumOnly extends Browserless {
  routeIsDisabled(route) {
    const browser = route.browser?.name;
    return super.routeIsDisabled(route) || (browser !== undefined && browser !== 'ChromiumCDP');
  }
}

const service = new ChromiumOnly();
await service.start();
process.once('SIGTERM', async () => {
  await service.stop();
  process.exit(0);
});
