// A user of Browserbase's SDK.

import assert from 'node:assert/strict';
import Browserbase, { toFile } from '@browserbasehq/sdk';
import { UPLOAD, UPLOAD_NAME, sha256, until } from './session.mjs';
import { unzip } from './zip.mjs';

export async function flow({ connect, signIn, checkSignedIn, choose, download, refused }) {
  const client = new Browserbase();
  const projectId = 'project';
  const { id: contextId } = await client.contexts.create({ projectId });
  assert.equal((await client.contexts.retrieve(contextId)).id, contextId);
  const settings = { context: { id: contextId, persist: true }, viewport: { width: 900 }, blockAds: false };
  const wanted = { projectId, browserSettings: settings, api_timeout: 600, userMetadata: { team: 'node' } };

  const session = await client.sessions.create(wanted);
  assert.deepEqual([session.status, session.contextId, session.keepAlive], ['RUNNING', contextId, false]);
  assert.deepEqual([session.region, session.seleniumRemoteUrl, session.signingKey], ['us-west-2', '', '']);
  assert.equal(Date.parse(session.expiresAt) - Date.parse(session.createdAt), 600_000);
  const opened = await connect(session.connectUrl);
  await signIn(opened.page, 'bea');
  assert.deepEqual(await opened.page.evaluate(() => [innerWidth, innerHeight]), [900, 720]);

  const file = await toFile(UPLOAD, UPLOAD_NAME);
  const uploaded = await client.sessions.uploads.create(session.id, { file });
  await choose(opened, uploaded.path);
  const hash = await download(opened.page);
  const found = await until('the download', async () => {
    const reply = await client.sessions.downloads.list(session.id);
    return unzip(Buffer.from(await reply.arrayBuffer()))['file.bin'];
  });
  assert.equal(sha256(found), hash, 'the download arrives whole');

  const live = await client.sessions.debug(session.id);
  assert.ok(live.pages.some((page) => page.url.endsWith('/downloads')), JSON.stringify(live.pages));
  assert.equal((await fetch(live.debuggerUrl)).status, 200);
  const listed = async (query) => (await client.sessions.list(query)).map((one) => one.id);
  assert.deepEqual(await listed({ q: "user_metadata['team']:'node'", status: 'RUNNING' }), [session.id]);
  assert.deepEqual(await listed({ q: "user_metadata['team']:'other'" }), []);
  assert.equal((await client.sessions.retrieve(session.id)).userMetadata.team, 'node');

  // One session at a time writes a context.
  const once = { maxRetries: 0 };
  await refused(client.sessions.create(wanted, once), 409, session.id);
  const released = await client.sessions.update(session.id, { projectId, status: 'REQUEST_RELEASE' });
  assert.equal(released.status, 'COMPLETED');
  await opened.browser.close();

  const again = await client.sessions.create({ projectId, browserSettings: { context: { id: contextId } } });
  const reopened = await connect(again.connectUrl);
  await checkSignedIn(reopened.page, 'bea');
  // As it is without `keepAlive`, the session ends with its client's connection.
  await reopened.browser.close();
  await until('the end', async () => (await client.sessions.retrieve(again.id)).status === 'COMPLETED');

  await refused(client.sessions.create({ browserSettings: { verified: true } }), 400, 'browserSettings.verified');
  await refused(client.sessions.create({ browserSettings: { context: { id: 'nobody' } } }), 404, 'nobody');
  await refused(client.extensions.create({ file }), 400, 'not a browser extension');
  await refused(client.sessions.logs.list(again.id), 400, '/logs', 'not served');
  await refused(client.contexts.update(contextId), 405, 'PUT /v1/contexts/', 'not served');
  await refused(client.certificates.list(), 400, 'GET /v1/certificates', 'not served');
  await refused(client.sessions.retrieve('ses_nobody'), 404, 'ses_nobody');
  const stranger = new Browserbase({ apiKey: 'bb_live_nobody' });
  const { error } = await refused(stranger.sessions.list(), 401, 'key');
  assert.deepEqual([error.statusCode, error.error], [401, 'Unauthorized'], "errors have the service's own shape");
  await client.contexts.delete(contextId);
  await refused(client.contexts.retrieve(contextId), 404, contextId);
  return { session_id: session.id };
}
