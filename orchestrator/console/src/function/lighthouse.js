// Lighthouse, as `lighthouse.mjs` of the build makes it fit for pages.

export { default as lighthouse } from 'lighthouse';
export { initializeConfig } from 'lighthouse/core/config/config.js';
export { screenEmulationMetrics, userAgents } from 'lighthouse/core/config/constants.js';
