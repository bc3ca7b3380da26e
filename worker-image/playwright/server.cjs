'use strict';
// Playwright's own server for one client, over the worker's browser, which runs already.
//
// Playwright launches what it takes for a browser: a program that hands the pipe of DevTools to the agent. All of this is
// Playwright's public interface, so one file does for every version.

const { version, port, path, program, pipe, headless, slowMo, proxy } = JSON.parse(process.env.WARMPOOL_PLAYWRIGHT);
delete process.env.WARMPOOL_PLAYWRIGHT;

const { chromium } = require(`./${version}`);

const options = {
  executablePath: program,
  env: { WARMPOOL_DEVTOOLS_PIPE: pipe },
  chromiumSandbox: true,
  headless,
  slowMo,
  // The browser itself has its way out already. This is for requests that Playwright makes without a page.
  proxy,
  host: '127.0.0.1',
  port,
  wsPath: path,
};

chromium.launchServer(options).then(
  server => {
    server.on('close', () => process.exit(0));
    console.log('Playwright listens');
  },
  error => {
    console.error(error.message);
    process.exit(1);
  },
);
