"""Runs the worker as the daemon does: as a process of its own, with a job on its standard input."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 240


def picture(size: tuple[int, int], colour: tuple[int, int, int], kind: str = "JPEG") -> str:
    """A picture of one colour, in base64."""
    data = io.BytesIO()
    Image.new("RGB", size, colour).save(data, kind)
    return base64.b64encode(data.getvalue()).decode("ascii")


def job(environment: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": "w_test",
        "seed": "0123456789abcdef",
        "environment": environment,
        "variation": 3,
        "images": [
            {"data": picture((320, 200), (200, 120, 60)), "label": "The lake"},
            {"data": picture((160, 240), (60, 120, 180), "PNG"), "label": "A tower"},
        ],
        "videos": [{"data": picture((320, 180), (90, 160, 90)), "label": "A walk"}],
        "belongings": [{"label": "Radio"}, {"label": "Blue teapots"}, {"label": "Lucky stone"}, {"label": "Guitar"}],
        "preview": {"width": 128, "samples": 1},
        "full": {"width": 128, "samples": 2},
    } | changes


def start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "scene", "--threads", "2"]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(text: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the events of one job."""
    process = start()
    out, _ = process.communicate(text + "\n", timeout=LIMIT)
    return process.returncode, [json.loads(line) for line in out.splitlines()]


@cache
def rendered(
    environment: str, seed: str = "0123456789abcdef", again: int = 0
) -> tuple[tempfile.TemporaryDirectory, list[dict[str, Any]]]:
    """Renders an environment once for all tests that look at it. `again` renders the same once more."""
    del again
    folder = tempfile.TemporaryDirectory()
    code, events = run(json.dumps(job(environment, seed=seed)))
    assert code == 0, events
    for event in events:
        if event["event"] == "file":
            (Path(folder.name) / event["name"]).write_bytes(base64.b64decode(event["data"]))
    return folder, events


def files(environment: str, **which: Any) -> Path:
    return Path(rendered(environment, **which)[0].name)
