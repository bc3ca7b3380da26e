"""Selenium's client for Python, given nothing but the address of a grid: its key is the user in the URL."""

import hashlib
import json
import os
import sys
import tempfile
from urllib.parse import urlsplit

from checks import check, until
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.file_detector import LocalFileDetector

SITE = os.environ["SITE_URL"].rstrip("/")
UPLOAD = b"warmpool upload\n" * 512


def grid():
    """`http://KEY@host:port` and the grid's path."""
    base = urlsplit(os.environ["WARMPOOL_URL"])
    return f"{base.scheme}://{os.environ['WARMPOOL_SECRET_KEY']}@{base.netloc}{os.environ.get('GRID_PATH', '')}"


def browser_options():
    """What a user of a grid asks for, whichever the browser."""
    options = {
        "chrome": webdriver.ChromeOptions,
        "firefox": webdriver.FirefoxOptions,
        "MiniBrowser": webdriver.WebKitGTKOptions,
    }[os.environ.get("BROWSER", "chrome")]()
    options.set_capability("se:downloadsEnabled", True)
    options.set_capability("selenoid:options", {"enableVNC": True, "name": "drop-in", "sessionTimeout": "2m30s"})
    if os.environ.get("BROWSER") == "MiniBrowser":
        options.binary_location = ""
    return options


def upload(driver, folder):
    """The client sends the file; the page sees it whole."""
    path = os.path.join(folder, "upload note.txt")
    with open(path, "wb") as file:
        file.write(UPLOAD)
    driver.get(f"{SITE}/upload")
    driver.file_detector = LocalFileDetector()
    driver.find_element(By.ID, "file").send_keys(path)
    driver.find_element(By.ID, "send").click()
    echo = json.loads(until("the echo", lambda: [e.text for e in driver.find_elements(By.ID, "echo")])[0])
    wanted = {"name": "upload note.txt", "size": len(UPLOAD), "sha256": hashlib.sha256(UPLOAD).hexdigest()}
    check(echo == wanted, f"the upload arrives whole: {echo}")


def download(driver, folder):
    """The client lists the download and fetches it."""
    driver.get(f"{SITE}/downloads")
    driver.find_element(By.ID, "file").click()
    until("the download", lambda: "file.bin" in driver.get_downloadable_files())
    driver.download_file("file.bin", folder)
    with open(os.path.join(folder, "file.bin"), "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    check(found == driver.find_element(By.ID, "sha256").text, "the download arrives whole")
    driver.delete_downloadable_files()
    check(driver.get_downloadable_files() == [], "the downloads are removed")


def main():
    """Opens a session, uses it, quits, prints one line of results."""
    driver = webdriver.Remote(grid(), options=browser_options())
    own = driver.capabilities["warmpool:options"]
    with tempfile.TemporaryDirectory() as folder:
        upload(driver, folder)
        download(driver, folder)
    results = {"session_id": own["session_id"], "warnings": own["warnings"]}
    driver.quit()
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(str(error))
