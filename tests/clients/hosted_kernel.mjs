// A user of Kernel's SDK.

import assert from 'node:assert/strict';
import Kernel from '@onkernel/sdk';
import { UPLOAD, UPLOAD_NAME, sha256, until } from './session.mjs';

export async function flow({ connect, signIn, checkSignedIn, choose, download, refused }) {
  const client = new Kernel();
  const made = await client.profiles.create({ name: 'kernel-node' });
  const wanted = {
    profile: { id: made.id, save_changes: true },
    viewport: { width: 900, height: 600, refresh_rate: 25 },
    tags: { team: 'node' },
    timeout_seconds: 600,
    stealth: false,
  };
  const session = await client.browsers.create(wanted);
  const id = session.session_id;
  assert.deepEqual([session.profile.name, session.timeout_seconds, session.tags.team], ['kernel-node', 600, 'node']);
  const opened = await connect(session.cdp_ws_url);
  await signIn(opened.page, 'kai');

  const folder = await refused(client.browsers.fs.writeFile(id, UPLOAD, { path: '/tmp/elsewhere.txt' }), 400, 'path');
  const path = `${folder.message.match(/must be in (\S+\/):/)[1]}${UPLOAD_NAME}`;
  await client.browsers.fs.writeFile(id, UPLOAD, { path });
  await choose(opened, path);
  const hash = await download(opened.page);
  const file = await until('the download', async () => {
    const files = await client.browsers.fs.listFiles(id, { path: '/tmp/downloads' });
    return files.find((one) => one.name === 'file.bin');
  });
  const found = await client.browsers.fs.readFile(id, { path: file.path });
  assert.equal(sha256(Buffer.from(await found.arrayBuffer())), hash, 'the download arrives whole');

  assert.equal((await fetch(session.browser_live_view_url)).status, 200);
  const listed = [];
  for await (const one of client.browsers.list({ tags: { team: 'node' }, limit: 1 })) listed.push(one.session_id);
  assert.deepEqual(listed, [id]);
  // A browser stays when its client goes.
  await opened.browser.close();
  assert.equal((await client.browsers.retrieve(id)).deleted_at, undefined);
  await refused(client.browsers.create(wanted, { maxRetries: 0 }), 409, id);
  await client.browsers.deleteByID(id);
  assert.ok((await client.browsers.retrieve(id)).deleted_at);

  const again = await client.browsers.create({ profile: { name: 'kernel-node' } });
  const reopened = await connect(again.cdp_ws_url);
  await checkSignedIn(reopened.page, 'kai');
  await client.browsers.deleteByID(again.session_id);
  await reopened.browser.close();

  await refused(client.browsers.create({ stealth: true }), 400, 'stealth');
  await refused(client.browsers.create({ profile: { name: 'nobody' } }), 404, 'nobody');
  await refused(client.extensions.list(), 400, '/extensions', 'not served');
  const { error } = await refused(client.browsers.retrieve('ses_nobody'), 404, 'ses_nobody');
  assert.equal(error.code, 'unknown_session', "errors have the service's own shape");
  assert.deepEqual((await client.profiles.list({ name: 'kernel-node' })).items.map((one) => one.id), [made.id]);
  await client.profiles.delete('kernel-node');
  return { session_id: id };
}
