"""Belongings of cloth and wool: clothes, wool, cushions, blankets and soft toys."""

from __future__ import annotations

import math

import numpy as np

from .. import materials, shapes
from ..model import Model
from . import Kit, belonging


@belonging("cap", "sun hat", "straw hat", "bonnet")
def hat(kit: Kit) -> Model:
    straw = materials.fabric("#e2c68a", "#cfae6c", 0.7)
    crown = [
        (0.0, 0.125),
        (0.05, 0.123),
        (0.085, 0.11),
        (0.098, 0.07),
        (0.103, 0.02),
        (0.125, 0.012),
        (0.185, 0.018),
        (0.2, 0.012),
        (0.187, 0.008),
        (0.12, 0.002),
        (0.1, 0.0),
    ]
    model = Model().add(shapes.lathe(crown[::-1], 44), straw)
    ribbon = materials.fabric(kit.palette["petals"][0], scale=2)
    model.add(shapes.lathe([(0.1065, 0.018), (0.1045, 0.05), (0.1, 0.05)], 44), ribbon)
    for side in (-1, 1):
        model.add(
            shapes.cushion((0.055, 0.014, 0.04), 0.007, 0.4), ribbon, (side * 0.032, -0.112, 0.018), (0, side * 20, 0)
        )
    model.add(shapes.sphere(0.011, 12, 7), ribbon, (0, -0.116, 0.024))
    return model


def ball_of_wool(kit: Kit, radius: float, colour: str) -> Model:
    """A core with strands wound about it in many planes."""
    wool = materials.fabric(colour, scale=1.5)
    model = Model().add(shapes.sphere(radius * 0.93, 20, 12), wool, (0, 0, radius * 0.07))
    angle = np.linspace(0, 2 * np.pi, 26, endpoint=False)
    for _ in range(34):
        tilt, turn = kit.random.uniform(0, math.pi), kit.random.uniform(0, math.tau)
        ring = np.column_stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)]) * radius * 0.96
        by = shapes.matrix((0, 0, radius), (math.degrees(tilt), 0, math.degrees(turn)))
        model.add(shapes.tube(shapes.transform(ring, by), radius * 0.06, 5, closed=True), wool)
    return model


@belonging("wool", "yarn", "crochet", "needle", "embroidery", "scarf", "sweater", "sock", "mitten")
def knitting(kit: Kit) -> Model:
    first, second = kit.palette["petals"][1], kit.palette["spikes"][1]
    model = (
        Model()
        .merge(ball_of_wool(kit, 0.055, first), (-0.09, 0.03, 0))
        .merge(ball_of_wool(kit, 0.045, second), (-0.02, 0.085, 0))
    )
    wool = materials.stripes((first, first, "#f4ead8", second), 0.09, 1)
    piece = shapes.sheet(
        0.17, 0.16, 22, 22, lambda x, y: 0.012 + 0.007 * np.sin(x * 34 + y * 12) + 0.004 * np.cos(y * 50)
    )
    model.add(piece, wool, (0.09, -0.03, 0.006))
    wood = materials.wood("#c89b62", "#a67a45")
    model.add(shapes.tube([(-0.02, 0.055, 0.024), (0.2, 0.045, 0.03)], 0.0045, 8), wood)
    model.add(shapes.tube([(0.01, 0.03, 0.03), (0.17, 0.1, 0.07)], 0.0045, 8), wood)
    for end in ((0.2, 0.045, 0.022), (0.17, 0.1, 0.062)):
        model.add(shapes.sphere(0.009, 10, 7), materials.paint("#b7342a", 0.3), end)
    model.add(
        shapes.tube([(-0.05, 0.0, 0.02), (-0.02, -0.06, 0.004), (0.03, -0.07, 0.004), (0.04, -0.03, 0.012)], 0.0028, 5),
        materials.fabric(first, scale=1.5),
    )
    return model


@belonging("pillow")
def cushion(kit: Kit) -> Model:
    cloth = materials.fabric(kit.palette["spikes"][0], kit.palette["spikes"][2], 1.5)
    return Model().add(shapes.cushion((0.36, 0.13, 0.34), 0.06, 0.6, 11), cloth, (0, 0, 0), (-16, 0, 0))


@belonging("quilt", "throw", "shawl", "towel", "tablecloth", "handkerchief")
def blanket(kit: Kit) -> Model:
    """A folded blanket with a fringe."""
    cloth = materials.stripes(
        (kit.palette["petals"][0], "#f3e7d0", kit.palette["spikes"][0], "#f3e7d0", kit.palette["second"][0], "#f3e7d0"),
        0.16,
        0,
    )
    model = Model()
    for i in range(4):
        model.add(
            shapes.cushion((0.36 - 0.004 * i, 0.26, 0.036), 0.017, 0.08, 9), cloth, (0.003 * (-1) ** i, 0, i * 0.031)
        )
    fringe = materials.fabric("#f3e7d0", scale=2)
    for i in range(30):
        x = -0.165 + i * 0.0114
        model.add(shapes.tube([(x, -0.125, 0.105), (x + 0.002, -0.14, 0.09), (x, -0.143, 0.06)], 0.0022, 4), fringe)
    return model


@belonging("dog", "dog basket", "puppy", "cat", "cat basket", "cat bed", "pet", stands="floor")
def dog_bed(kit: Kit) -> Model:
    """A round bed with a bone and a ball, without the animal."""
    rim, middle = (
        materials.fabric(kit.random.choice(("#b0916d", "#8298ab", "#a3a17f")), scale=1.2),
        materials.fabric("#f0e2c8", "#dccaa8"),
    )
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = np.column_stack([0.34 * np.cos(angle), 0.27 * np.sin(angle), 0.1 + 0.025 * np.sin(angle)])
    model = Model().add(shapes.tube(ring, 0.095, 16, closed=True), rim)
    model.add(shapes.sphere(1, 32, 13), middle, (0, 0, 0.01), scale=(0.31, 0.24, 0.06))
    bone = materials.paint("#f4ead3", 0.7)
    model.add(shapes.tube([(-0.07, -0.02, 0.145), (0.05, -0.06, 0.145)], 0.014, 10), bone)
    for x, y in ((-0.075, -0.005), (-0.08, -0.034), (0.052, -0.045), (0.062, -0.074)):
        model.add(shapes.sphere(0.02, 12, 8), bone, (x, y, 0.125))
    model.add(shapes.sphere(0.036, 18, 11), materials.paint("#d5483a", 0.5), (0.14, 0.05, 0.12))
    return model


@belonging("teddy", "bear", "doll", "toy", "soft toy")
def teddy_bear(kit: Kit) -> Model:
    fur, pale, dark = (
        materials.fabric("#b98550", "#a26f3e", 1.5),
        materials.fabric("#e6cda4", scale=1.5),
        materials.paint("#2a1d15", 0.3),
    )
    model = Model().add(shapes.sphere(1, 22, 13), fur, (0, 0, 0.0), scale=(0.085, 0.075, 0.09))
    model.add(shapes.sphere(1, 22, 13), fur, (0, -0.005, 0.15), scale=(0.072, 0.066, 0.064))
    model.add(shapes.sphere(1, 18, 11), pale, (0, -0.062, 0.17), scale=(0.032, 0.026, 0.024))
    model.add(shapes.sphere(1, 12, 9), dark, (0, -0.086, 0.19), scale=(0.011, 0.008, 0.008))
    for side in (-1, 1):
        model.add(shapes.sphere(0.026, 14, 9), fur, (side * 0.056, 0, 0.245))
        model.add(shapes.sphere(0.009, 10, 7), dark, (side * 0.028, -0.062, 0.213))
        model.add(
            shapes.tube(
                [(side * 0.06, -0.01, 0.14), (side * 0.105, -0.045, 0.1), (side * 0.1, -0.08, 0.07)],
                [0.032, 0.03, 0.028],
                12,
            ),
            fur,
        )
        model.add(shapes.sphere(0.03, 14, 9), fur, (side * 0.1, -0.085, 0.04))
        model.add(shapes.tube([(side * 0.05, -0.03, 0.04), (side * 0.08, -0.11, 0.035)], [0.042, 0.036], 12), fur)
        model.add(shapes.sphere(1, 16, 11), fur, (side * 0.084, -0.13, 0.0), scale=(0.036, 0.026, 0.042))
        model.add(shapes.sphere(1, 14, 9), pale, (side * 0.085, -0.15, 0.014), scale=(0.024, 0.01, 0.028))
    model.add(
        shapes.cushion((0.06, 0.015, 0.03), 0.007, 0.3),
        materials.fabric(kit.palette["petals"][0], scale=2),
        (0, -0.068, 0.135),
    )
    return model
