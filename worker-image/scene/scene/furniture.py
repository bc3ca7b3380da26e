"""Furniture. Every piece stands on z = 0 about the origin and faces -y."""

from __future__ import annotations

import math

import bpy
import numpy as np

from . import materials, shapes
from .items import Spot, row
from .model import Model
from .stage import Stage

Material = bpy.types.Material
RISE = 0.3
"""Height of a riser."""


def table(width: float, depth: float, height: float, wood: Material, shelf: bool = False) -> Model:
    model = Model().box((width, depth, 0.032), wood, (0, 0, height - 0.032), bevel=0.008)
    model.box((width - 0.1, depth - 0.1, 0.08), wood, (0, 0, height - 0.11))
    for x in (-1, 1):
        for y in (-1, 1):
            model.add(
                shapes.lathe(
                    [
                        (0, 0),
                        (0.016, 0),
                        (0.02, 0.06),
                        (0.027, height * 0.5),
                        (0.02, height * 0.62),
                        (0.03, height * 0.68),
                        (0.03, height - 0.04),
                    ],
                    14,
                ),
                wood,
                (x * (width / 2 - 0.06), y * (depth / 2 - 0.06), 0),
            )
    if shelf:
        model.box((width - 0.14, depth - 0.14, 0.02), wood, (0, 0, height * 0.3))
    return model


def round_table(radius: float, height: float, wood: Material, cloth: Material | None = None) -> Model:
    model = Model().add(shapes.cylinder(radius, 0.03, 48, 0.01), wood, (0, 0, height - 0.03))
    model.add(
        shapes.lathe(
            [
                (0, 0.0),
                (0.035, 0.05),
                (0.05, 0.12),
                (0.028, 0.2),
                (0.04, height * 0.55),
                (0.026, height * 0.6),
                (0.05, height - 0.05),
                (0.12, height - 0.03),
            ],
            20,
        ),
        wood,
    )
    for i in range(3):
        a = i * 2.094 + 0.5
        model.add(
            shapes.tube(
                [
                    (0.02 * math.cos(a), 0.02 * math.sin(a), 0.16),
                    (0.2 * math.cos(a), 0.2 * math.sin(a), 0.1),
                    (radius * 0.75 * math.cos(a), radius * 0.75 * math.sin(a), 0.018),
                ],
                [0.03, 0.025, 0.018],
                8,
            ),
            wood,
        )
    if cloth is not None:
        folds = 48
        rim = []
        for share in (0, 0.35, 0.7, 1):
            for i in range(folds):
                a = i / folds * 2 * math.pi
                r = radius + 0.008 + share * (0.035 + 0.022 * math.sin(a * 9) + 0.01 * math.sin(a * 14))
                rim.append((r * math.cos(a), r * math.sin(a), height + 0.004 - share * 0.2))
        vertices = np.array(rim)
        model.add((vertices, [shapes.lattice(4, folds, closed=True)[:, ::-1]]), cloth)
        model.add(shapes.cylinder(radius + 0.008, 0.004, folds, 0.001), cloth, (0, 0, height))
    return model


def garden_bench(wood: Material, width: float = 1.5) -> Model:
    model = Model()
    for i in range(6):
        model.box((width, 0.062, 0.024), wood, (0, -0.2 + i * 0.075, 0.43))
    for i in range(5):
        model.add(
            shapes.box((width, 0.022, 0.062), 0.005),
            wood,
            (0, 0.22 + i * 0.018, 0.52 + i * 0.085),
            (-12, 0, 0),
            smooth=False,
        )
    for x in (-width / 2 + 0.06, width / 2 - 0.06):
        model.beam((x, 0.2, 0), (x, 0.33, 0.95), 0.05, 0.05, wood)
        model.beam((x, -0.21, 0), (x, -0.21, 0.63), 0.05, 0.05, wood)
        model.beam((x, -0.25, 0.64), (x, 0.29, 0.64), 0.07, 0.03, wood)
        model.beam((x, -0.21, 0.4), (x, 0.26, 0.4), 0.04, 0.05, wood)
        model.beam((x, -0.21, 0.14), (x, 0.22, 0.14), 0.035, 0.035, wood)
    return model


def rocking_chair(wood: Material, seat: Material) -> Model:
    model = Model()
    for x in (-0.27, 0.27):
        arc = [(x, -0.48 + i * 0.11, 0.02 + ((i - 4.3) / 5) ** 2 * 0.1) for i in range(10)]
        model.add(shapes.tube(arc, 0.02, 8), wood)
        model.beam((x, -0.24, 0.04), (x, -0.26, 0.62), 0.04, 0.04, wood)
        model.beam((x, 0.22, 0.04), (x, 0.42, 1.12), 0.04, 0.035, wood)
        model.beam((x, -0.32, 0.63), (x, 0.33, 0.6), 0.065, 0.022, wood)
        model.beam((x, -0.25, 0.2), (x, 0.24, 0.2), 0.024, 0.024, wood)
    model.beam((-0.27, -0.25, 0.24), (0.27, -0.25, 0.24), 0.026, 0.026, wood)
    model.add(shapes.box((0.56, 0.52, 0.03), 0.01), wood, (0, 0, 0.38), (-3, 0, 0), smooth=False)
    for i in range(7):
        x = -0.21 + i * 0.07
        model.beam((x, 0.25, 0.4), (x, 0.405, 1.02), 0.036, 0.014, wood)
    model.add(shapes.box((0.6, 0.03, 0.13), 0.015), wood, (0, 0.41, 1.0), (-11, 0, 0), smooth=False)
    model.add(shapes.cushion((0.5, 0.48, 0.075), 0.035, 0.25), seat, (0, -0.01, 0.405))
    model.add(shapes.cushion((0.42, 0.1, 0.42), 0.05, 0.3), seat, (0, 0.21, 0.47), (-14, 0, 0))
    return model


def armchair(cloth: Material, wood: Material, pillow: Material | None = None) -> Model:
    model = Model()
    model.add(shapes.cushion((0.78, 0.8, 0.24), 0.06), cloth, (0, 0, 0.13))
    model.add(shapes.cushion((0.56, 0.64, 0.17), 0.07, 0.18), cloth, (0, -0.08, 0.34))
    model.add(shapes.cushion((0.74, 0.2, 0.74), 0.09, 0.1), cloth, (0, 0.32, 0.32), (-10, 0, 0))
    model.add(shapes.cushion((0.56, 0.16, 0.5), 0.075, 0.3), cloth, (0, 0.2, 0.48), (-12, 0, 0))
    for side in (-1, 1):
        model.add(shapes.cushion((0.15, 0.78, 0.46), 0.06), cloth, (side * 0.37, -0.02, 0.14))
        model.add(shapes.cushion((0.19, 0.8, 0.13), 0.065), cloth, (side * 0.37, -0.03, 0.53))
        for y in (-0.33, 0.33):
            model.add(shapes.lathe([(0, 0), (0.02, 0), (0.032, 0.09), (0.035, 0.14)], 12), wood, (side * 0.34, y, 0))
    if pillow is not None:
        model.add(shapes.cushion((0.4, 0.13, 0.38), 0.06, 0.6), pillow, (0.03, 0.06, 0.5), (-24, 0, 8))
    return model


def sofa(cloth: Material, wood: Material, pillows: list[Material], width: float = 1.9) -> Model:
    model = Model()
    model.add(shapes.cushion((width, 0.84, 0.24), 0.06), cloth, (0, 0, 0.13))
    seats = 3
    each = (width - 0.36) / seats
    for i in range(seats):
        x = (i - (seats - 1) / 2) * each
        model.add(shapes.cushion((each - 0.01, 0.66, 0.17), 0.065, 0.16), cloth, (x, -0.08, 0.34))
        model.add(shapes.cushion((each - 0.01, 0.17, 0.46), 0.075, 0.25), cloth, (x, 0.22, 0.47), (-12, 0, 0))
    model.add(shapes.cushion((width - 0.1, 0.2, 0.68), 0.09), cloth, (0, 0.34, 0.3), (-8, 0, 0))
    for side in (-1, 1):
        model.add(shapes.cushion((0.17, 0.84, 0.5), 0.07), cloth, (side * (width / 2 - 0.06), -0.01, 0.13))
        model.add(shapes.cushion((0.21, 0.86, 0.13), 0.065), cloth, (side * (width / 2 - 0.06), -0.02, 0.54))
        for y in (-0.34, 0.34):
            model.add(
                shapes.lathe([(0, 0), (0.02, 0), (0.032, 0.09), (0.035, 0.14)], 12),
                wood,
                (side * (width / 2 - 0.1), y, 0),
            )
    for i, pillow in enumerate(pillows):
        x = (i - (len(pillows) - 1) / 2) * (width - 0.75) / max(1, len(pillows) - 1)
        model.add(shapes.cushion((0.4, 0.13, 0.38), 0.06, 0.6), pillow, (x, 0.04, 0.5), (-24, 0, 12 - 20 * i))
    return model


def cabinet(
    width: float, depth: float, height: float, wood: Material, knob: Material, doors: int = 4, drawers: bool = True
) -> Model:
    """A sideboard: drawers above panelled doors, on turned feet."""
    model = Model().box((width, depth, height - 0.14), wood, (0, 0, 0.1))
    model.box((width + 0.05, depth + 0.04, 0.03), wood, (0, -0.01, height - 0.03), bevel=0.01)
    model.box((width + 0.02, depth + 0.02, 0.035), wood, (0, 0, 0.09))
    front = -depth / 2
    each = (width - 0.06) / doors
    split = height - 0.24 if drawers else height - 0.06
    for i in range(doors):
        x = (i - (doors - 1) / 2) * each
        model.box((each - 0.014, 0.018, split - 0.15), wood, (x, front - 0.009, 0.14))
        model.box((each - 0.1, 0.012, split - 0.25), wood, (x, front - 0.02, 0.19), bevel=0.005)
        model.add(
            shapes.sphere(0.013, 12, 7),
            knob,
            (x + (each / 2 - 0.035) * (1 if i % 2 == 0 else -1), front - 0.032, 0.14 + (split - 0.15) * 0.55),
        )
        if drawers:
            model.box((each - 0.014, 0.018, 0.16), wood, (x, front - 0.009, split + 0.005), bevel=0.006)
            model.add(shapes.sphere(0.013, 12, 7), knob, (x, front - 0.032, split + 0.07))
    for x in (-width / 2 + 0.06, width / 2 - 0.06):
        for y in (-depth / 2 + 0.06, depth / 2 - 0.06):
            model.add(shapes.lathe([(0, 0), (0.02, 0), (0.034, 0.05), (0.03, 0.1)], 12), wood, (x, y, 0))
    return model


def bookcase(width: float, depth: float, height: float, shelves: int, wood: Material) -> Model:
    model = Model()
    for side in (-1, 1):
        model.box((0.03, depth, height), wood, (side * (width - 0.03) / 2, 0, 0))
    model.box((width, 0.012, height), wood, (0, depth / 2 - 0.006, 0))
    model.box((width + 0.06, depth + 0.04, 0.04), wood, (0, -0.01, height - 0.02), bevel=0.012)
    model.box((width + 0.01, depth + 0.005, 0.08), wood, (0, 0, 0))
    for i in range(shelves):
        model.box((width - 0.04, depth - 0.02, 0.024), wood, (0, 0, 0.08 + i * (height - 0.1) / shelves))
    return model


def floor_lamp(metal: Material, shade: Material, height: float = 1.55) -> Model:
    model = Model().add(
        shapes.lathe([(0, 0), (0.15, 0), (0.15, 0.012), (0.05, 0.035), (0.014, 0.06), (0.012, height - 0.32)], 24),
        metal,
    )
    model.add(shapes.lathe([(0.21, height - 0.32), (0.2, height - 0.25), (0.13, height)], 32), shade)
    return model


def chandelier(metal: Material, glass: Material, arms: int = 5) -> Model:
    """A hanging lamp with shades that open upwards, for a ceiling at z = 0."""
    model = Model().add(shapes.cylinder(0.006, 0.36, 8), metal, (0, 0, -0.4))
    model.add(
        shapes.lathe([(0.0, -0.6), (0.02, -0.585), (0.035, -0.54), (0.02, -0.5), (0.032, -0.45), (0.012, -0.4)], 20),
        metal,
    )
    for arm in range(arms):
        a = arm * math.tau / arms + 0.3
        out = [
            (r * math.cos(a), r * math.sin(a), z) for r, z in ((0.02, -0.53), (0.1, -0.57), (0.18, -0.56), (0.23, -0.5))
        ]
        model.add(shapes.tube(out, 0.007, 8), metal)
        at = (0.23 * math.cos(a), 0.23 * math.sin(a), -0.5)
        model.add(shapes.cylinder(0.028, 0.015, 16), metal, at)
        model.add(
            shapes.lathe([(0.03, 0.012), (0.055, 0.03), (0.066, 0.07), (0.06, 0.1), (0.07, 0.115)], 24), glass, at
        )
    return model


def mirror(frame: Material, width: float = 0.62, height: float = 0.82) -> Model:
    """An oval mirror about z = 0, in a frame, with its back at y = 0."""
    angle = np.linspace(0, math.tau, 48, endpoint=False)
    oval = [(width / 2 * math.cos(a), -0.02, height / 2 * math.sin(a)) for a in angle]
    model = Model().add(shapes.tube(oval, 0.024, 10, closed=True), frame)
    middle = np.vstack([np.array(oval) * (1, 0.6, 1), [(0, -0.012, 0)]])
    index = np.arange(48)
    fan = np.column_stack([np.roll(index, -1), index, np.full(48, 48)])
    return model.add((middle, [fan]), materials.paint("#f2f4f5", 0.02, 1.0), smooth=False)


def plant_pot(radius: float, height: float, clay: Material, earth: Material) -> Model:
    model = Model().add(
        shapes.lathe(
            [
                (0, 0),
                (radius * 0.68, 0),
                (radius * 0.92, height * 0.82),
                (radius, height * 0.82),
                (radius * 1.02, height),
                (radius * 0.9, height),
                (radius * 0.88, height * 0.88),
            ],
            28,
        ),
        clay,
    )
    model.add(shapes.cylinder(radius * 0.9, 0.02, 24), earth, (0, 0, height * 0.86))
    return model


def riser(width: float, wood: Material) -> Model:
    """A low shelf along the back of a table, for a second row of things above the first."""
    model = Model().box((width, 0.2, 0.02), wood, (0, 0, RISE - 0.02), bevel=0.004)
    for side in (-1, 1):
        model.box((0.03, 0.18, RISE - 0.02), wood, (side * (width / 2 - 0.03), 0, 0), bevel=0.003)
    return model


def raised_row(
    stage: Stage, wood: Material, table: tuple[float, float, float], turn: float, width: float, back: float
) -> list[Spot]:
    """Puts a riser on the back of a table whose top is at `table`, and hands out three spots on it."""
    a = math.radians(turn)
    x, y, z = table[0] - back * math.sin(a), table[1] + back * math.cos(a), table[2]
    stage.add("riser", riser(width, wood), (x, y, z), (0, 0, turn))
    return row("surface", (x, y, z + RISE), turn, (0, -width / 3, width / 3), (0.35, 0.34), inwards=10)


def wall_shelf(width: float, wood: Material) -> Model:
    """A board on two brackets, with its top at z = 0 and its back at y = 0."""
    model = Model().box((width, 0.24, 0.026), wood, (0, -0.12, -0.026), bevel=0.005)
    for side in (-1, 1):
        model.beam((side * width * 0.36, -0.01, -0.2), (side * width * 0.36, -0.2, -0.03), 0.022, 0.022, wood)
        model.box((0.03, 0.015, 0.2), wood, (side * width * 0.36, -0.008, -0.21), bevel=0.003)
    return model
