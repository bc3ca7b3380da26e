"""DrissionPage through `warmpool tunnel --port PORT`: drissionpage_example.py PAGE, with WARMPOOL_TUNNEL_PORT in the environment."""

import os
import sys

from DrissionPage import Chromium, ChromiumOptions

options = ChromiumOptions(read_file=False).headless().set_address(f"127.0.0.1:{os.environ['WARMPOOL_TUNNEL_PORT']}")
browser = Chromium(options)
tab = browser.latest_tab
tab.get(sys.argv[1])
print("title:", tab.title)
browser.quit()
