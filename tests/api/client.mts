// A session and a task by the generated client. Its types are checked before it runs.

import { createWarmpoolClient, type components } from 'warmpool-client';

declare const process: { env: Record<string, string | undefined> };

const client = createWarmpoolClient(process.env['WARMPOOL_URL']!, process.env['WARMPOOL_SECRET_KEY']!);

const created = await client.POST('/sessions/create', { body: { headless: true, url: 'about:blank' } });
if (!created.data) throw new Error(created.error.error.message);
const { session_id: id, status, protocol } = created.data;

const sent = await client.POST('/lam/extract', {
  body: { url: 'data:text/html,<h1>{{input.tea}}</h1>', schema: { title: 'h1' }, inputs: { tea: 'Sencha' }, wait: 60 },
});
if (!sent.data) throw new Error(sent.error.error.message);
const read = await client.GET('/lam/tasks/{id}', { params: { path: { id: sent.data.taskId } } });
const task: components['schemas']['Task'] | undefined = read.data;
if (!task) throw new Error('no task');

const ended = await client.DELETE('/sessions/{id}', { params: { path: { id } } });
const refused = await client.POST('/sessions/create', { body: { session_timeout: 0 } });
console.log(JSON.stringify({
  status,
  protocol,
  task: task.status,
  output: task.output,
  ended: ended.data?.status,
  refused: refused.error?.error.code,
  field: refused.error?.error.field,
}));
