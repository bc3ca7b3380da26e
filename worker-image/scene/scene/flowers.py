"""Flowers and small plants. Each function makes one plant; beds and pots hold many instances of it."""

from __future__ import annotations

import math

import numpy as np

from . import materials, shapes
from .model import Model

GREENS = ("#56772f", "#6c8d3b", "#84a44b")

PALETTES = (
    {
        "petals": ("#e8566a", "#f0788a", "#f6a5b0"),
        "second": ("#f4c64e", "#f7d772", "#efb23c"),
        "spikes": ("#7a64b8", "#8f7bcb", "#a894dd"),
        "bush": ("#f3c4d0", "#eaa6b8", "#fbe3e8"),
    },
    {
        "petals": ("#f2a33c", "#f5b95e", "#ee8a34"),
        "second": ("#fdf4dc", "#fbe9bd", "#fffaf0"),
        "spikes": ("#4f73c0", "#6a8ad2", "#8aa5e2"),
        "bush": ("#d8596a", "#e57a86", "#c8455a"),
    },
    {
        "petals": ("#c75b9b", "#d97fb3", "#e9a9cd"),
        "second": ("#fbf7ff", "#f1e6fa", "#ffffff"),
        "spikes": ("#5d58b5", "#7672c8", "#9591da"),
        "bush": ("#8fa6dc", "#a9bbe8", "#7a92cf"),
    },
    {
        "petals": ("#d8433f", "#e3645c", "#ee8d83"),
        "second": ("#ffe28a", "#ffd45c", "#fbeaa9"),
        "spikes": ("#e39ac0", "#edb6d2", "#d67fac"),
        "bush": ("#fdf3ea", "#fbe4d4", "#fff9f4"),
    },
)


def petals(
    count: int, at: np.ndarray, lift: float, size: float, numbers: np.random.Generator, width: float = 0.55
) -> shapes.Shape:
    """A ring of petals about a point, raised by `lift` (0 lies flat, 1 stands)."""
    angle = np.linspace(0, 2 * np.pi, count, endpoint=False) + numbers.random() * 6.28
    direction = np.column_stack([np.cos(angle), np.sin(angle), np.full(count, lift)])
    size / np.linalg.norm(direction, axis=1)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    side = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(count)])
    normal = np.cross(direction, side)
    reach = direction * size
    wing = side * size * width / 2
    vertices = np.stack(
        [
            np.broadcast_to(at, reach.shape),
            at + reach * 0.6 - wing,
            at + reach + normal * -0.08 * size,
            at + reach * 0.6 + wing,
        ],
        axis=1,
    ).reshape(-1, 3)
    base = np.arange(count)[:, None] * 4
    return vertices, [base + np.array([0, 1, 2, 3])]


def stem(
    model: Model,
    numbers: np.random.Generator,
    foot: np.ndarray,
    height: float,
    lean: float = 0.12,
    thickness: float = 0.0035,
) -> np.ndarray:
    top = foot + np.array([numbers.normal(scale=lean), numbers.normal(scale=lean), 1]) * height
    middle = (foot + top) / 2 + numbers.normal(scale=0.015, size=3)
    model.add(
        shapes.tube([foot, middle, top], [thickness * 1.3, thickness, thickness * 0.8], 4), materials.foliage(GREENS)
    )
    return top


def tuft(
    model: Model,
    numbers: np.random.Generator,
    count: int,
    spread: float,
    length: float,
    colours: tuple[str, ...] = GREENS,
    width: float = 0.16,
) -> None:
    angle = numbers.random(count) * 6.28
    foot = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)]) * numbers.random((count, 1)) * spread
    direction = foot / max(spread, 1e-6) * 0.7 + numbers.normal(scale=0.2, size=(count, 3)) + (0, 0, 1)
    model.add(
        shapes.leaves(foot, direction, length * numbers.uniform(0.6, 1.1, count), numbers, width),
        materials.foliage(colours),
        smooth=False,
    )


def daisy(
    numbers: np.random.Generator,
    colours: tuple[str, ...],
    centre: str = "#e8b93a",
    height: float = 0.38,
    heads: int = 7,
) -> Model:
    model = Model()
    tuft(model, numbers, 26, 0.09, height * 0.55, width=0.24)
    for _ in range(heads):
        foot = np.append(numbers.normal(scale=0.05, size=2), 0)
        top = stem(model, numbers, foot, height * numbers.uniform(0.75, 1.1))
        model.add(petals(13, top, 0.15, 0.042, numbers, 0.42), materials.foliage(colours, 0.3), smooth=False)
        model.add(shapes.sphere(0.012, 8, 5), materials.paint(centre, 0.9), at=top - (0, 0, 0.006), scale=(1, 1, 0.6))
    return model


def tulip(numbers: np.random.Generator, colours: tuple[str, ...], height: float = 0.36) -> Model:
    model = Model()
    tuft(model, numbers, 16, 0.07, height * 0.8, width=0.2)
    for _ in range(5):
        top = stem(
            model,
            numbers,
            np.append(numbers.normal(scale=0.05, size=2), 0),
            height * numbers.uniform(0.85, 1.1),
            0.06,
            0.005,
        )
        for lift, size in ((2.6, 0.062), (3.4, 0.058)):
            model.add(petals(4, top, lift, size, numbers, 0.95), materials.foliage(colours, 0.35), smooth=False)
    return model


def spike(
    numbers: np.random.Generator, colours: tuple[str, ...], height: float = 0.5, stems: int = 16, blossom: float = 0.02
) -> Model:
    """Lavender, salvia or (tall, with large blossoms) delphinium and hollyhock."""
    model = Model()
    tuft(model, numbers, 40, 0.1, height * 0.5, ("#6f8a5a", "#849e6c", "#9bb182"), width=0.12)
    points = []
    for _ in range(stems):
        foot = np.append(numbers.normal(scale=0.05, size=2), 0)
        top = stem(model, numbers, foot, height * numbers.uniform(0.75, 1.1), 0.14, 0.003)
        for share in np.linspace(0.55, 1, 14):
            points.append(np.tile(foot + (top - foot) * share, (5, 1)))
    points = np.concatenate(points)
    points = points + numbers.normal(scale=blossom * 0.25, size=points.shape)
    direction = numbers.normal(size=points.shape) + (0, 0, 0.5)
    model.add(
        shapes.leaves(points, direction, blossom * numbers.uniform(0.7, 1.2, len(points)), numbers, 0.8),
        materials.foliage(colours, 0.25),
        smooth=False,
    )
    return model


def fern(
    numbers: np.random.Generator, colours: tuple[str, ...] = ("#5c8a36", "#74a047", "#8fb75c"), length: float = 0.5
) -> Model:
    model = Model()
    for i in range(13):
        angle = i * 2.4
        share = np.linspace(0, 1, 14)[:, None]
        out = np.array([math.cos(angle), math.sin(angle), 0])
        frond = length * numbers.uniform(0.8, 1.1)
        spine = out * share * frond * 0.85 + np.array([0, 0, 1]) * (share * 0.95 - share**2 * 0.75) * frond
        model.add(shapes.tube(spine, 0.003, 3), materials.foliage(colours))
        side = np.cross(out, (0, 0, 1))
        for sign in (-1, 1):
            direction = side * sign + out * 0.45 - np.array([0, 0, 0.15])
            sizes = frond * 0.26 * np.sin(np.pi * (0.1 + 0.85 * share.ravel()))
            model.add(
                shapes.leaves(spine, np.tile(direction, (len(spine), 1)), sizes, numbers, 0.34),
                materials.foliage(colours),
                smooth=False,
            )
    return model


def geranium(numbers: np.random.Generator, colours: tuple[str, ...], height: float = 0.3) -> Model:
    """Round leaves below and balls of small flowers above: the plant for pots."""
    model = Model()
    count = 150
    normal = numbers.normal(size=(count, 3))
    normal[:, 2] = np.abs(normal[:, 2])
    points = (
        normal
        / np.linalg.norm(normal, axis=1, keepdims=True)
        * (0.17, 0.17, height * 0.6)
        * numbers.uniform(0.6, 1, (count, 1))
    )
    model.add(
        shapes.leaves(points, normal + (0, 0, 0.4), numbers.uniform(0.06, 0.1, count), numbers, 1.0),
        materials.foliage(GREENS),
        smooth=False,
    )
    for _ in range(11):
        direction = numbers.normal(size=3) * (0.8, 0.8, 0.2) + (0, 0, 1)
        ball = direction / np.linalg.norm(direction) * (0.18, 0.18, height) * numbers.uniform(0.85, 1.05)
        model.add(shapes.tube([(0, 0, height * 0.3), ball], 0.003, 4), materials.foliage(GREENS))
        florets = ball + numbers.normal(scale=0.022, size=(26, 3))
        model.add(
            shapes.leaves(florets, florets - ball + (0, 0, 0.01), np.full(26, 0.028), numbers, 1.0),
            materials.foliage(colours, 0.3),
            smooth=False,
        )
    return model


def bouquet(numbers: np.random.Generator, palette: dict[str, tuple[str, ...]], height: float = 0.24) -> Model:
    """Cut flowers for a vase, with their stems meeting at the origin."""
    model = Model()
    tuft(model, numbers, 34, 0.02, height * 0.95, width=0.35)
    for i in range(15):
        out = np.array([math.cos(i * 2.4), math.sin(i * 2.4), 0]) * (0.02 + 0.028 * math.sqrt(i))
        top = out + (0, 0, height * numbers.uniform(0.8, 1.1) - np.linalg.norm(out) * 0.4)
        model.add(shapes.tube([out * 0.1, out * 0.6 + (0, 0, height * 0.5), top], 0.003, 4), materials.foliage(GREENS))
        colours = palette[("petals", "second", "bush")[i % 3]]
        for ring, (lift, size) in enumerate(((0.25, 0.05), (0.9, 0.042), (2.2, 0.03))):
            model.add(
                petals(8, top + (0, 0, ring * 0.004), lift, size, numbers, 0.75),
                materials.foliage(colours, 0.3),
                smooth=False,
            )
    return model
