// As a user of the test runner writes it: the one change is `connectOptions`.
import { defineConfig } from '@playwright/test';

export default defineConfig({
  testMatch: 'flow.spec.mjs',
  reporter: 'list',
  outputDir: process.env.OUTPUT,
  use: {
    baseURL: process.env.SITE_URL,
    connectOptions: {
      wsEndpoint: process.env.ENDPOINT,
      headers: { authorization: `Bearer ${process.env.WARMPOOL_SECRET_KEY}` },
    },
    trace: 'on',
  },
});
