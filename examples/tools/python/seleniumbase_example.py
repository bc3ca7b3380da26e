"""SeleniumBase on Warmpool: seleniumbase_example.py PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment."""

import os
import sys
from urllib.parse import urlsplit

from seleniumbase import Driver

address = urlsplit(os.environ["WARMPOOL_URL"])
driver = Driver(
    browser="chrome",
    headless=True,
    protocol=address.scheme,
    servername=f"{os.environ['WARMPOOL_SECRET_KEY']}@{address.hostname}",
    port=str(address.port),
)
driver.get(sys.argv[1])
print("title:", driver.title)
driver.quit()
