"""Sends bodies that are too long, with Python's own client and with urllib3, on which requests stands; prints the answers.

WARMPOOL_URL and WARMPOOL_SECRET_KEY say where; PATHS is a JSON list of paths.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from urllib import error, request

import urllib3

URL = os.environ["WARMPOOL_URL"]
HEADERS = {"service-secret-key": os.environ["WARMPOOL_SECRET_KEY"], "Content-Type": "application/json"}
CHUNK = b" " * (1 << 20)


COUNT = 12


def whole():
    return CHUNK * COUNT


def slow():
    """A body that is on its way for longer than a server lingers for a client that is silent."""
    for _ in range(COUNT):
        yield CHUNK
        time.sleep(0.3)


def own(path, body, headers):
    try:
        with request.urlopen(request.Request(URL + path, data=body, headers=headers, method="POST")) as answer:
            return answer.status, answer.read()
    except error.HTTPError as refusal:
        return refusal.code, refusal.read()


def other(path, body, headers):
    answer = urllib3.PoolManager(retries=False).request("POST", URL + path, body=body, headers=headers)
    return answer.status, answer.data


def ask(send, path, body, length):
    found = {"path": path, "client": send.__name__, "body": body.__name__, "length": length}
    headers = HEADERS | ({"Content-Length": str(COUNT * len(CHUNK))} if length else {})
    try:
        status, text = send(path, body(), headers)
        return found | {"status": status, "answer": text.decode()}
    except Exception as fault:
        return found | {"fault": repr(fault)}


cases = []
for path in json.loads(os.environ["PATHS"]):
    for send in (own, other):
        cases += [(send, path, whole, True), (send, path, slow, True)]
        # Drivers take no body without a length.
        if not path.endswith("/execute/sync"):
            cases.append((send, path, slow, False))
with ThreadPoolExecutor(len(cases)) as pool:
    print(json.dumps(list(pool.map(lambda case: ask(*case), cases))))
