// A user of Kernel's SDK.

import assert from 'node:assert/strict';
import Kernel, { toFile } from '@onkernel/sdk';
import { UPLOAD, UPLOAD_NAME, sha256, until } from './session.mjs';

export async function flow({ connect, signIn, checkSignedIn, choose, download, refused }) {
  const client = new Kernel();
  const made = await client.profiles.create({ name: 'kernel-node' });
  const wanted = {
    profile: { id: made.id, save_changes: true },
    viewport: { width: 900, height: 600, refresh_rate: 25 },
    tags: { team: 'node' },
    name: 'Shop-node',
    timeout_seconds: 600,
    stealth: false,
  };
  const session = await client.browsers.create(wanted);
  const id = session.session_id;
  assert.deepEqual([session.profile.name, session.timeout_seconds, session.tags.team], ['kernel-node', 600, 'node']);
  assert.deepEqual([session.profile, session.viewport.width, session.name], [made, 900, 'Shop-node']);
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
  const foundBy = async (query) => (await client.browsers.list(query)).items.map((one) => one.session_id);
  assert.deepEqual([await foundBy({ query: 'shop-N' }), await foundBy({ query: 'other' })], [[id], []]);
  // A browser stays when its client goes.
  await opened.browser.close();
  assert.equal((await client.browsers.retrieve('Shop-node')).session_id, id);
  const once = { maxRetries: 0 };
  await refused(client.browsers.create(wanted, once), 409, id, 'name');
  await refused(client.browsers.create({ ...wanted, name: 'other' }, once), 409, id, 'kernel-node');
  await client.browsers.deleteByID('Shop-node');
  await refused(client.browsers.retrieve(id), 404, id);
  assert.ok((await client.browsers.retrieve(id, { include_deleted: true })).deleted_at);

  const archive = Buffer.from(process.env.EXTENSION, 'base64');
  const upload = async () => client.extensions.upload({ file: await toFile(archive, 'mark.zip'), name: 'mark' });
  const extension = await upload();
  assert.deepEqual([extension.name, extension.size_bytes, extension.checksum], ['mark', archive.length, sha256(archive)]);
  await refused(upload(), 409, extension.id);
  assert.deepEqual(await client.extensions.get('mark'), extension);
  assert.deepEqual((await client.extensions.list()).items, [extension]);

  const extensions = [{ name: 'mark' }];
  const again = await client.browsers.create({ profile: { name: 'kernel-node' }, extensions, timeout_seconds: 3 });
  await client.extensions.delete('mark');
  const reopened = await connect(again.cdp_ws_url);
  await checkSignedIn(reopened.page, 'kai');
  assert.equal(await reopened.page.evaluate(() => document.documentElement.dataset.mark), 'kernel');
  // An open connection is use. What is idle ends without it.
  await new Promise((resolve) => setTimeout(resolve, 4000));
  await checkSignedIn(reopened.page, 'kai');
  await reopened.browser.close();
  const isGone = (error) => error.status === 404;
  await until('the end', () => client.browsers.retrieve(again.session_id).then(() => false, isGone));

  await refused(client.browsers.create({ stealth: true }), 400, 'stealth');
  await refused(client.browsers.create({ profile: { name: 'nobody' } }), 404, 'nobody');
  await refused(client.browsers.create({ extensions: [{ name: 'nobody' }] }), 404, 'nobody');
  await refused(client.extensions.download('ext_nobody'), 405, 'GET /extensions/', 'not served');
  await refused(client.browsers.update(id, { name: 'x' }), 405, 'PATCH /browsers/', 'not served');
  await refused(client.profiles.update('kernel-node', { name: 'x' }), 405, 'PATCH /profiles/', 'not served');
  await refused(client.profiles.download('kernel-node'), 400, 'GET /profiles/', 'not served');
  const { error } = await refused(client.browsers.retrieve('ses_nobody'), 404, 'ses_nobody');
  assert.equal(error.code, 'unknown_session', "errors have the service's own shape");
  for (const query of [{ name: 'kernel-node' }, { query: 'EL-NODE' }]) {
    assert.deepEqual((await client.profiles.list(query)).items.map((one) => one.id), [made.id]);
  }
  await client.profiles.delete('kernel-node');
  return { session_id: id };
}
