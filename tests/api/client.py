"""A session and a task by the generated client."""

import json
import os

from warmpool_client import AuthenticatedClient
from warmpool_client.api.sessions import create_session, end_session
from warmpool_client.api.tasks import get_task, submit_extract
from warmpool_client.models import CreateSession, CreatedSession, Error, SubmitExtract, Task

client = AuthenticatedClient(
    base_url=os.environ["WARMPOOL_URL"],
    token=os.environ["WARMPOOL_SECRET_KEY"],
    prefix="",
    auth_header_name="service-secret-key",
    timeout=90,
)

created = create_session.sync(client=client, body=CreateSession(headless=True, url="about:blank"))
assert isinstance(created, CreatedSession), created

work = {"url": "data:text/html,<h1>{{input.tea}}</h1>", "schema": {"title": "h1"}, "inputs": {"tea": "Sencha"}, "wait": 60}
sent = submit_extract.sync(client=client, body=SubmitExtract.from_dict(work))
assert isinstance(sent, Task), sent
task = get_task.sync(sent.task_id, client=client)
assert isinstance(task, Task), task

ended = end_session.sync(created.session_id, client=client)
refused = create_session.sync(client=client, body=CreateSession(session_timeout=0))
assert isinstance(refused, Error), refused
print(
    json.dumps(
        {
            "status": str(created.status),
            "protocol": str(created.protocol),
            "task": str(task.status),
            "output": task.to_dict()["output"],
            "ended": str(ended.status),
            "refused": str(refused.error.code),
            "field": refused.error.field,
        }
    )
)
