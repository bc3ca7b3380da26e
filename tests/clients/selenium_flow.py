"""The same flow with Selenium's client for Python, with its own remote file upload."""

import base64
import hashlib
import json
import os
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zlib

from checks import check, until
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as expect
from selenium.webdriver.support.ui import Select, WebDriverWait

BASE = os.environ["WARMPOOL_URL"].rstrip("/")
KEY = os.environ["WARMPOOL_SECRET_KEY"]
SITE = os.environ["SITE_URL"].rstrip("/")
HEADLESS = os.environ.get("HEADLESS") == "true"
BROWSER = os.environ.get("BROWSER_TYPE", "chromium")
OPTIONS = {
    "chromium": webdriver.ChromeOptions,
    "firefox": webdriver.FirefoxOptions,
    "webkit": webdriver.WebKitGTKOptions,
}
UPLOAD = b"warmpool upload\n" * 512
UPLOAD_NAME = "upload note.txt"


def call(method, path, body=None):
    """One REST call; answers the body's bytes, raises on an error status."""
    request = urllib.request.Request(BASE + path, method=method)
    request.add_header("service-secret-key", KEY)
    if body is not None:
        request.add_header("content-type", "application/json")
        request.data = json.dumps(body).encode()
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read()


def png_size(data):
    """Checks that a PNG has something on it; answers its width and height."""
    check(data[1:4] == b"PNG", "screenshot is a PNG")
    at, packed = 8, b""
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    check(len(set(zlib.decompress(packed))) > 16, "screenshot is blank")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


class Flow:
    """The steps, in the order a user might take them."""

    def __init__(self, driver, session_id):
        self.driver = driver
        self.session_id = session_id

    def wait(self, condition):
        return WebDriverWait(self.driver, 15).until(condition)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def echo(self):
        self.wait(expect.presence_of_element_located((By.ID, "echo")))
        return json.loads(self.find("#echo").text)

    def form(self):
        self.driver.get(f"{SITE}/form")
        self.find("#name").send_keys("Ada Lovelace")
        Select(self.find("#colour")).select_by_value("green")
        self.find("#agree").click()
        self.find("#send").click()
        echo = self.echo()
        check(echo == {"name": "Ada Lovelace", "colour": "green", "agree": "yes"}, f"form: {echo}")
        return echo

    def dialogs(self):
        self.driver.get(f"{SITE}/dialogs")
        self.find("#confirm").click()
        self.wait(expect.alert_is_present()).dismiss()
        check(self.find("#answer").text == "false", "dismissed dialog answers false")

    def windows(self):
        home = self.driver.current_window_handle
        self.driver.get(f"{SITE}/popup")
        self.find("#open").click()
        self.wait(expect.number_of_windows_to_be(2 + self.extra))
        child = [h for h in self.driver.window_handles if h not in self.known][0]
        self.driver.switch_to.window(child)
        self.wait(expect.presence_of_element_located((By.ID, "child")))
        self.driver.close()
        self.driver.switch_to.window(home)
        self.driver.get(f"{SITE}/tab/1")
        self.driver.switch_to.new_window("tab")
        self.driver.get(f"{SITE}/tab/2")
        check(self.driver.title == "Tab 2", "second tab")
        self.driver.close()
        self.driver.switch_to.window(home)
        check(self.driver.title == "Tab 1", "first tab")

    def upload(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, UPLOAD_NAME)
            with open(path, "wb") as file:
                file.write(UPLOAD)
            self.driver.get(f"{SITE}/upload")
            # This client sends the file itself to the driver's /se/file.
            self.find("#file").send_keys(path)
            self.find("#send").click()
            echo = self.echo()
        expected = {
            "name": UPLOAD_NAME,
            "size": len(UPLOAD),
            "sha256": hashlib.sha256(UPLOAD).hexdigest(),
        }
        check(echo == expected, f"upload: {echo}")
        return echo

    def download(self):
        self.driver.get(f"{SITE}/downloads")
        self.find("#file").click()
        files = f"/sessions/{self.session_id}/files"

        def complete():
            listed = json.loads(call("GET", files))
            return [f for f in listed if f["name"] == "file.bin" and f["source"] == "download" and f["complete"]]

        until("the download", complete)
        data = call("GET", f"{files}/{urllib.parse.quote('file.bin')}")
        found = hashlib.sha256(data).hexdigest()
        check(found == self.find("#sha256").text, "download arrives whole")
        return found

    def pictures(self):
        self.driver.get(f"{SITE}/paint")
        width, height = png_size(self.driver.get_screenshot_as_png())
        if BROWSER == "webkit":
            # Its driver does not print.
            return {"width": width, "height": height}
        pdf = base64.b64decode(self.driver.print_page())
        check(pdf.startswith(b"%PDF-") and b"%%EOF" in pdf[-32:], "a whole PDF")
        return {"width": width, "height": height, "pdf": len(pdf)}

    def cookies(self):
        self.driver.get(f"{SITE}/cookies/set?flavour=oat")
        check(self.driver.get_cookie("flavour")["value"] == "oat", "cookie of the page")
        self.driver.add_cookie({"name": "mine", "value": "set"})
        self.driver.get(f"{SITE}/cookies")
        check(self.echo() == {"flavour": "oat", "mine": "set"}, "cookies are sent")

    def run(self):
        """Every step; answers what each found."""
        self.wait(expect.title_is("Test site"))
        self.known = list(self.driver.window_handles)
        self.extra = len(self.known) - 1
        results = {"session_id": self.session_id, "form": self.form()}
        self.dialogs()
        self.windows()
        results["upload"] = self.upload()
        results["download"] = self.download()
        results["png"] = self.pictures()
        self.cookies()
        return results


def main():
    """Creates a session, runs the flow, quits, prints one line of results."""
    body = {"url": f"{SITE}/", "headless": HEADLESS, "session_timeout": 300, "browser_type": BROWSER}
    session = json.loads(call("POST", "/sessions/webdriver/create", body))
    driver = webdriver.Remote(session["connect_url"], options=OPTIONS[BROWSER]())
    results = Flow(driver, session["session_id"]).run()
    driver.quit()
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.url} answered {error.code}: {error.read().decode(errors='replace')}")
