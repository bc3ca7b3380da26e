"""pydoll on Warmpool: pydoll_example.py PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment."""

import asyncio
import json
import os
import sys
import urllib.request

from pydoll.browser.chromium import Chrome

request = urllib.request.Request(
    os.environ["WARMPOOL_URL"] + "/sessions/create",
    data=json.dumps({"headless": True, "url": "about:blank"}).encode(),
    headers={"content-type": "application/json", "service-secret-key": os.environ["WARMPOOL_SECRET_KEY"]},
)
with urllib.request.urlopen(request) as reply:
    session = json.load(reply)


async def main():
    browser = Chrome()
    tab = await browser.connect(session["websocket_url"])
    await tab.go_to(sys.argv[1])
    print("title:", await tab.title())
    await browser.close()


asyncio.run(main())
