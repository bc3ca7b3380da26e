"""Climbing plants, on a lattice and on an arch."""

from __future__ import annotations

import numpy as np

from . import materials, shapes
from .model import Model
from .trees import shell


def climber(numbers: np.random.Generator, width: float, height: float, colours: tuple[str, ...], whole: bool) -> Model:
    """A flowering climber on a lattice in the x-z plane. Where it does not cover the whole, it keeps to posts, top and foot."""
    count = 15000 if whole else 8000
    x, z = numbers.uniform(-0.5, 0.5, count) * width, numbers.uniform(0, 1, count) * (height + 0.08)
    edge = (np.abs(x) > width / 2 - 0.1) | (z > height - 0.16) | (z < 0.34)
    share = 0.62 + 0.38 * np.sin(x * 6.1 + 1) * np.cos(z * 5.3)
    kept = (numbers.random(count) < share) & (edge | whole)
    x, z = x[kept], z[kept]
    side = numbers.choice((-1.0, 1.0), len(x))
    bulge = 0.05 + 0.09 * (0.5 + 0.5 * np.sin(x * 4.3) * np.cos(z * 3.7 + 1)) if whole else 0.07
    points = np.column_stack([x, side * numbers.uniform(0.01, 1, len(x)) * bulge, z])
    normals = np.column_stack([np.zeros(len(x)), side, np.zeros(len(x))])
    model = shell(numbers, points, normals, 0.085, ("#4f7034", "#648642", "#7c9a52"))
    chosen = numbers.choice(len(x), max(12, len(x) // 55), replace=False)
    blossoms = np.repeat(points[chosen] + normals[chosen] * 0.05, 11, axis=0)
    direction = np.repeat(normals[chosen], 11, axis=0) * 0.5 + numbers.normal(scale=0.6, size=blossoms.shape)
    sizes = numbers.uniform(0.045, 0.075, len(blossoms))
    return model.add(
        shapes.leaves(blossoms, direction, sizes, numbers, 0.9), materials.foliage(colours, 0.3), smooth=False
    )


def rose_arch(
    numbers: np.random.Generator,
    wood,
    colours: tuple[str, ...],
    width: float = 1.5,
    height: float = 2.25,
    depth: float = 0.5,
) -> Model:
    """An arch over a path, grown over with climbing roses. One walks through it along y."""
    model = Model()
    angle = np.linspace(0, np.pi, 15)
    radius = width / 2
    curve = np.concatenate(
        [
            [(radius, 0)],
            np.column_stack([radius * np.cos(angle), height - radius + radius * np.sin(angle)]),
            [(-radius, 0)],
        ]
    )
    for y in (-depth / 2, depth / 2):
        model.add(shapes.tube([(x, y, z) for x, z in curve], 0.03, 8), wood)
    lengths = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    for at in np.arange(0.25, lengths[-1], 0.25):
        x, z = np.interp(at, lengths, curve[:, 0]), np.interp(at, lengths, curve[:, 1])
        model.add(shapes.tube([(x, -depth / 2, z), (x, depth / 2, z)], 0.012, 6), wood)
    count = 16000
    at = numbers.random(count) * lengths[-1]
    points = np.column_stack(
        [
            np.interp(at, lengths, curve[:, 0]),
            numbers.uniform(-0.55, 0.55, count) * depth,
            np.interp(at, lengths, curve[:, 1]),
        ]
    )
    outward = points - (0, 0, height - radius)
    outward[:, 1] = numbers.normal(scale=0.35, size=count)
    outward[points[:, 2] < height - radius, 2] = 0
    outward /= np.maximum(np.linalg.norm(outward, axis=1, keepdims=True), 1e-6)
    points += outward * numbers.uniform(-0.02, 0.2, (count, 1)) * (0.5 + 0.5 * np.sin(at * 5))[:, None]
    model.merge(shell(numbers, points, outward, 0.085, ("#4f7034", "#648642", "#7c9a52")))
    chosen = numbers.choice(count, 420, replace=False)
    blossoms = np.repeat(points[chosen] + outward[chosen] * 0.05, 11, axis=0)
    direction = np.repeat(outward[chosen], 11, axis=0) * 0.5 + numbers.normal(scale=0.6, size=blossoms.shape)
    model.add(
        shapes.leaves(blossoms, direction, numbers.uniform(0.05, 0.085, len(blossoms)), numbers, 0.9),
        materials.foliage(colours, 0.3),
        smooth=False,
    )
    return model
