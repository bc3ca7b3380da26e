"""pychrome through `warmpool tunnel --port PORT`: pychrome_example.py PAGE, with WARMPOOL_TUNNEL_PORT in the environment."""

import os
import sys
import threading

import pychrome

browser = pychrome.Browser(url=f"http://127.0.0.1:{os.environ['WARMPOOL_TUNNEL_PORT']}")
tab = browser.new_tab()
loaded = threading.Event()
tab.set_listener("Page.loadEventFired", lambda **_: loaded.set())
tab.start()
tab.call_method("Page.enable")
tab.call_method("Page.navigate", url=sys.argv[1])
loaded.wait(20)
print("title:", tab.call_method("Runtime.evaluate", expression="document.title")["result"]["value"])
tab.call_method("Browser.close")
