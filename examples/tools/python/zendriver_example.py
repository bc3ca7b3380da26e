"""zendriver through `warmpool tunnel --port PORT`: zendriver_example.py PAGE, with WARMPOOL_TUNNEL_PORT in the environment."""

import asyncio
import os
import sys

import zendriver


async def main():
    browser = await zendriver.start(host="127.0.0.1", port=int(os.environ["WARMPOOL_TUNNEL_PORT"]))
    tab = await browser.get(sys.argv[1])
    print("title:", await tab.evaluate("document.title"))
    await browser.connection.send(zendriver.cdp.browser.close())


asyncio.run(main())
