"""The stage: the Blender scene that a world is built on, and the items whose directions the viewer needs."""

from __future__ import annotations

import random
from dataclasses import dataclass

import bpy
import numpy as np
from mathutils import Matrix

from . import shapes
from .model import Model, Vector

EYE = (0.0, 0.0, 1.15)
"""Where the viewer's eyes are: on the floor's origin, at the height of someone who sits."""


@dataclass
class Stage:
    random: random.Random
    numbers: np.random.Generator

    @classmethod
    def empty(cls, seed: str) -> Stage:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        source = random.Random(seed)
        return cls(source, np.random.default_rng(source.getrandbits(64)))

    def add(
        self, name: str, model: Model, at: Vector = (0, 0, 0), turn: Vector = (0, 0, 0), scale: float | Vector = 1
    ) -> bpy.types.Object:
        return self.place(name, model.to_mesh(name), shapes.matrix(at, turn, scale))

    def place(self, name: str, data: bpy.types.ID, where: np.ndarray) -> bpy.types.Object:
        """Puts one more instance of a mesh (or lamp, or text) on the stage. Instances share their geometry in memory."""
        thing = bpy.data.objects.new(name, data)
        thing.matrix_world = Matrix(where.tolist())
        bpy.context.scene.collection.objects.link(thing)
        return thing
