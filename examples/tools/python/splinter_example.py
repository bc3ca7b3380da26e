"""Splinter on Warmpool: splinter_example.py PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment."""

import os
import sys

from selenium.webdriver import ChromeOptions
from splinter import Browser

address = os.environ["WARMPOOL_URL"].replace("://", f"://{os.environ['WARMPOOL_SECRET_KEY']}@")
options = ChromeOptions()
options.add_argument("--headless")
with Browser("remote", browser="chrome", command_executor=address, options=options) as browser:
    browser.visit(sys.argv[1])
    print("title:", browser.title)
