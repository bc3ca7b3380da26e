"""A model: shapes with materials, collected as arrays and turned into a Blender mesh once, at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import bpy
import numpy as np

from . import shapes

Vector = Sequence[float]


@dataclass
class Part:
    vertices: np.ndarray
    faces: shapes.Faces
    material: bpy.types.Material
    smooth: bool
    uv: np.ndarray | None = None
    attached: bool = False
    """Whether it shows an attached picture, with the corners in the order of `Model.picture`."""


@dataclass
class Model:
    parts: list[Part] = field(default_factory=list)

    def add(
        self,
        shape: shapes.Shape,
        material: bpy.types.Material,
        at: Vector = (0, 0, 0),
        turn: Vector = (0, 0, 0),
        scale: float | Vector = 1,
        smooth: bool = True,
        uv: np.ndarray | None = None,
    ) -> Model:
        vertices, faces = shape
        self.parts.append(Part(shapes.transform(vertices, shapes.matrix(at, turn, scale)), faces, material, smooth, uv))
        return self

    def box(
        self,
        size: Vector,
        material: bpy.types.Material,
        at: Vector = (0, 0, 0),
        turn: Vector = (0, 0, 0),
        bevel: float = 0.006,
    ) -> Model:
        return self.add(shapes.box(size, bevel), material, at, turn, smooth=False)

    def beam(self, start: Vector, end: Vector, width: float, thickness: float, material: bpy.types.Material) -> Model:
        """A bar of rectangular section between two points; its width lies as level as it can."""
        start, end = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
        along = end - start
        length = np.linalg.norm(along)
        along /= length
        across = np.cross(along, (0, 0, 1)) if abs(along[2]) < 0.99 else np.array([1.0, 0, 0])
        across /= np.linalg.norm(across)
        vertices, faces = shapes.box((width, thickness, length), min(width, thickness) * 0.15)
        vertices = start + vertices @ np.stack([across, np.cross(along, across), along])
        self.parts.append(Part(vertices, faces, material, False))
        return self

    def picture(
        self,
        width: float,
        height: float,
        material: bpy.types.Material,
        at: Vector = (0, 0, 0),
        turn: Vector = (0, 0, 0),
        attached: bool = False,
    ) -> Model:
        """An upright rectangle in the x-z plane that shows a whole image to whoever looks along +y."""
        w = width / 2
        corners = np.array([[-w, 0, 0], [w, 0, 0], [w, 0, height], [-w, 0, height]])
        uv = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=float)
        self.add((corners, [np.array([[0, 1, 2, 3]])]), material, at, turn, smooth=False, uv=uv)
        self.parts[-1].attached = attached
        return self

    def merge(self, other: Model, at: Vector = (0, 0, 0), turn: Vector = (0, 0, 0), scale: float | Vector = 1) -> Model:
        by = shapes.matrix(at, turn, scale)
        for part in other.parts:
            self.parts.append(
                Part(
                    shapes.transform(part.vertices, by), part.faces, part.material, part.smooth, part.uv, part.attached
                )
            )
        return self

    def attached(self) -> np.ndarray | None:
        """The corners of the attached picture that it shows, from the upper left one clockwise."""
        shown = next((part.vertices for part in self.parts if part.attached), None)
        return None if shown is None else shown[[3, 2, 1, 0]]

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        lows = [part.vertices.min(axis=0) for part in self.parts]
        highs = [part.vertices.max(axis=0) for part in self.parts]
        return np.min(lows, axis=0), np.max(highs, axis=0)

    def to_mesh(self, name: str) -> bpy.types.Mesh:
        mesh = bpy.data.meshes.new(name)
        materials = list({part.material.name: part.material for part in self.parts}.values())
        for material in materials:
            mesh.materials.append(material)
        slots = {material.name: slot for slot, material in enumerate(materials)}

        loops, sizes, slot_of, smooth = [], [], [], []
        base = 0
        for part in self.parts:
            for group in part.faces:
                loops.append((group + base).ravel())
                sizes.append(np.full(len(group), group.shape[1]))
                slot_of.append(np.full(len(group), slots[part.material.name]))
                smooth.append(np.full(len(group), part.smooth))
            base += len(part.vertices)
        vertices, corners, counts = (
            np.concatenate([p.vertices for p in self.parts]),
            np.concatenate(loops),
            np.concatenate(sizes),
        )

        mesh.vertices.add(len(vertices))
        mesh.vertices.foreach_set("co", vertices.astype(np.float32).ravel())
        mesh.loops.add(len(corners))
        mesh.loops.foreach_set("vertex_index", corners.astype(np.int32))
        mesh.polygons.add(len(counts))
        mesh.polygons.foreach_set("loop_start", np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32))
        mesh.polygons.foreach_set("material_index", np.concatenate(slot_of).astype(np.int32))
        mesh.polygons.foreach_set("use_smooth", np.concatenate(smooth))
        if any(part.uv is not None for part in self.parts):
            uv = np.concatenate([np.zeros((len(p.vertices), 2)) if p.uv is None else p.uv for p in self.parts])
            mesh.uv_layers.new(name="uv").data.foreach_set("uv", uv[corners].astype(np.float32).ravel())
        mesh.update(calc_edges=True)
        if len(counts) < 30_000:
            mesh.set_sharp_from_angle(angle=np.radians(42))
        return mesh
