"""Selenium for Python on a warm browser; Debian's python3-venv makes the environment for it:

    python3 -m venv .venv && .venv/bin/pip install -r requirements.txt && .venv/bin/python selenium_example.py [page]

Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment; BROWSER_TYPE may be chromium, firefox or webkit.
"""

import json
import os
import sys
import urllib.request

from selenium import webdriver

browser_type = os.environ.get("BROWSER_TYPE", "chromium")
page_url = sys.argv[1] if len(sys.argv) > 1 else "https://example.com/"

# Take a session: a browser that nobody has used before, with its driver attached.
request = urllib.request.Request(
    os.environ["WARMPOOL_URL"] + "/sessions/webdriver/create",
    data=json.dumps({"browser_type": browser_type, "headless": True}).encode(),
    headers={"content-type": "application/json", "service-secret-key": os.environ["WARMPOOL_SECRET_KEY"]},
)
with urllib.request.urlopen(request) as reply:
    session = json.load(reply)

# From here on it is plain Selenium. Quitting the driver ends the session.
options = {"chromium": webdriver.ChromeOptions, "firefox": webdriver.FirefoxOptions, "webkit": webdriver.WebKitGTKOptions}
driver = webdriver.Remote(session["connect_url"], options=options[browser_type]())
try:
    driver.get(page_url)
    print("title:", driver.title)
finally:
    driver.quit()
