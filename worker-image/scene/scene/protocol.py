"""The worker's answers: one JSON object a line on standard output, and an exit code."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

DONE, BAD_JOB, RENDER_FAILED, CANCELLED = 0, 64, 70, 143
"""Exit codes. The middle two are those of sysexits.h, the last is what a shell reports for SIGTERM."""


class JobError(Exception):
    """A job that cannot be carried out as it is written. `field` names the part at fault, such as `images[2].data`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


class Events:
    """The only writer to standard output. Blender prints there as well, so its file descriptor goes to /dev/null."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._out: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.close(silence)
        self._last: tuple[str, float] = ("", -1.0)

    def send(self, event: str, **fields: Any) -> None:
        self._out.write(json.dumps({"event": event, **fields}, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._out.flush()

    def file(self, path: Path, **fields: Any) -> None:
        """Sends a whole file. The daemon shares no folder with the worker."""
        self.send("file", name=path.name, **fields, data=base64.b64encode(path.read_bytes()).decode("ascii"))

    def progress(self, stage: str, fraction: float) -> None:
        """Sends a step of at least a hundredth; Blender reports far more often."""
        fraction = round(min(1.0, fraction), 2)
        if (stage, fraction) != self._last:
            self._last = (stage, fraction)
            self.send("progress", stage=stage, fraction=fraction)
