"""Carries out one job: builds the scene, renders preview and full picture, and writes the files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from PIL import Image

from . import camera
from .environments import garden, home, porch
from .items import Item, Setting
from .job import Job
from .output import THUMBNAIL, Output, flat_view, gpano, watermarked
from .placement import Hotspot, Placement
from .protocol import Events
from .stage import Stage

ENVIRONMENTS: dict[str, Callable[[Stage], Setting]] = {"garden": garden.build, "home": home.build, "porch": porch.build}
PREVIEW_FIELD = 90


def render(job: Job, output: Output, scratch: Path, events: Events, threads: int) -> None:
    started = time.monotonic()
    events.progress("build", 0)
    stage = Stage.empty(job.chance)
    setting = ENVIRONMENTS[job.environment](stage)
    placement = Placement(stage, setting, scratch)
    placement.place_all(job.items)
    placement.dress()
    placement.find_pictures()
    camera.prepare(stage, threads, setting.bounces, setting.exposure, setting.look)
    events.progress("build", 1)

    view = initial_view(placement.hotspots)
    for index, item in placement.unplaced:
        events.send("unplaced", kind=item.kind, index=index)
    output.json("hotspots.json", description(job, setting, placement, view))
    events.file(output.folder / "hotspots.json")

    def finish(picture: Image.Image) -> tuple[Image.Image, bytes]:
        return watermarked(picture) if job.watermark else picture, gpano(picture.size, setting.north, *view)

    picture, _ = camera.shoot(job.preview, scratch, False, lambda fraction: events.progress("preview", fraction))
    picture, panorama = finish(picture)
    output.jpeg("preview.jpg", picture, panorama)
    output.jpeg("thumbnail.jpg", flat_view(picture, *view, THUMBNAIL, PREVIEW_FIELD))
    events.file(output.folder / "preview.jpg", seconds=round(time.monotonic() - started, 1))
    events.file(output.folder / "thumbnail.jpg")

    picture, depth = camera.shoot(job.full, scratch, True, lambda fraction: events.progress("full", fraction))
    assert depth is not None
    picture, panorama = finish(picture)
    output.jpeg("scene.jpg", picture, panorama)
    output.png("scene.png", picture)
    output.jpeg("thumbnail.jpg", flat_view(picture, *view, THUMBNAIL, PREVIEW_FIELD))
    output.png("depth.png", depth)
    for name in ("scene.jpg", "scene.png", "thumbnail.jpg", "depth.png"):
        events.file(output.folder / name)
    events.send("done", seconds=round(time.monotonic() - started, 1))


def initial_view(hotspots: list[Hotspot]) -> tuple[float, float]:
    """Yaw and pitch of the first thing to see: the first image, or else whatever was placed first."""
    familiar = sorted(hotspots, key=lambda spot: spot.kind != "image")
    if not familiar:
        return 0.0, -4.0
    return familiar[0].yaw, max(-12.0, min(3.0, familiar[0].pitch))


def description(job: Job, setting: Setting, placement: Placement, view: tuple[float, float]) -> dict:
    def unplaced(index: int, item: Item) -> dict:
        return {"kind": item.kind, "index": index, "label": item.label}

    return {
        "version": 1,
        "id": job.id,
        "environment": job.environment,
        "width": job.full.width,
        "height": job.full.height,
        "heading": round(setting.north, 1),
        "initial_view": {"yaw": view[0], "pitch": view[1], "hfov": PREVIEW_FIELD},
        "depth": {"file": "depth.png", "far_metres": camera.FAR, "far_value": 65535},
        "items": [asdict(spot) for spot in placement.hotspots],
        "unplaced": [unplaced(index, item) for index, item in placement.unplaced],
    }
