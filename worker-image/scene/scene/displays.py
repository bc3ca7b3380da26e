"""What shows a picture: frames, easels, a television; and the keepsake card for a belonging that has no model."""

from __future__ import annotations

from pathlib import Path

import bpy
from PIL import Image

from . import lettering, materials
from .model import Model

CARD = (0.24, 0.17)
LEAN = 14
"""Degrees by which a card leans back."""
LEDGE = 0.72
"""Height of an easel's ledge."""


def fit(path: Path, width: float, height: float) -> tuple[float, float]:
    """The largest size with the picture's proportions inside width x height."""
    with Image.open(path) as image:
        aspect = min(2.5, max(0.4, image.width / image.height))
    return (width, width / aspect) if width / aspect <= height else (height * aspect, height)


def framed(path: Path, width: float, height: float, wood: bpy.types.Material, lit: float = 0.06) -> Model:
    """A framed picture that stands on z = 0 and has its back at y = 0. The whole of it fits in width x height."""
    moulding = 0.028 if max(width, height) < 0.4 else 0.038
    mount = moulding * 1.1
    w, h = fit(path, width - 2 * (moulding + mount), height - 2 * (moulding + mount))
    outer_w, outer_h = w + 2 * (moulding + mount), h + 2 * (moulding + mount)
    model = Model()
    model.box((outer_w - 0.01, 0.012, outer_h - 0.01), materials.paint("#f4efe4", 0.9), (0, -0.006, 0.005))
    for side in (-1, 1):
        model.box((moulding, 0.026, outer_h), wood, (side * (outer_w - moulding) / 2, -0.013, 0), bevel=0.006)
        model.box(
            (outer_w - 2 * moulding + 0.004, 0.026, moulding),
            wood,
            (0, -0.013, 0 if side < 0 else outer_h - moulding),
            bevel=0.006,
        )
    model.picture(w, h, materials.photograph(path, lit), (0, -0.0135, moulding + mount), attached=True)
    return model


def standing(path: Path, width: float, height: float, wood: bpy.types.Material) -> Model:
    """A small framed picture that leans back on a strut."""
    model = Model().merge(framed(path, width, height, wood), turn=(-11, 0, 0))
    low, high = model.bounds()
    model.beam((0, 0.02, (high[2] - low[2]) * 0.6), (0, 0.1, 0), 0.05, 0.006, wood)
    return model


def easel(path: Path, width: float, height: float, wood: bpy.types.Material, stands_at: float = LEDGE) -> Model:
    """A painter's easel with a framed picture on its ledge."""
    model = Model()
    top = stands_at + height + 0.18
    lean = 0.16
    for side in (-1, 1):
        model.beam((side * 0.33, -0.1, 0), (side * 0.05, -0.1 + lean + 0.14, top), 0.035, 0.022, wood)
    model.beam((0, 0.62, 0), (0, 0.14, top - 0.1), 0.035, 0.022, wood)
    model.beam((-0.27, -0.055, stands_at - 0.3), (0.27, -0.055, stands_at - 0.3), 0.03, 0.02, wood)
    model.box((max(0.5, width * 0.8), 0.075, 0.024), wood, (0, -0.045, stands_at - 0.024))
    model.merge(framed(path, width, height, wood), at=(0, -0.04, stands_at), turn=(-9, 0, 0))
    return model


def television(path: Path | None, width: float = 0.92) -> Model:
    """A flat television on a foot, switched on."""
    height = width * 0.58
    model = Model()
    shell, screen = materials.paint("#2e2c2b", 0.35), materials.paint("#15171a", 0.15)
    model.box((width, 0.05, height), shell, (0, 0, 0.07), bevel=0.008)
    model.box((width - 0.035, 0.004, height - 0.035), screen, (0, -0.026, 0.0875), bevel=0.001)
    model.box((width * 0.5, 0.2, 0.018), shell, (0, 0, 0))
    model.box((0.1, 0.03, 0.09), shell, (0, 0.01, 0))
    if path is not None:
        w, h = fit(path, width - 0.05, height - 0.05)
        model.picture(w, h, materials.photograph(path, 0.9), (0, -0.0295, 0.07 + (height - h) / 2), attached=True)
    return model


def card(label: str, path: Path | None, scratch: Path) -> Model:
    """A folded keepsake card on a little stand, with a belonging's picture and its label in any script."""
    width, height = CARD
    paper, edge = materials.paint("#fbf3df", 0.85), materials.paint("#b5894e", 0.6)
    front = Model().box((width, 0.006, height), paper, bevel=0.002)
    front.box((width - 0.02, 0.0076, height - 0.02), edge, (0, 0, 0.010), bevel=0.0003)
    # The words cover all of the paper within the edge, so that no seam shows around them.
    w, h = width - 0.025, height - 0.025
    words = lettering.page(label, (w, h), scratch, below=0.66 if path else 0.0)
    front.picture(w, h, materials.photograph(words, 0.05), (0, -0.0042, 0.0125))
    if path is not None:
        w, h = fit(path, width * 0.7, height * 0.54)
        front.picture(w, h, materials.photograph(path, 0.05), (0, -0.005, height * 0.36), attached=True)
    model = Model().box((width + 0.05, 0.09, 0.016), materials.wood("#a87545", "#7a4f2c"), (0, 0.02, 0))
    return model.merge(front, at=(0, 0, 0.014), turn=(-LEAN, 0, 0))
