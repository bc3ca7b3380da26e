// Taiko through `warmpool tunnel --port PORT`: node taiko.mjs PAGE, with WARMPOOL_TUNNEL_PORT in the environment.
import taiko from 'taiko';

await taiko.openBrowser({ host: '127.0.0.1', port: Number(process.env.WARMPOOL_TUNNEL_PORT) });
await taiko.goto(process.argv[2]);
console.log('title:', await taiko.title());
// closeBrowser() closes the page first, and every other time loses its connection with it, on any Chromium.
process.exit();
