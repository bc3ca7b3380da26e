"""Selenium for Python on a warm browser:  pip install -r requirements.txt && python selenium_example.py [page]

Needs WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
"""

import json
import os
import sys
import urllib.request

from selenium import webdriver

page_url = sys.argv[1] if len(sys.argv) > 1 else "https://example.com/"

# Take a session: a browser that nobody has used before, with its driver attached.
request = urllib.request.Request(
    os.environ["WARMPOOL_URL"] + "/sessions/webdriver/create",
    data=json.dumps({"headless": True}).encode(),
    headers={"content-type": "application/json", "service-secret-key": os.environ["WARMPOOL_SECRET_KEY"]},
)
with urllib.request.urlopen(request) as reply:
    session = json.load(reply)

# From here on it is plain Selenium. Quitting the driver ends the session.
driver = webdriver.Remote(session["connect_url"], options=webdriver.ChromeOptions())
try:
    driver.get(page_url)
    print("title:", driver.title)
finally:
    driver.quit()
