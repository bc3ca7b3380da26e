"""A job: what the daemon asks for, checked field by field before anything is built."""

from __future__ import annotations

import base64
import binascii
import io
import json
from dataclasses import dataclass
from pathlib import Path
from re import fullmatch
from typing import Any

from PIL import Image

from .camera import Quality
from .items import Item, Kind
from .protocol import JobError

ENVIRONMENTS = ("garden", "home", "porch")
MOST_ITEMS = 100
LONGEST_LABEL = 200
MOST_PIXELS = 50_000_000
FEWEST_SAMPLES = 4
"""By default; with fewer the denoiser paints."""
PICTURE_SIDE = 1400
"""Longer sides are scaled down to this: no picture in a scene covers more of the panorama."""
FIELDS = {"id", "seed", "environment", "variation", "images", "videos", "belongings", "preview", "full", "watermark"}


@dataclass(frozen=True)
class Job:
    id: str
    seed: str
    environment: str
    variation: str
    items: list[Item]
    preview: Quality
    full: Quality
    watermark: bool

    @property
    def chance(self) -> str:
        """What seeds every random choice."""
        return f"{self.seed}/{self.environment}/{self.variation}"


def parse(text: str, scratch: Path) -> Job:
    """Reads a job, and puts small copies of its attachments into `scratch`."""
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise JobError("", f"the job is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise JobError("", "the job is not a JSON object")
    if unknown := sorted(set(fields) - FIELDS):
        raise JobError(unknown[0], f"unknown field; the known ones are {', '.join(sorted(FIELDS))}")

    seed = string(fields, "seed")
    if not fullmatch(r"[0-9a-fA-F]{8,128}", seed):
        raise JobError("seed", "must be 8 to 128 hexadecimal digits")
    environment = string(fields, "environment")
    if environment not in ENVIRONMENTS:
        raise JobError("environment", f"unknown environment; the known ones are {', '.join(ENVIRONMENTS)}")
    variation = fields.get("variation", 0)
    if isinstance(variation, bool) or not isinstance(variation, (int, str)) or len(str(variation)) > 64:
        raise JobError("variation", "must be an integer or a string of at most 64 characters")
    watermark = fields.get("watermark", False)
    if not isinstance(watermark, bool):
        raise JobError("watermark", "must be true or false")

    items: list[Item] = []
    for name, kind in (("images", "image"), ("videos", "video"), ("belongings", "belonging")):
        items += attachments(fields, name, kind, scratch)
    return Job(
        string(fields, "id"),
        seed,
        environment,
        str(variation),
        items,
        quality(fields, "preview", 1024, 4),
        quality(fields, "full", 4096, 16),
        watermark,
    )


def string(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise JobError(name, "must be a string of 1 to 200 characters")
    return value


def quality(fields: dict[str, Any], name: str, width: int, samples: int) -> Quality:
    given = fields.get(name, {})
    if not isinstance(given, dict) or set(given) - {"width", "samples"}:
        raise JobError(name, "must be an object with width and samples")

    def number(key: str, default: int, low: int, high: int) -> int:
        value = given.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise JobError(f"{name}.{key}", f"must be an integer from {low} to {high}")
        return value

    width = number("width", width, 64, 4096)
    if width % 2:
        raise JobError(f"{name}.width", "must be even, as the height is half of it")
    # The same number of rays shows more in many pixels of few samples than in few of many: the denoiser keeps edges.
    samples = min(samples, max(FEWEST_SAMPLES, round(samples * (2048 / width) ** 2)))
    return Quality(width, width // 2, number("samples", samples, 1, 1024))


def attachments(fields: dict[str, Any], name: str, kind: Kind, scratch: Path) -> list[Item]:
    given = fields.get(name, [])
    if not isinstance(given, list) or len(given) > MOST_ITEMS:
        raise JobError(name, f"must be a list of at most {MOST_ITEMS}")
    items = []
    for index, entry in enumerate(given):
        where = f"{name}[{index}]"
        if not isinstance(entry, dict) or set(entry) - {"data", "label"}:
            raise JobError(where, "must be an object with data and label")
        label = entry.get("label", "")
        if not isinstance(label, str) or len(label) > LONGEST_LABEL or (kind == "belonging" and not label.strip()):
            raise JobError(
                f"{where}.label", f"must be a string of at most {LONGEST_LABEL} characters, and a belonging needs one"
            )
        data = entry.get("data")
        if data is None and kind != "belonging":
            raise JobError(f"{where}.data", "is missing")
        copy = None if data is None else small_copy(f"{where}.data", data, scratch / f"{kind}-{index}.png")
        items.append(Item(kind, label, copy))
    return items


def small_copy(field: str, data: Any, copy: Path) -> Path:
    """Decodes a picture in this process, not in Blender, and keeps nothing but its pixels."""
    try:
        picture = io.BytesIO(base64.b64decode(data, validate=True))
    except (TypeError, binascii.Error) as error:
        raise JobError(field, "must be a picture in base64") from error
    try:
        with Image.open(picture, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MOST_PIXELS or min(image.size) < 1:
                raise JobError(field, f"has more than {MOST_PIXELS} pixels")
            image.draft("RGB", (PICTURE_SIDE, PICTURE_SIDE))
            image = image.convert("RGB")
            image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
            image.save(copy, "PNG", compress_level=1)
    except JobError:
        raise
    except Exception as error:
        raise JobError(field, f"is not a readable PNG or JPEG picture ({type(error).__name__})") from error
    return copy
