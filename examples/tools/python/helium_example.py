"""Helium on Warmpool: helium_example.py PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment."""

import os
import sys

from helium import get_driver, go_to, kill_browser, set_driver
from selenium import webdriver

address = os.environ["WARMPOOL_URL"].replace("://", f"://{os.environ['WARMPOOL_SECRET_KEY']}@")
options = webdriver.ChromeOptions()
options.add_argument("--headless")
set_driver(webdriver.Remote(address, options=options))
go_to(sys.argv[1])
print("title:", get_driver().title)
kill_browser()
