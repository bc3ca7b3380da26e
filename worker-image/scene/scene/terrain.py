"""Ground out of doors: paving, grass and distant hills."""

from __future__ import annotations

import math
from collections.abc import Callable

import bpy
import numpy as np

from . import materials, shapes, trees
from .model import Model
from .stage import Stage

Mask = Callable[[np.ndarray], np.ndarray]
"""Takes an array of x-y points and says which of them belong to an area."""


def clip(polygon: np.ndarray, normal: np.ndarray, limit: float) -> np.ndarray:
    """The part of a convex polygon where normal . p <= limit."""
    kept = []
    distance = polygon @ normal - limit
    for i in range(len(polygon)):
        j = (i + 1) % len(polygon)
        if distance[i] <= 0:
            kept.append(polygon[i])
        if (distance[i] < 0) != (distance[j] < 0):
            kept.append(polygon[i] + (polygon[j] - polygon[i]) * distance[i] / (distance[i] - distance[j]))
    return np.array(kept)


def paving(
    numbers: np.random.Generator,
    area: Mask,
    extent: tuple[float, float, float, float],
    size: float,
    material: bpy.types.Material,
) -> Model:
    """Irregular flagstones: the cells of a Voronoi diagram over a jittered grid, each shrunk to leave a joint."""
    low_x, low_y, high_x, high_y = extent
    columns, rows = int((high_x - low_x) / size) + 1, int((high_y - low_y) / size) + 1
    grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows), indexing="ij"), axis=-1).astype(float)
    sites = (grid + numbers.uniform(-0.36, 0.36, grid.shape)) * size + (low_x, low_y)
    inside = area(sites.reshape(-1, 2)).reshape(columns, rows)
    model = Model()
    for i, j in zip(*np.nonzero(inside)):
        site = sites[i, j]
        cell = site + np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * size * 1.6
        for other in sites[max(0, i - 2) : i + 3, max(0, j - 2) : j + 3].reshape(-1, 2):
            if (away := other - site).any():
                cell = clip(cell, away, away @ (site + other) / 2)
        middle = cell.mean(axis=0)
        arms = cell - middle
        cell = middle + arms * (1 - 0.018 / np.linalg.norm(arms, axis=1, keepdims=True))
        model.add(
            shapes.prism(rounded(cell), 0.045 + numbers.uniform(0, 0.006), 0.012),
            material,
            at=(0, 0, -0.02),
            smooth=False,
        )
    return model


def rounded(polygon: np.ndarray) -> np.ndarray:
    """Cuts every corner once."""
    following = np.roll(polygon, -1, axis=0)
    return np.stack([polygon * 0.86 + following * 0.14, polygon * 0.14 + following * 0.86], axis=1).reshape(-1, 2)


def grass(
    numbers: np.random.Generator,
    keep: Mask,
    reach: float,
    density: float,
    height: float,
    material: bpy.types.Material,
    full: float = 3.0,
    behind: bool = True,
) -> Model:
    """Blades up to `reach` metres away. Beyond `full` metres they grow fewer and wider with distance, so that a far lawn costs little."""
    near = int(density * math.pi * full**2)
    far = int(density * 2 * math.pi * full**2 * math.log(reach / full))
    radius = np.concatenate(
        [full * np.sqrt(numbers.random(near)), full * np.exp(numbers.random(far) * math.log(reach / full))]
    )
    angle = numbers.random(near + far) * 2 * np.pi
    foot = np.column_stack([radius * np.sin(angle), radius * np.cos(angle)])
    chosen = keep(foot) & (behind | (foot[:, 1] > 0))
    foot, radius = foot[chosen], radius[chosen]
    count = len(foot)
    wide = 0.0055 * np.maximum(1, radius / full)[:, None] * numbers.uniform(0.7, 1.2, (count, 1))
    tall = (
        height * numbers.uniform(0.6, 1.25, (count, 1)) * np.minimum(1.6, np.maximum(1, radius / full) ** 0.4)[:, None]
    )
    turn = numbers.random(count) * 2 * np.pi
    side = np.column_stack([np.cos(turn), np.sin(turn), np.zeros(count)])
    lean = np.column_stack([-np.sin(turn), np.cos(turn), np.zeros(count)]) * numbers.uniform(0.05, 0.7, (count, 1))
    base = np.column_stack([foot, np.zeros(count)])
    up = np.array([0.0, 0, 1])
    middle = base + (up * 0.6 + lean * 0.25) * tall
    tip = base + (up + lean) * tall
    vertices = np.stack(
        [base - side * wide / 2, base + side * wide / 2, middle + side * wide * 0.4, middle - side * wide * 0.4, tip],
        axis=1,
    ).reshape(-1, 3)
    index = np.arange(count)[:, None] * 5
    return Model().add(
        (vertices, [index + np.array([0, 1, 2, 3]), index + np.array([3, 2, 4])]), material, smooth=False
    )


HILLS = (("#8aa365", "#57774a"), ("#97ae88", "#7a9779"), ("#a9bcb0", "#97aea8"))
"""Fields and woods of each ring of hills."""


def hills(stage: Stage, tints: tuple[tuple[str, str], ...] = HILLS) -> None:
    """Rings of hills, each farther one paler, as air makes them."""
    for ring, (fields, woods) in enumerate(tints):
        distance, rise = 70 + ring * 75, 4 + ring * 9
        phase = [stage.random.uniform(0, 6.28) for _ in range(4)]
        angle = np.linspace(0, 2 * np.pi, 181)
        crest = rise * (
            1
            + 0.4 * np.sin(angle * 3 + phase[0])
            + 0.25 * np.sin(angle * 7 + phase[1])
            + 0.1 * np.sin(angle * 17 + phase[2])
        )
        rows = []
        for share in np.linspace(0, 1, 6):
            radius = distance + share * 40
            rows.append(
                np.column_stack(
                    [np.sin(angle) * radius, np.cos(angle) * radius, -1 + (crest + 1) * math.sin(share * math.pi / 2)]
                )
            )
        model = Model().add((np.concatenate(rows), [shapes.lattice(6, 181)]), materials.hillside(fields, woods))
        stage.add(f"hills {ring}", model)


def woods(
    stage: Stage,
    meshes: list[bpy.types.Mesh],
    count: int,
    nearest: float,
    farthest: float,
    keep: Callable[[float, float], bool],
) -> None:
    """Trees scattered over a ring, most of them far away."""
    placed = 0
    for _ in range(count * 8):
        angle, radius = (
            stage.random.uniform(-180, 180),
            nearest + (farthest - nearest) * math.sqrt(stage.random.random()),
        )
        x, y = radius * math.sin(math.radians(angle)), radius * math.cos(math.radians(angle))
        if placed < count and keep(x, y):
            stage.place(
                f"wood {placed}",
                stage.random.choice(meshes),
                shapes.matrix((x, y, -0.1), (0, 0, stage.random.uniform(0, 360)), stage.random.uniform(1.0, 1.7)),
            )
            placed += 1


def tree_meshes(stage: Stage, kinds: list[str]) -> list[bpy.types.Mesh]:
    return [trees.tree(stage.random, stage.numbers, kind).to_mesh(f"{kind} {i}") for i, kind in enumerate(kinds)]
