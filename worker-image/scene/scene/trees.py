"""Trees and shrubs: branching skeletons grown at random, with a leaf at a time on their twigs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from . import materials, shapes
from .model import Model


@dataclass(frozen=True)
class Species:
    height: float
    bare: float
    """Share of the trunk below the first branch."""
    limbs: int
    spread: float
    """Angle in degrees between a limb and the trunk."""
    reach: float
    """Length of the lowest limbs as a share of the height."""
    taper: float
    """Length of the topmost limbs as a share of the lowest: 1 is a round crown, 0 a cone."""
    rise: float
    """How strongly branches turn up (or, below zero, hang down)."""
    leaf: float
    leaf_width: float
    per_twig: int
    foliage: tuple[str, ...]
    bark: tuple[str, str]
    blossom: tuple[str, ...] = ()
    birch: bool = False
    twigs: int = 5


SPECIES = {
    "oak": Species(
        7.5,
        0.24,
        11,
        58,
        0.42,
        0.75,
        0.25,
        0.115,
        0.62,
        150,
        ("#4d6b26", "#5f7f2e", "#7b9a3c", "#8fae4a"),
        ("#8a7560", "#5a4a3a"),
        twigs=6,
    ),
    "maple": Species(
        6.5,
        0.26,
        12,
        50,
        0.40,
        0.6,
        0.35,
        0.11,
        0.9,
        140,
        ("#6f8f33", "#93aa42", "#b9b550", "#d0a648"),
        ("#94836f", "#63543f"),
    ),
    "birch": Species(
        8.0,
        0.28,
        16,
        44,
        0.26,
        0.55,
        -0.25,
        0.115,
        0.7,
        70,
        ("#7f9c3f", "#98b04f", "#b0c163"),
        ("#ece7dc", "#3d3833"),
        birch=True,
    ),
    "apple": Species(
        4.2,
        0.28,
        8,
        60,
        0.50,
        0.85,
        0.3,
        0.115,
        0.55,
        80,
        ("#5f8136", "#7a9a45", "#96b158"),
        ("#80705f", "#54463a"),
        ("#f7dfe3", "#f3c6cf", "#fff4f2", "#efaebc"),
    ),
    "poplar": Species(
        10.0,
        0.1,
        26,
        22,
        0.2,
        0.5,
        0.35,
        0.14,
        0.8,
        60,
        ("#56762f", "#6c8b38", "#839d48"),
        ("#97897a", "#5e5347"),
        twigs=3,
    ),
    "fir": Species(
        8.5,
        0.06,
        60,
        84,
        0.29,
        0.07,
        0.05,
        0.095,
        0.17,
        170,
        ("#557a4d", "#688d56", "#87a965", "#a4c078"),
        ("#7a6250", "#4c3d31"),
        twigs=5,
    ),
}


def wander(
    rng: random.Random, start: np.ndarray, direction: np.ndarray, length: float, points: int, rise: float, wobble: float
) -> np.ndarray:
    path = [start]
    heading = direction / np.linalg.norm(direction)
    for _ in range(points - 1):
        heading = heading + np.array([rng.gauss(0, wobble), rng.gauss(0, wobble), rng.gauss(0, wobble) + rise / points])
        heading /= np.linalg.norm(heading)
        path.append(path[-1] + heading * length / (points - 1))
    return np.array(path)


def branch_off(
    rng: random.Random, path: np.ndarray, at: float, angle: float, around: float
) -> tuple[np.ndarray, np.ndarray]:
    """The point a share `at` along a path, and a direction at an angle to the path there."""
    place = at * (len(path) - 1)
    low = min(int(place), len(path) - 2)
    point = path[low] + (path[low + 1] - path[low]) * (place - low)
    along = path[low + 1] - path[low]
    along /= np.linalg.norm(along)
    side = np.cross(along, (0.31, 0.2, 0.93) if abs(along[2]) < 0.9 else (1, 0, 0))
    side /= np.linalg.norm(side)
    other = np.cross(along, side)
    radial = side * math.cos(around) + other * math.sin(around)
    return point, along * math.cos(angle) + radial * math.sin(angle)


def tree(rng: random.Random, numbers: np.random.Generator, kind: str, size: float = 1.0) -> Model:
    species = SPECIES[kind]
    height = species.height * rng.uniform(0.88, 1.12) * size
    model = Model()
    bark = materials.bark(*species.bark, banded=species.birch)
    thickness = height * (0.018 if species.birch else 0.026)
    trunk = wander(rng, np.zeros(3), np.array([rng.gauss(0, 0.05), rng.gauss(0, 0.05), 1]), height, 11, 0.1, 0.035)
    trunk[0, 2] = -0.1
    flare = np.linspace(1, 0.08, 11) * thickness
    flare[0] *= 1.5
    model.add(shapes.tube(trunk, flare, 12), bark)

    twigs: list[np.ndarray] = []
    around = rng.uniform(0, 6.28)
    for i in range(species.limbs):
        share = i / max(1, species.limbs - 1)
        at = species.bare + (0.97 - species.bare) * share
        around += 2.4 + rng.gauss(0, 0.25)
        # A crown is widest a little above its lowest limbs.
        fullness = math.sin(math.pi * (0.3 + 0.55 * share)) if species.taper > 0.3 else 1
        length = height * species.reach * (1 + (species.taper - 1) * share) * fullness * rng.uniform(0.85, 1.15)
        angle = math.radians(species.spread * (1.1 - 0.35 * share) + rng.gauss(0, 5))
        point, direction = branch_off(rng, trunk, at, angle, around)
        limb = wander(rng, point, direction, length, 6, species.rise, 0.07)
        base = thickness * (1 - at) * 0.55 + 0.012
        model.add(shapes.tube(limb, np.linspace(base, base * 0.25, 6), 7), bark)
        twigs.append(limb[3:])
        for j in range(species.twigs + 2):
            along = 0.22 + 0.75 * (j + rng.random()) / (species.twigs + 2)
            start, heading = branch_off(
                rng,
                limb,
                along,
                math.radians(rng.uniform(35, 65)),
                rng.uniform(0, 6.28) if kind != "fir" else rng.choice((0, math.pi)) + rng.gauss(0, 0.3),
            )
            offshoot = wander(
                rng, start, heading, length * rng.uniform(0.3, 0.5) * (1.15 - 0.5 * along), 4, species.rise, 0.1
            )
            model.add(shapes.tube(offshoot, np.linspace(base * 0.35, 0.004, 4), 5), bark)
            twigs.append(offshoot)
            for _ in range(species.twigs - 1):
                start, heading = branch_off(
                    rng, offshoot, rng.uniform(0.25, 1), math.radians(rng.uniform(30, 70)), rng.uniform(0, 6.28)
                )
                twigs.append(wander(rng, start, heading, length * rng.uniform(0.12, 0.24), 3, species.rise * 1.2, 0.12))

    clothe(model, numbers, twigs, species, size)
    return model


def clothe(model: Model, numbers: np.random.Generator, twigs: list[np.ndarray], species: Species, size: float) -> None:
    """Sets leaves along every twig, and where the species blossoms, flowers among them."""
    starts = np.concatenate([twig[:-1] for twig in twigs])
    ends = np.concatenate([twig[1:] for twig in twigs])
    lengths = np.linalg.norm(ends - starts, axis=1)
    count = species.per_twig * len(twigs)
    chosen = numbers.choice(len(starts), count, p=lengths / lengths.sum())
    share = numbers.random((count, 1))
    points = starts[chosen] * (1 - share) + ends[chosen] * share
    spray = species.leaf_width < 0.3
    points += numbers.normal(scale=(0.01 if spray else 0.05) * size, size=(count, 3))
    along = (ends - starts)[chosen] / np.maximum(lengths[chosen, None], 1e-6)
    # Needles stand off a twig all round; leaves hang from it.
    direction = along * (0.75 if spray else 0.5) + numbers.normal(scale=0.6 if spray else 0.55, size=(count, 3))
    direction += (0, 0, 0.12 if spray else -0.15)
    sizes = species.leaf * numbers.uniform(0.7, 1.25, count)
    blossom = numbers.random(count) < (0.45 if species.blossom else 0)
    model.add(
        shapes.leaves(points[~blossom], direction[~blossom], sizes[~blossom], numbers, species.leaf_width),
        materials.foliage(
            species.foliage, 0.5 if spray else 0.35, 0.7 if spray else 0.5, species.height / 3 if spray else 0.0
        ),
        smooth=False,
    )
    if blossom.any():
        model.add(
            shapes.leaves(points[blossom], direction[blossom], sizes[blossom] * 0.75, numbers, 1.0),
            materials.foliage(species.blossom, 0.3),
            smooth=False,
        )


def shell(
    numbers: np.random.Generator,
    points: np.ndarray,
    normals: np.ndarray,
    leaf: float,
    colours: tuple[str, ...],
    width: float = 0.6,
) -> Model:
    """A skin of leaves over points on a surface: clipped hedges, bushes."""
    count = len(points)
    inward = numbers.random((count, 1)) ** 2 * leaf * 1.6
    direction = normals + numbers.normal(scale=0.75, size=(count, 3)) + (0, 0, 0.25)
    return Model().add(
        shapes.leaves(points - normals * inward, direction, leaf * numbers.uniform(0.7, 1.3, count), numbers, width),
        materials.foliage(colours),
        smooth=False,
    )


def hedge(
    numbers: np.random.Generator,
    length: float,
    depth: float,
    height: float,
    colours: tuple[str, ...] = ("#54773a", "#678b44", "#7d9f4f", "#94b25c"),
) -> Model:
    """A clipped hedge with its long side along x. Only top, front and ends have leaves; a green core hides the rest."""
    model = Model().box((length - 0.1, depth - 0.14, height - 0.08), materials.paint("#4d6c33", 0.95), bevel=0.05)
    areas = np.array([length * height, length * height, length * depth, depth * height, depth * height])
    per_side = (areas * 620).astype(int)
    for side, count in enumerate(per_side):
        u, v = numbers.uniform(-0.5, 0.5, count), numbers.uniform(-0.5, 0.5, count)
        sign = (-1, 1, 1, -1, 1)[side]
        if side < 2:
            points = np.column_stack([u * length, np.full(count, sign * depth / 2), (v + 0.5) * height])
            normal = (0, sign, 0)
        elif side == 2:
            points = np.column_stack([u * length, v * depth, np.full(count, height)])
            normal = (0, 0, 1)
        else:
            points = np.column_stack([np.full(count, sign * length / 2), u * depth, (v + 0.5) * height])
            normal = (sign, 0, 0)
        points += numbers.normal(scale=0.018, size=points.shape)
        model.merge(shell(numbers, points, np.tile(np.array(normal, dtype=float), (count, 1)), 0.062, colours))
    return model


def bush(
    numbers: np.random.Generator,
    radius: float,
    height: float,
    colours: tuple[str, ...],
    blossom: tuple[str, ...] = (),
    leaf: float = 0.06,
    flowers: int = 60,
) -> Model:
    count = int(900 * (radius * 2 + height) * 0.06 / leaf)
    normals = numbers.normal(size=(count, 3))
    normals[:, 2] = np.abs(normals[:, 2]) - 0.25
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    lumps = 1 + 0.12 * np.sin(normals[:, 0] * 5 + 1) * np.cos(normals[:, 1] * 4) + 0.08 * np.sin(normals[:, 2] * 7)
    points = normals * lumps[:, None] * (radius, radius, height * 0.55) * numbers.uniform(0.8, 1.0, (count, 1)) + (
        0,
        0,
        height * 0.45,
    )
    model = Model().merge(shell(numbers, points, normals, leaf, colours))
    model.add(
        shapes.sphere(1, 14, 9),
        materials.paint("#46602d", 0.95),
        scale=(radius * 0.72, radius * 0.72, height * 0.36),
        at=(0, 0, 0.02),
    )
    if blossom:
        chosen = numbers.choice(count, flowers, replace=False)
        petals = np.repeat(points[chosen] * 1.03, 9, axis=0)
        outward = np.repeat(normals[chosen], 9, axis=0)
        direction = outward * 0.55 + numbers.normal(scale=0.6, size=petals.shape)
        model.add(
            shapes.leaves(petals, direction, leaf * numbers.uniform(0.7, 1.05, len(petals)), numbers, 0.9),
            materials.foliage(blossom, 0.3),
            smooth=False,
        )
    return model
