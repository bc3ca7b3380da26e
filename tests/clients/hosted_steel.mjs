// A user of Steel's SDK.

import assert from 'node:assert/strict';
import Steel, { toFile } from 'steel-sdk';
import { UPLOAD, UPLOAD_NAME, sha256, until } from './session.mjs';
import { unzip } from './zip.mjs';

export async function flow({ base, key, connect, signIn, checkSignedIn, choose, download, refused }) {
  const client = new Steel();
  const session = await client.sessions.create({
    persistProfile: true,
    timeout: 600_000,
    dimensions: { width: 900, height: 600 },
    stealthConfig: { humanizeInteractions: false },
  });
  assert.deepEqual([session.status, session.persistProfile, session.timeout], ['live', true, 600_000]);
  const size = { width: 900, height: 600 };
  assert.deepEqual([session.dimensions, session.optimizeBandwidth, session.proxySource], [size, {}, null]);
  // As Steel's own guide writes it.
  const opened = await connect(`${session.websocketUrl}&apiKey=${key}`);
  await signIn(opened.page, 'sol');

  const file = await toFile(UPLOAD, 'renamed below');
  const uploaded = await client.sessions.files.upload(session.id, { file, path: UPLOAD_NAME });
  await choose(opened, uploaded.path);
  const hash = await download(opened.page);
  await until('the download', async () => {
    const { data } = await client.sessions.files.list(session.id);
    return data.find((one) => one.path === 'file.bin');
  });
  const bytes = async (reply) => Buffer.from(await (await reply).arrayBuffer());
  assert.equal(sha256(await bytes(client.sessions.files.download(session.id, 'file.bin'))), hash);
  assert.deepEqual(await bytes(client.sessions.files.download(session.id, UPLOAD_NAME)), UPLOAD);
  const files = unzip(await bytes(client.sessions.files.downloadArchive(session.id)));
  assert.deepEqual(Object.keys(files).sort(), ['file.bin', UPLOAD_NAME]);
  await client.sessions.files.delete(session.id, 'file.bin');
  await client.sessions.files.deleteAll(session.id);
  assert.deepEqual((await client.sessions.files.list(session.id)).data, []);

  const live = await client.sessions.liveDetails(session.id);
  assert.ok(live.pages.some((page) => page.url.endsWith('/downloads')), JSON.stringify(live.pages));
  assert.equal((await fetch(session.sessionViewerUrl)).status, 200);
  // A session stays when its client goes, and an address that is written by hand leads to it.
  await opened.browser.close();
  const byHand = await connect(`${base.replace(/^http/, 'ws')}?apiKey=${key}&sessionId=${session.id}`);
  assert.ok(byHand.page.url().endsWith('/downloads'), byHand.page.url());

  const carried = await client.sessions.context(session.id);
  assert.ok(carried.cookies.length > 0 && Object.keys(carried.localStorage).length > 0, JSON.stringify(carried));
  const { profileId } = session;
  const once = { maxRetries: 0 };
  await refused(client.sessions.create({ profileId, persistProfile: true }, once), 409, session.id);
  assert.equal((await client.sessions.release(session.id)).success, true);
  const released = await client.sessions.retrieve(session.id);
  assert.deepEqual([released.status, released.releaseReason, released.dimensions], ['released', 'user_requested', size]);
  await byHand.browser.close();

  const again = await client.sessions.create({ profileId });
  assert.deepEqual(again.dimensions, { width: 1280, height: 720 });
  const reopened = await connect(again.websocketUrl);
  await checkSignedIn(reopened.page, 'sol');
  const listed = [];
  for await (const one of client.sessions.list({ status: 'live', limit: 1 })) listed.push(one.id);
  assert.deepEqual(listed, [again.id]);
  assert.equal((await client.profiles.get(profileId)).sourceSessionId, session.id);
  assert.ok((await client.profiles.list()).profiles.some((profile) => profile.id === profileId));
  // The other way to carry a login along.
  const sent = await client.sessions.create({ sessionContext: carried });
  const signedIn = await connect(sent.websocketUrl);
  await checkSignedIn(signedIn.page, 'sol');
  await signedIn.browser.close();
  assert.equal((await client.sessions.releaseAll()).success, true);
  await reopened.browser.close();

  await refused(client.sessions.create({ isSelenium: true }), 400, 'isSelenium');
  await refused(client.sessions.create({ profileId: 'nobody' }), 404, 'nobody');
  assert.deepEqual((await client.extensions.list()).extensions, []);
  await refused(client.extensions.deleteAll(), 405, 'DELETE /v1/extensions', 'not served');
  await refused(client.extensions.download('ext_nobody'), 405, 'GET /v1/extensions/', 'not served');
  await refused(client.profiles.update(profileId, { userDataDir: file }), 405, 'PATCH /v1/profiles/', 'not served');
  await refused(client.sessions.events(again.id), 400, '/events', 'not served');
  const { error } = await refused(client.sessions.retrieve('ses_nobody'), 404, 'ses_nobody');
  assert.equal(error.success, false, "errors have the service's own shape");
  return { session_id: session.id };
}
