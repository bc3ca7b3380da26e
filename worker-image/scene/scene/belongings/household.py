"""Belongings from the house: on tables, shelves and walls. Each faces -y and stands on z = 0."""

from __future__ import annotations

import math

import numpy as np

from .. import materials, shapes
from ..model import Model
from . import Kit, belonging


def brass():
    return materials.paint("#c9a14e", 0.28, 0.9)


@belonging("wireless", "transistor", "gramophone", "music box")
def radio(kit: Kit) -> Model:
    walnut = materials.wood("#9c6234", "#64391c", roughness=0.3)
    model = Model().add(shapes.cushion((0.36, 0.17, 0.22), 0.035), walnut, (0, 0, 0.012))
    model.box((0.33, 0.15, 0.014), materials.paint("#4b2e1b", 0.5))
    model.box((0.19, 0.006, 0.15), materials.fabric("#d9c193", "#b99a62", 2.0), (-0.06, -0.085, 0.045), bevel=0.002)
    for i in range(7):
        model.box((0.004, 0.009, 0.15), brass(), (-0.13 + i * 0.0235, -0.086, 0.045), bevel=0.001)
    model.box((0.085, 0.006, 0.06), materials.paint("#f1e3bd", 0.4), (0.105, -0.085, 0.13), bevel=0.002)
    model.box((0.002, 0.008, 0.05), materials.paint("#b7342a", 0.4), (0.115, -0.086, 0.135), bevel=0.0005)
    for x in (0.08, 0.132):
        model.add(shapes.cylinder(0.019, 0.022, 20), materials.paint("#efe2c6", 0.35), (x, -0.083, 0.075), (90, 0, 0))
        model.add(shapes.cylinder(0.008, 0.026, 14), brass(), (x, -0.083, 0.075), (90, 0, 0))
    return model


@belonging("mantel clock", "alarm clock", "watch")
def clock(kit: Kit) -> Model:
    """A mantel clock with an arched case."""
    case = materials.wood("#8a5230", "#54301a", roughness=0.28)
    arch = [(0.115 * math.cos(a), 0.13 + 0.115 * math.sin(a)) for a in np.linspace(0, math.pi, 18)]
    outline = [(-0.13, 0.0), (0.13, 0.0), (0.12, 0.03), *arch, (-0.12, 0.03)]
    model = Model().add(shapes.prism(outline, 0.11, 0.008), case, (0, 0.055, 0), (90, 0, 0), smooth=False)
    model.box((0.32, 0.15, 0.022), case)
    model.add(shapes.cylinder(0.088, 0.014, 36), brass(), (0, -0.053, 0.135), (90, 0, 0))
    dial(model, 0.078, (0, -0.068, 0.135))
    for x in (-0.11, 0.11):
        model.add(shapes.sphere(0.014, 12, 7), brass(), (x, -0.045, 0.022))
    return model


def dial(model: Model, radius: float, at: tuple[float, float, float]) -> None:
    face, ink = materials.paint("#fbf6e6", 0.5), materials.paint("#2b211a", 0.5)
    model.add(shapes.cylinder(radius, 0.004, 36, 0.001), face, at, (90, 0, 0))
    for hour in range(12):
        a = hour * math.pi / 6
        length = radius * (0.2 if hour % 3 == 0 else 0.11)
        mark = shapes.box((radius * 0.05, 0.002, length), 0.0004)
        model.add(
            mark,
            ink,
            (
                at[0] + math.sin(a) * (radius * 0.9 - length),
                at[1] - 0.0045,
                at[2] + math.cos(a) * (radius * 0.9 - length),
            ),
            (0, math.degrees(a), 0),
            smooth=False,
        )
    for angle, length, width in ((-55, 0.5, 0.07), (60, 0.75, 0.045)):
        model.add(
            shapes.box((radius * width, 0.002, radius * length), 0.0004),
            ink,
            (at[0], at[1] - 0.0055, at[2]),
            (0, angle, 0),
            smooth=False,
        )
    model.add(shapes.sphere(radius * 0.05, 10, 7), brass(), (at[0], at[1] - 0.006, at[2] - radius * 0.05))


@belonging("wall clock", "pendulum clock", "cuckoo clock", stands="hook")
def wall_clock(kit: Kit) -> Model:
    case = materials.wood("#8a5230", "#54301a", roughness=0.28)
    model = Model().box((0.24, 0.1, 0.62), case, (0, -0.05, -0.31))
    model.add(
        shapes.prism([(-0.15, 0), (0.15, 0), (0.1, 0.06), (0, 0.1), (-0.1, 0.06)], 0.12),
        case,
        (0, 0, 0.31),
        (90, 0, 0),
        smooth=False,
    )
    model.box((0.28, 0.12, 0.03), case, (0, -0.06, -0.33))
    model.box((0.16, 0.004, 0.26), materials.paint("#d9cdb4", 0.5), (0, -0.101, -0.27), bevel=0.001)
    model.add(shapes.cylinder(0.1, 0.014, 36), brass(), (0, -0.1, 0.16), (90, 0, 0))
    dial(model, 0.088, (0, -0.114, 0.16))
    model.box((0.006, 0.004, 0.2), brass(), (0, -0.106, -0.2), bevel=0.001)
    model.add(shapes.cylinder(0.035, 0.008, 24), brass(), (0, -0.102, -0.2), (90, 0, 0))
    return model


def book(kit: Kit, width: float, depth: float, thick: float, colour: str) -> Model:
    """A book that lies flat with its spine to the front."""
    cover, pages = materials.paint(colour, 0.65), materials.paint("#f1e8d2", 0.95)
    model = (
        Model()
        .box((width, depth, 0.004), cover, bevel=0.001)
        .box((width, depth, 0.004), cover, (0, 0, thick - 0.004), bevel=0.001)
    )
    model.box((width - 0.01, depth - 0.012, thick - 0.008), pages, (0, 0.002, 0.004), bevel=0.001)
    model.add(shapes.cushion((width, 0.012, thick), 0.005), cover, (0, -depth / 2 + 0.003, 0))
    for x in (-0.38, -0.3, 0.3, 0.38):
        model.box((0.005, 0.0015, thick * 0.92), brass(), (x * width, -depth / 2 - 0.0032, thick * 0.04), bevel=0.0003)
    return model


COVERS = (
    "#7c2f2a",
    "#2f4a63",
    "#4c6145",
    "#a0743a",
    "#5b3a56",
    "#b9a37a",
    "#8c4a2f",
    "#36605e",
    "#c4883f",
    "#5a2e24",
    "#6f7f4d",
    "#d8c7a0",
)


@belonging(
    "book", "novel", "bible", "diary", "album", "photo album", "magazine", "newspaper", "letter", "cookbook", "poem"
)
def books(kit: Kit) -> Model:
    model = Model()
    height = 0.0
    for i, colour in enumerate(kit.random.sample(COVERS, 4)):
        thick = kit.random.uniform(0.026, 0.045)
        model.merge(
            book(kit, 0.25 - i * 0.012, 0.17 - i * 0.008, thick, colour),
            (0, 0, height),
            (0, 0, kit.random.uniform(-12, 12)),
        )
        height += thick
    gold = brass()
    for x in (-0.045, 0.045):
        circle = [
            (x + 0.034 * math.cos(a), -0.02 + 0.03 * math.sin(a), height + 0.006)
            for a in np.linspace(0, 6.283, 20, endpoint=False)
        ]
        model.add(shapes.tube(circle, 0.0022, 6, closed=True), gold)
        model.add(
            shapes.tube(
                [(x * 1.75, -0.02, height + 0.007), (x * 1.75, 0.03, height + 0.01), (x * 1.6, 0.075, height + 0.003)],
                0.0018,
                5,
            ),
            gold,
        )
    model.add(
        shapes.tube(
            [(-0.011, -0.02, height + 0.007), (0, -0.026, height + 0.01), (0.011, -0.02, height + 0.007)], 0.002, 5
        ),
        gold,
    )
    return model


@belonging("photography", "box camera", "film camera")
def camera(kit: Kit) -> Model:
    black, metal = materials.fabric("#2d2a29", scale=3), materials.paint("#b9b7b1", 0.3, 0.9)
    model = Model().add(shapes.cushion((0.17, 0.05, 0.075), 0.012), black, (0, 0, 0.012))
    model.box((0.165, 0.048, 0.022), metal, (0, 0, 0.082), bevel=0.008).box((0.17, 0.05, 0.014), metal, bevel=0.005)
    model.box((0.055, 0.045, 0.025), metal, (0, 0, 0.1), bevel=0.008)
    for radius, depth, material in ((0.034, 0.025, metal), (0.03, 0.045, black), (0.031, 0.05, metal)):
        model.add(shapes.cylinder(radius, depth, 28), material, (0, -0.02, 0.052), (90, 0, 0))
    model.add(
        shapes.cylinder(0.023, 0.004, 28, 0.001), materials.paint("#31445c", 0.05), (0, -0.068, 0.052), (90, 0, 0)
    )
    for x in (-0.06, 0.055):
        model.add(shapes.cylinder(0.014, 0.014, 18), metal, (x, 0, 0.104))
    strap = [
        (-0.085, 0, 0.08),
        (-0.14, -0.03, 0.03),
        (-0.13, -0.09, 0.005),
        (-0.03, -0.12, 0.004),
        (0.08, -0.11, 0.004),
        (0.14, -0.06, 0.02),
        (0.085, 0, 0.08),
    ]
    model.add(shapes.tube(strap, 0.005, 6), materials.paint("#7a4a28", 0.6))
    return model


@belonging("phone", "dial phone")
def telephone(kit: Kit) -> Model:
    colour = materials.paint(kit.random.choice(("#8f2f2a", "#3b5c52", "#e6d8b8", "#2c2a29")), 0.22)
    model = Model().add(
        shapes.prism([(-0.11, -0.1), (0.11, -0.1), (0.095, 0.08), (-0.095, 0.08)], 0.03, 0.01), colour, smooth=False
    )
    model.add(shapes.cushion((0.17, 0.13, 0.085), 0.04), colour, (0, 0.01, 0.01), (12, 0, 0))
    model.add(shapes.cylinder(0.055, 0.012, 32), materials.paint("#efe7d4", 0.35), (0, -0.055, 0.075), (42, 0, 0))
    for i in range(10):
        a = i * 0.53 + 0.4
        model.add(
            shapes.cylinder(0.008, 0.003, 12, 0.0005),
            materials.paint("#3a332d", 0.4),
            (0.038 * math.cos(a), -0.063 + 0.038 * math.sin(a) * 0.74, 0.084 + 0.038 * math.sin(a) * 0.67),
            (42, 0, 0),
        )
    model.add(
        shapes.tube(
            [(-0.115, 0.03, 0.112), (-0.07, 0.03, 0.132), (0.07, 0.03, 0.132), (0.115, 0.03, 0.112)],
            [0.026, 0.015, 0.015, 0.026],
            14,
        ),
        colour,
    )
    for x in (-0.115, 0.115):
        model.add(shapes.cylinder(0.03, 0.025, 20), colour, (x, 0.03, 0.09))
    return model


@belonging("sewing", "singer")
def sewing_machine(kit: Kit) -> Model:
    iron, gold = materials.paint("#26282b", 0.2), brass()
    model = Model().box((0.4, 0.18, 0.045), materials.wood("#9c6234", "#64391c"), bevel=0.01)
    model.add(shapes.cushion((0.34, 0.13, 0.02), 0.009), iron, (0, 0, 0.045))
    model.add(shapes.tube([(0.12, 0, 0.05), (0.115, 0, 0.16), (0.09, 0, 0.2)], [0.042, 0.032, 0.034], 18), iron)
    model.add(shapes.tube([(0.13, 0, 0.2), (0.0, 0, 0.205), (-0.13, 0, 0.2)], [0.037, 0.028, 0.034], 18), iron)
    model.add(shapes.cushion((0.055, 0.06, 0.13), 0.02), iron, (-0.13, 0, 0.115))
    model.add(shapes.cylinder(0.007, 0.06, 10), materials.paint("#c8c8c4", 0.2, 0.9), (-0.13, 0, 0.065))
    model.add(shapes.cylinder(0.062, 0.018, 32), iron, (0.165, 0, 0.2), (0, 90, 0))
    model.add(shapes.cylinder(0.05, 0.02, 32), gold, (0.166, 0, 0.2), (0, 90, 0))
    for x in (-0.06, 0.0, 0.06):
        model.add(shapes.cylinder(0.014, 0.002, 16, 0.0005), gold, (x, -0.03, 0.205), (90, 0, 0))
    model.add(shapes.cylinder(0.013, 0.04, 16), materials.paint(kit.palette["petals"][0], 0.8), (0.06, 0, 0.232))
    cloth = shapes.sheet(0.2, 0.22, 10, 10, lambda x, y: 0.07 + 0.006 * np.sin(x * 40) - np.clip(-y - 0.06, 0, 1) * 0.5)
    model.add(cloth, materials.fabric(kit.palette["bush"][0], kit.palette["bush"][1], 2), (-0.13, -0.06, 0))
    return model
