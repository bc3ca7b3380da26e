"""Runs the worker as the daemon does: as a process of its own, with a job on its standard input."""

from __future__ import annotations

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


def attachments(folder: Path) -> None:
    for name, size, colour in (
        ("wide.jpg", (320, 200), (200, 120, 60)),
        ("tall.png", (160, 240), (60, 120, 180)),
        ("poster.jpg", (320, 180), (90, 160, 90)),
    ):
        Image.new("RGB", size, colour).save(folder / name)


def job(environment: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": "w_test",
        "seed": "0123456789abcdef",
        "environment": environment,
        "variation": 3,
        "images": [{"file": "wide.jpg", "label": "The lake"}, {"file": "tall.png", "label": "A tower"}],
        "videos": [{"file": "poster.jpg", "label": "A walk"}],
        "belongings": [{"label": "Radio"}, {"label": "Blue teapots"}, {"label": "Lucky stone"}, {"label": "Guitar"}],
        "preview": {"width": 128, "samples": 1},
        "full": {"width": 128, "samples": 2},
    } | changes


def start(folder: Path) -> subprocess.Popen[str]:
    output = folder / "output"
    output.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "scene", "--input", str(folder), "--output", str(output), "--threads", "2"]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(text: str, folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the events of one job."""
    process = start(folder)
    out, _ = process.communicate(text + "\n", timeout=LIMIT)
    return process.returncode, [json.loads(line) for line in out.splitlines()]


@cache
def rendered(
    environment: str, seed: str = "0123456789abcdef", again: int = 0
) -> tuple[tempfile.TemporaryDirectory, list[dict[str, Any]]]:
    """Renders an environment once for all tests that look at it. `again` renders the same once more."""
    del again
    folder = tempfile.TemporaryDirectory()
    attachments(Path(folder.name))
    code, events = run(json.dumps(job(environment, seed=seed)), Path(folder.name))
    assert code == 0, events
    return folder, events


def files(environment: str, **which: Any) -> Path:
    return Path(rendered(environment, **which)[0].name) / "output"
