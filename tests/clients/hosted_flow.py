"""The SDKs of browsers as a service for Python, unmodified: one environment variable names Warmpool. FLOW names the service.

Each SDK holds every answer against its own types, which say what has to be there and what it may be.
"""

import hashlib
import io
import json
import os
import sys
import zipfile

from checks import check, until
from playwright.sync_api import sync_playwright

SITE = os.environ["SITE_URL"].rstrip("/")
UPLOAD = b"warmpool upload\n" * 512
UPLOAD_NAME = "upload note.txt"
SIGN_IN = "name => { document.cookie = `login=${name}; path=/; max-age=10000`; localStorage.login = name; }"
WHO = "() => [document.cookie, localStorage.login ?? null]"


def first_page(browser):
    """The page that the session begins with."""
    return browser.contexts[0].pages[0]


def sign_in(page, user):
    """What a page does when its user signs in."""
    page.goto(f"{SITE}/")
    page.evaluate(SIGN_IN, user)


def check_signed_in(page, user):
    """The page knows its user, by both."""
    page.goto(f"{SITE}/")
    seen = page.evaluate(WHO)
    check(seen == [f"login={user}", user], f"still signed in: {seen}")


def choose(page, path):
    """A page takes the file that lies at this path beside the browser."""
    page.goto(f"{SITE}/upload")
    cdp = page.context.new_cdp_session(page)
    root = cdp.send("DOM.getDocument")["root"]["nodeId"]
    node = cdp.send("DOM.querySelector", {"nodeId": root, "selector": "#file"})["nodeId"]
    cdp.send("DOM.setFileInputFiles", {"nodeId": node, "files": [path]})
    page.click("#send")
    echo = json.loads(page.text_content("#echo"))
    wanted = {"name": UPLOAD_NAME, "size": len(UPLOAD), "sha256": hashlib.sha256(UPLOAD).hexdigest()}
    check(echo == wanted, f"the upload arrives whole: {echo}")


def download(page):
    """Downloads a file; returns its hash."""
    page.goto(f"{SITE}/downloads")
    with page.expect_download():
        page.click("#file")
    return page.text_content("#sha256")


def from_zip(content, name):
    """A file of a zip; nothing where it is not there."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name) if name in archive.namelist() else None


def refused(call, status, word):
    """The call is refused with this status, and the message has the word."""
    try:
        call()
    except Exception as error:  # pylint: disable=broad-exception-caught
        check(getattr(error, "status_code", None) == status and word in str(error), f"{status} {word}: {error!r}")
        return
    raise AssertionError(f"{word} was not refused")


def browserbase(playwright):
    """A user of Browserbase."""
    from browserbase import Browserbase

    client = Browserbase(_strict_response_validation=True)
    context = client.contexts.create(project_id="project")
    settings = {"context": {"id": context.id, "persist": True}}
    session = client.sessions.create(
        project_id="project", browser_settings=settings, keep_alive=True, user_metadata={"team": "python"}
    )
    check(session.status == "RUNNING" and session.keep_alive, f"{session}")
    browser = playwright.chromium.connect_over_cdp(session.connect_url)
    page = first_page(browser)
    sign_in(page, "ann")
    upload = client.sessions.uploads.create(session.id, file=(UPLOAD_NAME, UPLOAD))
    choose(page, upload.path)
    wanted = download(page)
    found = until("the download", lambda: from_zip(client.sessions.downloads.list(session.id).read(), "file.bin"))
    check(hashlib.sha256(found).hexdigest() == wanted, "the download arrives whole")
    mine = client.sessions.list(q="user_metadata['team']:'python'")
    check([one.id for one in mine] == [session.id], f"{mine}")
    released = client.sessions.update(session.id, project_id="project", status="REQUEST_RELEASE")
    check(released.status == "COMPLETED", f"{released}")
    browser.close()

    again = client.sessions.create(browser_settings={"context": {"id": context.id}})
    browser = playwright.chromium.connect_over_cdp(again.connect_url)
    check_signed_in(first_page(browser), "ann")
    client.sessions.update(again.id, status="REQUEST_RELEASE")
    browser.close()
    refused(lambda: client.sessions.recording.retrieve(again.id), 400, "/recording")
    client.contexts.retrieve(context.id)
    client.contexts.delete(context.id)
    return session.id


def steel(playwright):
    """A user of Steel."""
    from steel import Steel

    client = Steel(_strict_response_validation=True)
    session = client.sessions.create(
        persist_profile=True, api_timeout=600_000, inactivity_timeout=300_000, project_id="p", fullscreen=True
    )
    check(session.status == "live" and session.profile_id and session.inactivity_timeout == 300_000, f"{session}")
    browser = playwright.chromium.connect_over_cdp(f"{session.websocket_url}&apiKey={os.environ['STEEL_API_KEY']}")
    page = first_page(browser)
    sign_in(page, "stu")
    choose(page, client.sessions.files.upload(session.id, file=(UPLOAD_NAME, UPLOAD)).path)
    wanted = download(page)

    def listed():
        return [file.path for file in client.sessions.files.list(session.id).data]

    until("the download", lambda: "file.bin" in listed())
    found = client.sessions.files.download("file.bin", session_id=session.id).read()
    check(hashlib.sha256(found).hexdigest() == wanted, "the download arrives whole")
    client.sessions.live_details(session.id)
    check(client.sessions.release(session.id).success, "released")
    check(client.sessions.retrieve(session.id).release_reason == "user_requested", "why it was released")
    browser.close()

    again = client.sessions.create(profile_id=session.profile_id)
    browser = playwright.chromium.connect_over_cdp(again.websocket_url)
    check_signed_in(first_page(browser), "stu")
    check([one.id for one in client.sessions.list(status="live", project_id="p")] == [again.id], "listed")
    check(client.profiles.get(session.profile_id, project_id="p").source_session_id == session.id, "the profile's source")
    check(session.profile_id in [one.id for one in client.profiles.list(project_id="p").profiles], "its profile is listed")
    check(client.sessions.release_all(project_id="p").success, "all are released")
    browser.close()
    refused(lambda: client.credentials.list(), 400, "/v1/credentials")
    refused(lambda: client.sessions.create(ca_certificates=["x"]), 400, "caCertificates")
    return session.id


def kernel(playwright):
    """A user of Kernel."""
    from kernel import Kernel

    client = Kernel(_strict_response_validation=True)
    client.profiles.create(name="kernel-python")
    session = client.browsers.create(
        profile={"name": "kernel-python", "save_changes": True},
        timeout_seconds=600,
        location={"timezone": "Europe/Berlin", "locale": "de-DE"},
        region="eu-west",
        proxy={"mode": "default"},
        memory="1GiB",
    )
    check(session.profile.name == "kernel-python" and session.profile_save_changes, f"{session}")
    browser = playwright.chromium.connect_over_cdp(session.cdp_ws_url)
    page = first_page(browser)
    sign_in(page, "kim")
    where = page.evaluate("[navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone]")
    check(where == ["de-DE", "Europe/Berlin"], f"{where}")
    client.browsers.fs.write_file(session.session_id, UPLOAD, path=UPLOAD_NAME)
    wanted = download(page)

    def listed():
        files = client.browsers.fs.list_files(session.session_id, path="/tmp/downloads")
        return {file.name: file for file in files}

    until("the download", lambda: "file.bin" in listed())
    found = client.browsers.fs.read_file(session.session_id, path=listed()["file.bin"].path).read()
    check(hashlib.sha256(found).hexdigest() == wanted, "the download arrives whole")
    check(listed()[UPLOAD_NAME].size_bytes == len(UPLOAD), "the upload arrives whole")
    client.browsers.delete_by_id(session.session_id)
    browser.close()

    again = client.browsers.create(profile={"name": "kernel-python"})
    browser = playwright.chromium.connect_over_cdp(again.cdp_ws_url)
    check_signed_in(first_page(browser), "kim")
    check([one.session_id for one in client.browsers.list(region="us-east")] == [again.session_id], "listed")
    client.browsers.delete_by_id(again.session_id)
    browser.close()
    refused(lambda: client.proxies.list(), 400, "/proxies")
    refused(lambda: client.browsers.create(network={"allowed_hosts": ["a.example"]}), 400, "network")
    check("kernel-python" in [one.id for one in client.profiles.list()], "its profile is listed")
    client.profiles.delete("kernel-python")
    return session.session_id


FLOWS = {"browserbase": browserbase, "kernel": kernel, "steel": steel}


def main():
    """Runs the flow that is named, and prints one line of results."""
    with sync_playwright() as playwright:
        session_id = FLOWS[os.environ["FLOW"]](playwright)
    print(json.dumps({"session_id": session_id}))


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(str(error))
