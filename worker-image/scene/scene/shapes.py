"""Primitive shapes as plain arrays: each function returns (vertices, faces), with the shape standing on z = 0.

Faces are a list of index arrays, one for each polygon size, so that numpy can build and join them without loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Faces = list[np.ndarray]
Shape = tuple[np.ndarray, Faces]


def matrix(
    at: Sequence[float] = (0, 0, 0), turn: Sequence[float] = (0, 0, 0), scale: float | Sequence[float] = 1
) -> np.ndarray:
    """A 4x4 transform: scale, then rotation by `turn` degrees about x, y and z in that order, then translation."""
    x, y, z = np.radians(turn)
    about_x = np.array([[1, 0, 0], [0, math.cos(x), -math.sin(x)], [0, math.sin(x), math.cos(x)]])
    about_y = np.array([[math.cos(y), 0, math.sin(y)], [0, 1, 0], [-math.sin(y), 0, math.cos(y)]])
    about_z = np.array([[math.cos(z), -math.sin(z), 0], [math.sin(z), math.cos(z), 0], [0, 0, 1]])
    result = np.eye(4)
    result[:3, :3] = about_z @ about_y @ about_x @ np.diag(np.broadcast_to(scale, 3))
    result[:3, 3] = at
    return result


def transform(vertices: np.ndarray, by: np.ndarray) -> np.ndarray:
    return vertices @ by[:3, :3].T + by[:3, 3]


def lattice(rows: int, columns: int, closed: bool = False) -> np.ndarray:
    """Quads over a grid of rows x columns vertices; `closed` joins the last column to the first."""
    index = np.arange(rows * columns).reshape(rows, columns)
    if closed:
        index = np.hstack([index, index[:, :1]])
    return np.stack([index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]], axis=-1).reshape(-1, 4)


def box(size: Sequence[float], bevel: float = 0.006) -> Shape:
    """A box with chamfered edges: real edges catch the light, and perfectly sharp ones look like cardboard."""
    half = np.asarray(size, dtype=float) / 2
    bevel = min(bevel, 0.45 * half.min() * 2)
    signs = np.array([[i & 1, i >> 1 & 1, i >> 2] for i in range(8)]) * 2 - 1
    inner = half - bevel
    vertices = np.empty((24, 3))
    for corner, sign in enumerate(signs):
        for axis in range(3):
            point = inner * sign
            point[axis] = half[axis] * sign[axis]
            vertices[corner * 3 + axis] = point

    def corner(*sign: int) -> int:
        return sum((s > 0) << i for i, s in enumerate(sign))

    quads, triangles = [], []
    for a in range(3):
        b, c = (a + 1) % 3, (a + 2) % 3
        for s in (-1, 1):
            ring = []
            for t, u in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                sign = [0, 0, 0]
                sign[a], sign[b], sign[c] = s, t, u
                ring.append(corner(*sign) * 3 + a)
            quads.append(ring)
            for t in (-1, 1):
                ends = []
                for u in (-1, 1):
                    sign = [0, 0, 0]
                    sign[a], sign[b], sign[c] = s, t, u
                    ends.append(corner(*sign) * 3)
                quads.append([ends[0] + a, ends[1] + a, ends[1] + b, ends[0] + b])
    triangles = [[i * 3, i * 3 + 1, i * 3 + 2] for i in range(8)]
    faces = [outward(vertices, np.array(quads)), outward(vertices, np.array(triangles))]
    vertices[:, 2] += half[2]
    return vertices, faces


def outward(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Turns the faces of a convex shape about the origin so that all of them look outwards."""
    corners = vertices[faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ij,ij->i", normal, corners.mean(axis=1)) < 0
    faces = faces.copy()
    faces[inward] = faces[inward][:, ::-1]
    return faces


def cushion(size: Sequence[float], radius: float, puff: float = 0.0, steps: int = 7) -> Shape:
    """A box with round edges and, with `puff`, bulging faces: upholstery and pillows."""
    half = np.asarray(size, dtype=float) / 2
    radius = min(radius, half.min())
    line = np.linspace(-1, 1, steps)
    u, v = np.meshgrid(line, line)
    vertices, faces = [], []
    for axis in range(3):
        for sign in (-1, 1):
            side = np.empty((steps * steps, 3))
            side[:, axis] = sign
            side[:, (axis + 1) % 3], side[:, (axis + 2) % 3] = u.ravel(), v.ravel()
            quads = lattice(steps, steps) + len(vertices) * steps * steps
            faces.append(quads if sign > 0 else quads[:, ::-1])
            vertices.append(side)
    cube = np.concatenate(vertices)
    points = cube * half
    core = np.clip(points, -(half - radius), half - radius)
    offset = points - core
    length = np.linalg.norm(offset, axis=1, keepdims=True)
    points = core + offset / np.maximum(length, 1e-9) * np.minimum(length, radius)
    if puff:
        for axis in range(3):
            others = np.delete(cube, axis, axis=1)
            points[:, axis] += puff * half.min() * cube[:, axis] * np.prod(np.cos(others * np.pi / 2), axis=1)
    points[:, 2] += half[2]
    # The six sides must share the vertices along their seams, or the seams show as creases.
    _, first, merged = np.unique(np.round(points, 6), axis=0, return_index=True, return_inverse=True)
    return points[first], [merged.reshape(-1)[np.concatenate(faces)]]


def lathe(profile: Sequence[tuple[float, float]], segments: int = 28) -> Shape:
    """Turns a profile of (radius, height) pairs, given from the bottom up, about the z axis."""
    outline = np.asarray(profile, dtype=float)
    angle = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    vertices = np.empty((len(outline), segments, 3))
    vertices[:, :, :2] = outline[:, None, :1] * ring
    vertices[:, :, 2] = outline[:, 1:]
    return vertices.reshape(-1, 3), [lattice(len(outline), segments, closed=True)]


def cylinder(radius: float, height: float, segments: int = 24, bevel: float = 0.004, top: float | None = None) -> Shape:
    top = radius if top is None else top
    bevel = min(bevel, radius * 0.4, top * 0.4, height * 0.4)
    return lathe(
        [(0, 0), (radius - bevel, 0), (radius, bevel), (top, height - bevel), (top - bevel, height), (0, height)],
        segments,
    )


def sphere(radius: float, segments: int = 24, rings: int = 13) -> Shape:
    angle = np.linspace(-np.pi / 2, np.pi / 2, rings)
    return lathe([(radius * math.cos(a), radius + radius * math.sin(a)) for a in angle], segments)


def tube(
    path: Sequence[Sequence[float]], radius: float | Sequence[float], segments: int = 8, closed: bool = False
) -> Shape:
    """A pipe along a path: branches, handles, chair legs. `closed` joins its end to its start."""
    points = np.asarray(path, dtype=float)
    radii = np.broadcast_to(np.asarray(radius, dtype=float), len(points))
    tangent = np.roll(points, -1, 0) - np.roll(points, 1, 0) if closed else np.gradient(points, axis=0)
    tangent /= np.maximum(np.linalg.norm(tangent, axis=1, keepdims=True), 1e-9)
    # The normal of the path's plane turns least along it; a straight path has none, so any perpendicular will do.
    normal = np.cross(tangent[:-1], tangent[1:]).sum(axis=0)
    if np.linalg.norm(normal) < 1e-4:
        normal = np.cross(tangent[0], np.eye(3)[np.argmin(np.abs(tangent[0]))])
    side = np.cross(tangent, normal)
    side /= np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-9)
    up = np.cross(side, tangent)
    angle = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    around = side[:, None] * np.cos(angle)[:, None] + up[:, None] * np.sin(angle)[:, None]
    vertices = (points[:, None] + around * radii[:, None, None]).reshape(-1, 3)
    if not closed:
        return vertices, [lattice(len(points), segments, closed=True)[:, ::-1]]
    rows = np.arange(len(points) + 1) % len(points)
    quads = lattice(len(points) + 1, segments, closed=True)[:, ::-1]
    return vertices, [rows[quads // segments] * segments + quads % segments]


def prism(outline: Sequence[Sequence[float]], height: float, bevel: float = 0.004) -> Shape:
    """Raises a flat outline, given anticlockwise and star-shaped about its middle, to a slab with a chamfered top edge."""
    edge = np.asarray(outline, dtype=float)
    middle = edge.mean(axis=0)
    out = edge - middle
    inset = middle + out * (1 - bevel / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), bevel * 2))
    count = len(edge)
    rings = [(edge, 0.0), (edge, height - bevel), (inset, height)]
    vertices = np.concatenate(
        [np.column_stack([ring, np.full(count, z)]) for ring, z in rings]
        + [np.append(middle, height)[None], np.append(middle, 0)[None]]
    )
    index = np.arange(count)
    following = np.roll(index, -1)
    top = np.column_stack([2 * count + index, 2 * count + following, np.full(count, 3 * count)])
    bottom = np.column_stack([following, index, np.full(count, 3 * count + 1)])
    return vertices, [lattice(3, count, closed=True), np.concatenate([top, bottom])]


def sheet(width: float, depth: float, columns: int, rows: int, height=None) -> Shape:
    """A grid in the x-y plane about the origin; `height` gives z from arrays of x and y."""
    x, y = np.meshgrid(np.linspace(-width / 2, width / 2, columns + 1), np.linspace(-depth / 2, depth / 2, rows + 1))
    z = np.zeros_like(x) if height is None else height(x, y)
    return np.stack([x, y, z], axis=-1).reshape(-1, 3), [lattice(rows + 1, columns + 1)]


def leaves(
    positions: np.ndarray, directions: np.ndarray, sizes: np.ndarray, rng: np.random.Generator, width: float = 0.55
) -> Shape:
    """One folded rhombus a leaf, pointing along its direction and rolled at random about it."""
    count = len(positions)
    forward = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-9)
    side = np.cross(forward, rng.normal(size=(count, 3)) * 0.6 + (0, 0, 1))
    side /= np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-9)
    up = np.cross(side, forward)
    length = sizes[:, None]
    middle = positions + forward * length * 0.45
    wing = side * length * width / 2
    fold = up * length * 0.12
    vertices = np.stack(
        [positions, middle + wing + fold, positions + forward * length - fold, middle - wing + fold], axis=1
    ).reshape(-1, 3)
    base = np.arange(count)[:, None] * 4
    return vertices, [np.concatenate([base + [0, 1, 2], base + [0, 2, 3]])]
