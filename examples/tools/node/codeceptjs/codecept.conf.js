// CodeceptJS on Warmpool: npx codeceptjs run --config codeceptjs, with WARMPOOL_URL, WARMPOOL_SECRET_KEY and PAGE in the
// environment.
const { protocol, hostname, port } = new URL(process.env.WARMPOOL_URL);

export const config = {
  name: 'title',
  tests: './title_test.mjs',
  output: process.env.OUTPUT ?? './output',
  helpers: {
    WebDriver: {
      url: process.env.PAGE,
      browser: 'chrome',
      protocol: protocol.replace(':', ''),
      host: hostname,
      port: Number(port),
      path: '/',
      user: 'warmpool',
      key: process.env.WARMPOOL_SECRET_KEY,
      desiredCapabilities: { 'goog:chromeOptions': { args: ['--headless'] } },
    },
  },
};
