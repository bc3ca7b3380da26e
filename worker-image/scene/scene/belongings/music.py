"""Large belongings: instruments, and what stands on the floor."""

from __future__ import annotations

import math

import numpy as np

from .. import materials, shapes
from ..model import Model
from . import Kit, belonging


def waisted(upper: float, lower: float, waist: float, length: float, steps: int = 56) -> list[tuple[float, float]]:
    """The outline of a guitar's or violin's body, with its lower bout at the bottom."""
    outline = []
    for i in range(steps):
        a = i / steps * math.tau - math.pi / 2
        height = math.sin(a)
        bout = lower if height < 0 else upper
        width = bout * (1 - (1 - waist) * math.exp(-(((height - 0.12) / 0.28) ** 2)))
        outline.append(
            (width * math.cos(a) * (abs(math.cos(a)) ** -0.25 if abs(math.cos(a)) > 0.02 else 1), length / 2 * height)
        )
    return outline


def string_instrument(scale: float, body: str, dark: str, violin: bool) -> Model:
    """Upright, with its back at y = 0 and its lower end at z = 0."""
    top, neck = materials.wood(body, dark, "z", 0.22), materials.wood("#6b4226", "#432818", "z", 0.3)
    length = 0.48
    outline = waisted(0.135, 0.185, 0.68, length)
    thick = 0.07 if violin else 0.1
    model = Model().add(shapes.prism(outline, thick, 0.008), top, (0, 0, length / 2), (90, 0, 0), smooth=False)
    rim = [(x * 1.005, -thick * 0.97, y + length / 2) for x, y in outline]
    model.add(shapes.tube(rim, 0.0045, 6, closed=True), materials.paint("#f1e2bf" if not violin else "#3d2415", 0.4))
    hole = materials.paint("#2a1a10", 0.9)
    if violin:
        for side in (-1, 1):
            model.add(
                shapes.tube(
                    [
                        (side * 0.05, -thick - 0.001, 0.2),
                        (side * 0.065, -thick - 0.001, 0.24),
                        (side * 0.052, -thick - 0.001, 0.28),
                    ],
                    0.004,
                    6,
                ),
                hole,
            )
    else:
        model.add(shapes.cylinder(0.048, 0.002, 32, 0.0005), hole, (0, -thick, 0.3), (90, 0, 0))
        ring = [
            (0.055 * math.cos(a), -thick - 0.001, 0.3 + 0.055 * math.sin(a))
            for a in np.linspace(0, math.tau, 32, endpoint=False)
        ]
        model.add(shapes.tube(ring, 0.003, 6, closed=True), materials.paint("#7d3b1c", 0.4))
    model.box((0.11 if not violin else 0.05, 0.012, 0.018), neck, (0, -thick - 0.006, 0.14))
    model.box((0.052, 0.022, 0.5), neck, (0, -thick + 0.004, length - 0.06), bevel=0.005)
    model.box((0.05, 0.006, 0.56), materials.paint("#3a241a", 0.35), (0, -thick - 0.01, length - 0.13), bevel=0.001)
    model.add(
        shapes.prism([(-0.033, 0), (0.033, 0), (0.042, 0.16), (0, 0.175), (-0.042, 0.16)], 0.018),
        neck,
        (0, -thick + 0.012, 0.915),
        (96, 0, 0),
        smooth=False,
    )
    metal = materials.paint("#d8d4c8", 0.25, 0.9)
    for i in range(4 if violin else 6):
        x = (i - (1.5 if violin else 2.5)) * 0.0075
        model.add(shapes.tube([(x, -thick - 0.0155, 0.15), (x, -thick - 0.0155, 0.915)], 0.0007, 4), metal)
    for side in (-1, 1):
        for z in (0.95, 0.99, 1.03):
            model.add(shapes.cylinder(0.009, 0.026, 12), metal, (side * 0.038, -thick + 0.004, z), (0, side * 90, 0))
    return Model().merge(model, scale=scale)


@belonging("ukulele", "banjo", "mandolin", stands="floor")
def guitar(kit: Kit) -> Model:
    body, dark = kit.random.choice((("#d99a4e", "#b06f2c"), ("#b5682f", "#7d401a"), ("#e0b873", "#c08d44")))
    model = Model().merge(string_instrument(0.98, body, dark, False), (0, 0.02, 0.1), (-14, 0, 0))
    stand = materials.paint("#3c3a38", 0.4)
    for side in (-1, 1):
        model.add(shapes.tube([(side * 0.2, -0.18, 0.012), (side * 0.1, -0.06, 0.1), (0, 0.1, 0.3)], 0.011, 8), stand)
        model.add(
            shapes.tube([(side * 0.1, -0.06, 0.1), (side * 0.1, -0.16, 0.1), (side * 0.1, -0.17, 0.13)], 0.01, 8), stand
        )
    model.add(shapes.tube([(0, 0.1, 0.3), (0, 0.3, 0.012)], 0.011, 8), stand)
    model.add(shapes.tube([(0, 0.1, 0.3), (0, 0.17, 0.62)], 0.011, 8), stand)
    return model


@belonging("fiddle", "cello", "viola", stands="surface")
def violin(kit: Kit) -> Model:
    """Lies on the table with its bow beside it."""
    model = Model().merge(string_instrument(0.42, "#b5562a", "#7c3216", True), (0, 0, 0), (-90, 0, 0))
    turned = Model().merge(model, (-0.22, 0.02, 0), (0, 0, -80))
    bow = materials.wood("#7a4526", "#4e2a16")
    turned.add(shapes.tube([(-0.2, -0.1, 0.012), (0.0, -0.115, 0.018), (0.19, -0.11, 0.012)], 0.004, 6), bow)
    turned.add(shapes.tube([(-0.2, -0.104, 0.005), (0.19, -0.114, 0.005)], 0.002, 4), materials.paint("#f3ead4", 0.8))
    return turned


@belonging("keyboard", "organ", "accordion", stands="floor")
def piano(kit: Kit) -> Model:
    """An upright piano, a little smaller than life, with its lid open and a sheet of music."""
    wood = materials.wood("#7a4526", "#4e2a16", roughness=0.22)
    ivory, ebony = materials.paint("#f7f2e4", 0.25), materials.paint("#26221f", 0.25)
    width, height = 1.3, 1.1
    model = (
        Model().box((width, 0.28, height), wood, (0, 0.14, 0)).box((width + 0.04, 0.34, 0.03), wood, (0, 0.12, height))
    )
    for side in (-1, 1):
        model.box((0.07, 0.3, 0.68), wood, (side * (width / 2 - 0.035), -0.12, 0))
        model.box((0.09, 0.34, 0.05), wood, (side * (width / 2 - 0.04), -0.13, 0.66))
    model.box((width - 0.1, 0.28, 0.05), wood, (0, -0.12, 0.58))
    keys = 45
    pitch = (width - 0.16) / keys
    for i in range(keys):
        x = (i - (keys - 1) / 2) * pitch
        model.box((pitch - 0.0015, 0.15, 0.02), ivory, (x, -0.15, 0.63), bevel=0.002)
        if i % 7 not in (2, 6):
            model.box((pitch * 0.55, 0.09, 0.016), ebony, (x + pitch / 2, -0.115, 0.648), bevel=0.003)
    model.box((width - 0.14, 0.02, 0.3), wood, (0, -0.01, 0.74), bevel=0.008)
    model.add(
        shapes.box((0.24, 0.003, 0.3), 0.001),
        materials.paint("#fbf6e6", 0.9),
        (-0.125, -0.045, 0.76),
        (-10, 0, 3),
        smooth=False,
    )
    model.add(
        shapes.box((0.24, 0.003, 0.3), 0.001),
        materials.paint("#f6efda", 0.9),
        (0.125, -0.045, 0.76),
        (-10, 0, -3),
        smooth=False,
    )
    ink = materials.paint("#4b423a", 0.9)
    for x in (-0.125, 0.125):
        for row in range(5):
            for line in range(4):
                z = 0.79 + row * 0.052 + line * 0.006
                model.box((0.2, 0.001, 0.0012), ink, (x, -0.0478 + (z - 0.76) * 0.176, z), bevel=0.0002)
    return model


@belonging("bike", "cycle", stands="floor")
def bicycle(kit: Kit) -> Model:
    """Seen from its side, on its stand."""
    frame, steel, black = (
        materials.paint(kit.random.choice(("#2f6b5e", "#a33a34", "#3c5c8f")), 0.2),
        materials.paint("#cfccc4", 0.25, 0.9),
        materials.paint("#2c2a29", 0.8),
    )
    model = Model()
    angle = np.linspace(0, math.tau, 40, endpoint=False)
    hubs = (-0.52, 0.52)
    for x in hubs:
        wheel = np.column_stack([x + 0.32 * np.cos(angle), np.zeros(40), 0.34 + 0.32 * np.sin(angle)])
        model.add(shapes.tube(wheel, 0.019, 8, closed=True), black)
        rim = np.column_stack([x + 0.295 * np.cos(angle), np.zeros(40), 0.34 + 0.295 * np.sin(angle)])
        model.add(shapes.tube(rim, 0.008, 6, closed=True), steel)
        for i in range(18):
            a = i / 18 * math.tau
            model.add(
                shapes.tube(
                    [(x, (-1) ** i * 0.025, 0.34), (x + 0.29 * math.cos(a), 0, 0.34 + 0.29 * math.sin(a))], 0.0018, 4
                ),
                steel,
            )
        guard = [(x + 0.355 * math.cos(a), 0, 0.34 + 0.355 * math.sin(a)) for a in np.linspace(0.3, 2.9, 16)]
        model.add(shapes.tube(guard, 0.014, 6), frame)
    crank, seat, head, fork = (-0.06, 0, 0.32), (-0.2, 0, 0.8), (0.36, 0, 0.84), (0.39, 0, 0.74)
    for a, b, r in (
        (crank, seat, 0.017),
        (crank, fork, 0.018),
        ((-0.19, 0, 0.74), (0.37, 0, 0.8), 0.016),
        ((-0.52, 0, 0.34), crank, 0.011),
        ((-0.52, 0, 0.34), (-0.18, 0, 0.72), 0.01),
        (head, (0.52, 0, 0.34), 0.015),
        (head, (0.33, 0, 0.97), 0.013),
    ):
        model.add(shapes.tube([a, b], r, 10), frame)
    model.add(
        shapes.tube(
            [(0.2, -0.26, 0.99), (0.3, -0.2, 1.0), (0.34, 0, 0.97), (0.3, 0.2, 1.0), (0.2, 0.26, 0.99)], 0.012, 8
        ),
        steel,
    )
    model.add(shapes.cushion((0.25, 0.15, 0.06), 0.03), materials.paint("#7a4a28", 0.5), (-0.22, 0, 0.84))
    model.add(shapes.tube([seat, (-0.21, 0, 0.85)], 0.012, 8), steel)
    model.add(shapes.cylinder(0.09, 0.01, 28), steel, (-0.06, -0.03, 0.32), (90, 0, 0))
    model.add(shapes.tube([(-0.14, -0.06, 0.32), (-0.06, -0.05, 0.32)], 0.01, 6), steel)
    model.add(shapes.tube([(-0.1, 0.0, 0.3), (-0.16, 0.2, 0.01)], 0.01, 6), steel)
    basket = materials.fabric("#b98550", "#8f6234", 0.5)
    model.add(
        shapes.lathe([(0.0, 0), (0.11, 0), (0.15, 0.2), (0.145, 0.2), (0.105, 0.012), (0, 0.012)], 24),
        basket,
        (0.47, 0, 0.79),
    )
    return model


@belonging("case", "trunk", "luggage", stands="floor")
def suitcase(kit: Kit) -> Model:
    leather, dark, metal = (
        materials.paint("#9a5f33", 0.5),
        materials.paint("#6b3f20", 0.5),
        materials.paint("#c9a14e", 0.28, 0.9),
    )
    model = Model().add(shapes.cushion((0.62, 0.2, 0.42), 0.035), leather, (0, 0, 0.01))
    model.box((0.625, 0.012, 0.425), dark, (0, 0, 0.008), bevel=0.003)
    for x in (-0.18, 0.18):
        model.box((0.05, 0.206, 0.428), dark, (x, 0, 0.006), bevel=0.01)
        model.box((0.035, 0.01, 0.045), metal, (x, -0.105, 0.3), bevel=0.004)
    model.add(shapes.tube([(-0.08, 0, 0.425), (-0.07, 0, 0.465), (0.07, 0, 0.465), (0.08, 0, 0.425)], 0.012, 8), dark)
    return model
