"""China, flowers and what else stands on a laid table. Each faces -y and stands on z = 0."""

from __future__ import annotations

import math

from .. import flowers as plants
from .. import materials, shapes
from ..model import Model
from . import Kit, belonging

CHINA = (("#f3ede0", "#4f74a8"), ("#e9efe6", "#6f9a78"), ("#f7e9e4", "#c46a72"), ("#f4e6c4", "#c58a3a"))


@belonging("tea", "tea pot", "tea set", "kettle", "coffee pot", "coffee")
def teapot(kit: Kit) -> Model:
    body, accent = kit.random.choice(CHINA)
    china, trim = materials.paint(body, 0.18), materials.paint(accent, 0.2)
    model = Model()
    x = -0.05
    model.add(
        shapes.lathe(
            [
                (0, 0),
                (0.05, 0),
                (0.052, 0.01),
                (0.083, 0.045),
                (0.092, 0.08),
                (0.08, 0.12),
                (0.05, 0.142),
                (0.048, 0.147),
            ],
            36,
        ),
        china,
        (x, 0, 0),
    )
    model.add(
        shapes.lathe(
            [(0.054, 0.144), (0.05, 0.154), (0.02, 0.168), (0.008, 0.172), (0.014, 0.182), (0.008, 0.194), (0, 0.196)],
            28,
        ),
        trim,
        (x, 0, 0),
    )
    model.add(shapes.lathe([(0.0915, 0.066), (0.0935, 0.08), (0.091, 0.094)], 36), trim, (x, 0, 0))
    model.add(
        shapes.tube(
            [(x + 0.07, 0, 0.05), (x + 0.115, 0, 0.07), (x + 0.13, 0, 0.115), (x + 0.158, 0, 0.14)],
            [0.024, 0.018, 0.013, 0.011],
            14,
        ),
        china,
    )
    handle = [
        (x - 0.075, 0, 0.115),
        (x - 0.12, 0, 0.13),
        (x - 0.142, 0, 0.1),
        (x - 0.125, 0, 0.06),
        (x - 0.082, 0, 0.045),
    ]
    model.add(shapes.tube(handle, 0.009, 10), china)
    model.merge(cup_and_saucer(body, accent), (0.16, -0.05, 0))
    return model


def cup_and_saucer(body: str, accent: str) -> Model:
    china, trim = materials.paint(body, 0.18), materials.paint(accent, 0.2)
    model = Model().add(
        shapes.lathe([(0, 0), (0.035, 0), (0.04, 0.006), (0.07, 0.016), (0.072, 0.019), (0.04, 0.011), (0, 0.009)], 32),
        china,
    )
    model.add(shapes.lathe([(0.0705, 0.0165), (0.073, 0.0185), (0.0705, 0.02)], 32), trim)
    model.add(
        shapes.lathe(
            [
                (0, 0.01),
                (0.02, 0.01),
                (0.024, 0.018),
                (0.038, 0.045),
                (0.042, 0.068),
                (0.039, 0.068),
                (0.034, 0.045),
                (0.02, 0.022),
                (0, 0.02),
            ],
            32,
        ),
        china,
    )
    model.add(shapes.lathe([(0.0415, 0.062), (0.043, 0.067), (0.0395, 0.0685)], 32), trim)
    model.add(shapes.cylinder(0.036, 0.002, 28, 0.0005), materials.paint("#8a4b20", 0.1), (0, 0, 0.056))
    model.add(
        shapes.tube(
            [(0.038, 0, 0.056), (0.06, 0, 0.056), (0.064, 0, 0.04), (0.05, 0, 0.026), (0.03, 0, 0.026)], 0.005, 8
        ),
        china,
    )
    return model


@belonging("mug", "tea cup", "teacup", "glass")
def cup(kit: Kit) -> Model:
    body, accent = kit.random.choice(CHINA)
    model = cup_and_saucer(body, accent)
    biscuit = materials.ground("#d8a763", "#b98545", 60, 0.3)
    model.add(
        shapes.lathe([(0, 0), (0.075, 0.004), (0.078, 0.01), (0.04, 0.007), (0, 0.006)], 32),
        materials.paint(body, 0.18),
        (0.17, 0.02, 0),
    )
    for i in range(3):
        model.add(
            shapes.cylinder(0.026, 0.009, 20, 0.003),
            biscuit,
            (0.15 + 0.025 * i, 0.01 + 0.02 * (i % 2), 0.008 + i * 0.006),
            (8 * i, 5, 0),
        )
    return model


@belonging("flower", "bouquet", "rose", "tulip", "lily", "vase")
def flowers(kit: Kit) -> Model:
    body, accent = kit.random.choice(CHINA)
    model = Model().add(
        shapes.lathe(
            [
                (0, 0),
                (0.04, 0),
                (0.058, 0.03),
                (0.065, 0.07),
                (0.045, 0.12),
                (0.03, 0.145),
                (0.038, 0.16),
                (0.034, 0.16),
                (0.026, 0.145),
            ],
            36,
        ),
        materials.paint(body, 0.15),
    )
    model.add(shapes.lathe([(0.0645, 0.06), (0.0665, 0.07), (0.0635, 0.08)], 36), materials.paint(accent, 0.2))
    model.merge(plants.bouquet(kit.numbers, kit.palette), (0, 0, 0.13))
    return model


@belonging("lantern", "desk lamp", "table lamp", "light")
def lamp(kit: Kit) -> Model:
    body, accent = kit.random.choice(CHINA)
    model = Model().add(
        shapes.lathe(
            [
                (0, 0),
                (0.06, 0),
                (0.06, 0.015),
                (0.03, 0.025),
                (0.055, 0.07),
                (0.06, 0.11),
                (0.03, 0.17),
                (0.012, 0.19),
                (0.01, 0.24),
            ],
            32,
        ),
        materials.paint(body, 0.18),
    )
    model.add(shapes.lathe([(0.0595, 0.1), (0.061, 0.108), (0.058, 0.118)], 32), materials.paint(accent, 0.2))
    model.add(
        shapes.lathe([(0.135, 0.21), (0.085, 0.37), (0.083, 0.37), (0.133, 0.21)], 36), materials.lampshade("#f0dcb8")
    )
    return model


@belonging("fruit", "apple", "orange", "cake", "basket")
def fruit_bowl(kit: Kit) -> Model:
    model = Model().add(
        shapes.lathe(
            [(0, 0), (0.06, 0), (0.06, 0.012), (0.1, 0.035), (0.14, 0.085), (0.135, 0.085), (0.09, 0.04), (0, 0.025)],
            36,
        ),
        materials.wood("#b58a5c", "#8d6238"),
    )
    colours = ("#c8412f", "#e2a63a", "#9db54a", "#d97a2f", "#b5322c")
    for i in range(9):
        a, ring = i * 2.4, 0.085 if i < 6 else 0.035
        model.add(
            shapes.lathe(
                [
                    (0.003, 0.004),
                    (0.022, 0),
                    (0.036, 0.018),
                    (0.039, 0.038),
                    (0.03, 0.06),
                    (0.012, 0.068),
                    (0.002, 0.062),
                ],
                18,
            ),
            materials.paint(colours[i % 5], 0.3),
            (ring * math.cos(a), ring * math.sin(a), 0.045 if i < 6 else 0.09),
            (kit.random.uniform(-25, 25), kit.random.uniform(-25, 25), 0),
        )
    return model
