// Plays a process of pages that has been taken over: whatever it sends of ads, the agent's channel gets questions of ads alone.
import assert from 'node:assert';
import { readFile } from 'node:fs/promises';

const source = await readFile(new URL('../../worker-image/firefox/ads.sys.mjs', import.meta.url), 'utf8');
globalThis.ChromeUtils = { defineESModuleGetters() {} };
globalThis.Ci = { nsIContentPolicy: {} };
globalThis.JSWindowActorParent = class {};
const alone = source.replaceAll(/^import .*$/gm, '');
const { connectAds, WarmpoolAdsParent } = await import(`data:text/javascript,${encodeURIComponent(alone)}`);

const sent = [];
connectAds(message => sent.push(JSON.parse(JSON.stringify(message))));
const actor = new WarmpoolAdsParent();
for (const data of [
  { event: 'download', state: 'completed', path: '/etc/passwd', download: '0' },
  { id: 7, result: true, question: 7 },
  { page: 'https://a.example/', id: 7, event: 'log', question: 7, about: 'x' },
  { page: { id: 7 }, names: { classes: ['a', { b: 1 }, 'x'.repeat(1 << 20)], ids: 'b' }, exceptions: { length: 1 } },
  { page: 'x'.repeat(1 << 20) },
  null,
]) {
  void actor.receiveMessage({ name: 'ads', data });
}
const none = { names: { classes: [], ids: [] }, exceptions: [] };
assert.deepStrictEqual(
  sent.map(({ about }) => about),
  [none, none, { page: 'https://a.example/' }, { ...none, names: { classes: ['a'], ids: [] } }, none],
);
sent.forEach((message, at) => {
  assert.deepStrictEqual(Object.keys(message), ['event', 'question', 'about']);
  assert.deepStrictEqual([message.event, message.question], ['ads', at + 1]);
});
