# browser-use on a browser of Warmpool's. An agent needs a model; this opens a page as an agent would.
import asyncio
import os

from browser_use import Browser


async def main():
    address = os.environ["WARMPOOL_URL"].replace("http", "ws", 1)
    browser = Browser(
        cdp_url=f"{address}/chromium?timeout=3600000&idle_timeout=900",
        headers={"service-secret-key": os.environ["WARMPOOL_SECRET_KEY"]},
    )
    await browser.start()
    await browser.navigate_to(os.environ.get("SITE_URL", "https://example.com/"))
    page = await browser.must_get_current_page()
    print(await page.evaluate("() => document.title"))
    await browser.stop()


asyncio.run(main())
