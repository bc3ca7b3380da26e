"""Parts of buildings: walls with openings, windows, curtains, mouldings, railings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import bpy
import numpy as np

from . import materials, shapes
from .model import Model

Material = bpy.types.Material
Opening = tuple[float, float, float, float]
"""A hole in a wall: left, right (along the wall, from its middle), bottom and top."""


def wall(
    length: float,
    height: float,
    material: Material,
    openings: tuple[Opening, ...] = (),
    thickness: float = 0.16,
    base: float = 0.0,
) -> Model:
    """A wall along x whose room side is at y = 0; it lies behind that. `base` is the height at which it starts."""
    model = Model()
    left = -length / 2

    def piece(x0: float, x1: float, z0: float, z1: float) -> None:
        if x1 - x0 > 0.001 and z1 - z0 > 0.001:
            model.box((x1 - x0, thickness, z1 - z0), material, ((x0 + x1) / 2, thickness / 2, z0), bevel=0.0005)

    for x0, x1, z0, z1 in sorted(openings):
        piece(left, x0, base, height)
        piece(x0, x1, base, max(base, min(z0, height)))
        piece(x0, x1, max(base, z1), height)
        left = x1
    piece(left, length / 2, base, height)
    return model


def wainscot(
    length: float, height: float, paint: Material, openings: tuple[Opening, ...] = (), panel: float = 0.62
) -> Model:
    """Panelling for the lower part of a wall: skirting board, raised panels, chair rail. It leaves out what stands open to the floor."""
    model = wall(length, height, paint, tuple((a, b, c, d) for a, b, c, d in openings if c < height), 0.02)
    for part in model.parts:
        part.vertices = part.vertices - (0, 0.02, 0)
    for x0, x1 in between(length, [opening for opening in openings if opening[2] < height]):
        model.box((x1 - x0, 0.05, 0.035), paint, ((x0 + x1) / 2, -0.03, height - 0.03), bevel=0.01)
    for x0, x1 in between(length, [opening for opening in openings if opening[2] < 0.1]):
        middle, width = (x0 + x1) / 2, x1 - x0
        model.box((width, 0.04, 0.13), paint, (middle, -0.03, 0), bevel=0.008)
        count = max(1, round(width / panel))
        each = width / count
        for i in range(count):
            x = x0 + (i + 0.5) * each
            model.box((each - 0.14, 0.016, height - 0.34), paint, (x, -0.026, 0.2), bevel=0.008)
            model.box((each - 0.24, 0.014, height - 0.44), paint, (x, -0.036, 0.25), bevel=0.007)
    return model


def between(length: float, openings: Sequence[Opening]) -> list[tuple[float, float]]:
    """What openings leave of a wall along x, without slivers."""
    found, left = [], -length / 2
    for a, b, *_ in sorted(openings):
        found.append((left, a))
        left = b
    return [(a, b) for a, b in [*found, (left, length / 2)] if b - a > 0.1]


def window(width: float, height: float, paint: Material, panes: tuple[int, int] = (3, 3), sill: bool = True) -> Model:
    """A casement in the x-z plane with its lower edge at z = 0, to be set into an opening whose room side is y = 0."""
    model = Model()
    # The frame reaches from the casing to the outside, so that nothing shines in between.
    for side in (-1, 1):
        model.box((0.07, 0.14, height), paint, (side * (width - 0.07) / 2, 0.05, 0))
        model.box((0.09, 0.03, height + 0.16), paint, (side * (width + 0.07) / 2, -0.012, -0.02))
    for z in (0, height - 0.07):
        model.box((width - 0.13, 0.13, 0.07), paint, (0, 0.05, z))
    model.box((width + 0.22, 0.035, 0.1), paint, (0, -0.012, height - 0.02))
    columns, rows = panes
    for i in range(1, columns):
        model.box(
            (0.045 if columns % 2 == 0 and i == columns // 2 else 0.026, 0.045, height),
            paint,
            (-width / 2 + i * width / columns, 0.07, 0),
        )
    for i in range(1, rows):
        model.box((width, 0.04, 0.026), paint, (0, 0.07, i * height / rows))
    if sill:
        model.box((width + 0.24, 0.3, 0.035), paint, (0, -0.02, -0.035), bevel=0.008)
    else:
        model.box((width + 0.2, 0.07, 0.06), paint, (0, -0.025, -0.05), bevel=0.01)
    return model


def drape(width: float, height: float, cloth: Material, tied: float = 0.0, folds: int = 7) -> Model:
    """A hanging curtain in the x-z plane, its inner edge at x = width. `tied` draws it back to x = 0 at a third of its height."""
    across, down = np.meshgrid(np.linspace(0, 1, folds * 8 + 1), np.linspace(0, 1, 25))
    gather = 1 - tied * np.exp(-(((down - 0.36) / 0.22) ** 2))
    x = across * width * gather
    y = 0.032 * np.sin(across * folds * math.tau) * (0.6 + 0.4 * down) + 0.01 * np.sin(across * 9 + down * 5)
    vertices = np.stack([x, y, down * height], axis=-1).reshape(-1, 3)
    return Model().add((vertices, [shapes.lattice(25, folds * 8 + 1)]), cloth)


def profile(outline: Sequence[tuple[float, float]], length: float) -> shapes.Shape:
    """A moulding along x with this outline of (depth, height) pairs; it stands out towards -y."""
    depth, height = np.array(outline, dtype=float).T
    rows = [np.column_stack([np.full(len(depth), x), -depth, height]) for x in (-length / 2, length / 2)]
    return np.concatenate(rows), [shapes.lattice(2, len(depth))]


def cornice(length: float, paint: Material, height: float) -> Model:
    """Where wall and ceiling meet, for a wall along x with the room on the side of -y: a cove over a row of dentils."""
    angle = np.linspace(0, math.pi / 2, 9)
    cove = [(0.05 + 0.1 * (1 - math.cos(a)), -0.105 + 0.085 * math.sin(a)) for a in angle]
    outline = [
        (0, -0.2),
        (0.018, -0.2),
        (0.024, -0.185),
        (0.018, -0.17),
        (0.018, -0.115),
        (0.05, -0.115),
        (0.05, -0.105),
    ]
    outline += [*cove, (0.16, -0.02), (0.17, -0.012), (0.17, 0.0)]
    model = Model().add(profile(outline, length), paint, (0, 0, height))
    count = int(length / 0.075)
    for i in range(count):
        model.box(
            (0.042, 0.028, 0.04), paint, (-length / 2 + (i + 0.5) * length / count, -0.03, height - 0.16), bevel=0.004
        )
    return model


def strapwork(width: float, depth: float, paint: Material) -> Model:
    """A raised frame on a ceiling at z = 0, with quarter circles taken out of its corners."""
    notch = 0.28
    half_w, half_d = width / 2, depth / 2
    path = []
    for sx, sy, start in ((1, 1, 270), (-1, 1, 0), (-1, -1, 90), (1, -1, 180)):
        for step in range(9):
            a = math.radians(start - step * 11.25)
            path.append((sx * half_w + notch * math.cos(a), sy * half_d + notch * math.sin(a), -0.004))
    model = Model().add(shapes.tube(path, 0.02, 8, closed=True), paint)
    return model.add(shapes.tube([(x * 0.965, y * 0.955, z) for x, y, z in path], 0.009, 6, closed=True), paint)


def ceiling_rose(paint: Material) -> Model:
    """The plaster flower that a lamp hangs from, on a ceiling at z = 0."""
    outline = [
        (0.0, -0.05),
        (0.06, -0.045),
        (0.09, -0.03),
        (0.2, -0.02),
        (0.26, -0.035),
        (0.3, -0.035),
        (0.33, -0.012),
        (0.36, 0.0),
    ]
    model = Model().add(shapes.lathe(outline, 48), paint)
    for i in range(16):
        leaf = shapes.cushion((0.13, 0.045, 0.02), 0.01, 0.3, 5)
        a = i * math.tau / 16
        model.add(leaf, paint, (0.155 * math.cos(a), 0.155 * math.sin(a), -0.04), (0, 0, math.degrees(a)))
    return model


def door(paint: Material, knob: Material, width: float = 0.88, height: float = 2.05) -> Model:
    """A panelled door in its frame, seen from -y, with its back at y = 0.03."""
    model = Model().box((width, 0.04, height), paint, (0, 0.02, 0))
    for x in (-0.21, 0.21):
        for z, tall in ((0.2, 0.6), (0.95, 0.85)):
            model.box((0.3, 0.016, tall), paint, (x, -0.004, z), bevel=0.008)
            model.box((0.2, 0.014, tall - 0.1), paint, (x, -0.012, z + 0.05), bevel=0.007)
    for side in (-1, 1):
        model.box((0.1, 0.05, height + 0.1), paint, (side * (width + 0.1) / 2, 0, 0), bevel=0.01)
    model.box((width + 0.3, 0.06, 0.11), paint, (0, 0, height), bevel=0.012)
    model.add(shapes.sphere(0.028, 18, 11), knob, (0.36, -0.06, 0.95))
    model.add(shapes.cylinder(0.014, 0.05, 14), knob, (0.36, 0.0, 0.98), (90, 0, 0))
    return model


def railing(length: float, paint: Material, height: float = 0.86) -> Model:
    model = Model().box((length, 0.09, 0.045), paint, (0, 0, height - 0.045), bevel=0.012)
    for z in (0.09, height - 0.11):
        model.box((length, 0.045, 0.05), paint, (0, 0, z))
    count = int(length / 0.125)
    profile = [
        (0.017, 0),
        (0.017, 0.08),
        (0.013, 0.1),
        (0.022, 0.18),
        (0.024, 0.24),
        (0.013, 0.42),
        (0.017, 0.47),
        (0.017, height - 0.2),
    ]
    for i in range(count):
        model.add(shapes.lathe(profile, 10), paint, (-length / 2 + (i + 0.5) * length / count, 0, 0.12))
    return model


def post(paint: Material, height: float) -> Model:
    model = Model().box((0.15, 0.15, height), paint, bevel=0.012)
    for z, wide, tall in ((0, 0.21, 0.14), (height - 0.14, 0.22, 0.14), (height - 0.2, 0.18, 0.05), (0.92, 0.18, 0.04)):
        model.box((wide, wide, tall), paint, (0, 0, z), bevel=0.012)
    return model


def siding(
    length: float, height: float, paint: Material, openings: tuple[Opening, ...] = (), board: float = 0.15
) -> Model:
    """Weatherboards along x that face -y, each lapping over the one below."""
    model = Model()
    for row in range(int(height / board)):
        z = row * board
        left = -length / 2
        # A board beside no opening is whole.
        cut = sorted(opening for opening in openings if opening[2] < z + board + 0.02 and opening[3] > z)

        def piece(start: float, end: float, low: float, high: float, foot: float = z) -> None:
            if end - start > 0.01 and high - low > 0.004:
                at = ((start + end) / 2, (low - foot) * math.tan(math.radians(5)), low)
                model.add(shapes.box((end - start, 0.02, high - low), 0.003), paint, at, (-5, 0, 0), smooth=False)

        for a, b, c, d in [*cut, (length / 2, length / 2, 0, 0)]:
            piece(left, a, z, z + board + 0.02)
            # Under and over what stands open, a board is sawn to fit.
            piece(a, b, z, min(z + board + 0.02, c))
            piece(a, b, max(z, d), z + board + 0.02)
            left = b
    return model


def fireplace(width: float, height: float, bricks: Material, shelf: Material, paint: Material) -> Model:
    """A brick fireplace with a mantelpiece and a small fire. It stands before a wall at y = 0."""
    depth, opening, lintel = 0.36, 0.84, 0.72
    side = (width - 0.1 - opening) / 2
    model = Model()
    for sign in (-1, 1):
        model.box((side, depth, height - 0.06), bricks, (sign * (opening + side) / 2, -depth / 2, 0), bevel=0.004)
        model.box((0.16, 0.03, height - 0.2), paint, (sign * (opening / 2 + side - 0.1), -depth - 0.012, 0.04))
    model.box((opening, depth, height - 0.06 - lintel), bricks, (0, -depth / 2, lintel), bevel=0.004)
    # The chamber stands before whatever covers the wall.
    soot = materials.ground("#6f5c50", "#4a3c34", 18)
    model.box((opening + 0.02, 0.02, lintel + 0.02), soot, (0, -0.07, 0))
    model.box((width, depth + 0.08, 0.045), shelf, (0, -depth / 2 - 0.03, height - 0.045), bevel=0.012)
    model.box((width - 0.06, depth + 0.04, 0.05), shelf, (0, -depth / 2 - 0.01, height - 0.09), bevel=0.012)
    model.box((width, 0.75, 0.03), materials.stone("#cfc4b2", "#a3968a"), (0, -0.375, 0.0), bevel=0.008)
    bark, ember = materials.bark("#8a6a4c", "#5f4632"), materials.flame()
    for x, y, z, turn in ((-0.02, -0.16, 0.09, 8), (0.03, -0.24, 0.09, -12), (0.0, -0.2, 0.17, 25)):
        model.add(shapes.cylinder(0.05, 0.5, 14), bark, (x - 0.25, y, z), (0, 90, turn))
    for i in range(7):
        x, tall = (i - 3) * 0.055, 0.15 + 0.09 * math.cos(i * 2.1)
        flame = [(0.0, 0.0), (0.03, 0.04), (0.034, 0.09), (0.018, tall * 0.7), (0.0, tall)]
        model.add(shapes.lathe(flame, 10), ember, (x, -0.2 + 0.03 * (-1) ** i, 0.12))
    return model
