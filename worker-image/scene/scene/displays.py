"""What shows a picture: frames, easels, a television; and the keepsake card for a belonging that has no model."""

from __future__ import annotations

from pathlib import Path
from unicodedata import bidirectional, category, normalize

import bpy
import numpy as np
from PIL import Image

from . import materials, shapes
from .model import Model

CARD = (0.24, 0.17)
LEAN = 14
"""Degrees by which a card leans back."""
LEDGE = 0.72
"""Height of an easel's ledge."""
LONGEST_LABEL = 60


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
    model.picture(w, h, materials.photograph(path, lit), (0, -0.0135, moulding + mount))
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
        model.picture(w, h, materials.photograph(path, 0.9), (0, -0.0295, 0.07 + (height - h) / 2))
    return model


def card(label: str, path: Path | None, numbered: int) -> tuple[Model, bpy.types.TextCurve | None]:
    """A folded keepsake card on a little stand, and the words to be set on it, if Blender can set them."""
    width, height = CARD
    paper, edge = materials.paint("#fbf3df", 0.85), materials.paint("#b5894e", 0.6)
    front = Model().box((width, 0.006, height), paper, bevel=0.002)
    for inset, depth, material in ((0.010, 0.0076, edge), (0.0125, 0.0084, paper)):
        front.box((width - 2 * inset, depth, height - 2 * inset), material, (0, 0, inset), bevel=0.0003)
    if path is not None:
        w, h = fit(path, width * 0.7, height * 0.54)
        front.picture(w, h, materials.photograph(path, 0.05), (0, -0.005, height * 0.36))
    model = Model().box((width + 0.05, 0.09, 0.016), materials.wood("#a87545", "#7a4f2c"), (0, 0.02, 0))
    model.merge(front, at=(0, 0, 0.014), turn=(-LEAN, 0, 0))
    if not settable(label):
        return model, None
    return model, words(label, width * 0.8, height * (0.22 if path else 0.6), f"words {numbered}")


def settable(label: str) -> bool:
    """Whether Blender sets a label rightly: it neither turns the direction of writing nor joins letters and marks."""
    return not any(bidirectional(c) in ("R", "AL") or category(c) in ("Mn", "Mc") for c in normalize("NFC", label))


def card_words(with_picture: bool) -> np.ndarray:
    """Where the words lie in the card's own coordinates: upright on its leaning front, lower if there is a picture above."""
    up = CARD[1] * (0.2 if with_picture else 0.5)
    return shapes.matrix((0, 0, 0.014), (-LEAN, 0, 0)) @ shapes.matrix((0, -0.0055, up), (90, 0, 0))


def words(label: str, width: float, height: float, name: str) -> bpy.types.TextCurve:
    """A label set in as large a type as its box allows. Blender's own fallback fonts cover most scripts."""
    text = " ".join(label.split())
    text = text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1].rstrip() + "…"
    curve = bpy.data.curves.new(name, "FONT")
    curve.body = text
    curve.align_x, curve.align_y = "CENTER", "CENTER"
    # A letter is about 0.55 of the type's size wide and a line 1.2 of it high.
    size = min(
        height * 0.55,
        (width * height / (max(4, len(text)) * 0.55 * 1.35)) ** 0.5,
        width / (0.62 * max(len(word) for word in text.split() or ["-"])),
    )
    curve.size = size
    curve.text_boxes[0].width, curve.text_boxes[0].x = width, -width / 2
    curve.extrude = 0.0004
    curve.materials.append(materials.paint("#4a2f1c", 0.7))
    return curve
