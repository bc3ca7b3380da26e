// Nightwatch on Warmpool: npx nightwatch --config nightwatch/nightwatch.conf.cjs, with WARMPOOL_URL, WARMPOOL_SECRET_KEY and
// PAGE in the environment.
const { hostname: host, port } = new URL(process.env.WARMPOOL_URL);

module.exports = {
  src_folders: [`${__dirname}/tests`],
  output_folder: false,
  test_settings: {
    default: {
      launch_url: process.env.PAGE,
      selenium: { start_process: false, host, port: Number(port), default_path_prefix: '/wd/hub' },
      username: 'warmpool',
      access_key: process.env.WARMPOOL_SECRET_KEY,
      desiredCapabilities: { browserName: 'chrome', 'goog:chromeOptions': { args: ['--headless'] } },
    },
  },
};
