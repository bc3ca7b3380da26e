"""A short way to write Blender's shader nodes: each call makes one node and returns its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bpy

Colour = Sequence[float]


def linear(text: str) -> tuple[float, float, float, float]:
    """A colour written as in a style sheet, `#c8a064`, in the linear values that the renderer computes with."""
    channels = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return red, green, blue, 1.0


class Shader:
    """The node tree of one material or of the world."""

    def __init__(self, owner: bpy.types.Material | bpy.types.World) -> None:
        owner.use_nodes = True
        self.owner = owner
        self.tree = owner.node_tree
        self.tree.nodes.clear()

    def node(self, kind: str, inputs: dict[str | int, Any] | None = None, **settings: Any) -> bpy.types.Node:
        node = self.tree.nodes.new("ShaderNode" + kind)
        for name, value in settings.items():
            setattr(node, name, value)
        for name, value in (inputs or {}).items():
            self.set(node.inputs[name], value)
        return node

    def set(self, socket: bpy.types.NodeSocket, value: Any) -> None:
        if isinstance(value, bpy.types.NodeSocket):
            self.tree.links.new(value, socket)
        elif isinstance(value, str):
            socket.default_value = linear(value)
        elif socket.type == "RGBA" and len(value) == 3:
            socket.default_value = (*value, 1)
        else:
            socket.default_value = value

    def coordinates(
        self, space: str = "Object", scale: Sequence[float] | float = 1, offset: Sequence[float] = (0, 0, 0)
    ) -> bpy.types.NodeSocket:
        scale = (scale,) * 3 if isinstance(scale, (int, float)) else scale
        if space == "World":
            source = self.node("NewGeometry").outputs["Position"]
        else:
            source = self.node("TexCoord").outputs[space]
        return self.node("Mapping", {"Vector": source, "Scale": scale, "Location": offset}).outputs["Vector"]

    def noise(
        self, vector: Any, scale: float, detail: float = 2, roughness: float = 0.5, distortion: float = 0
    ) -> bpy.types.NodeSocket:
        return self.node(
            "TexNoise",
            {"Vector": vector, "Scale": scale, "Detail": detail, "Roughness": roughness, "Distortion": distortion},
        ).outputs["Fac"]

    def ramp(self, factor: Any, stops: Sequence[tuple[float, str]]) -> bpy.types.NodeSocket:
        node = self.node("ValToRGB", {"Fac": factor})
        elements = node.color_ramp.elements
        while len(elements) < len(stops):
            elements.new(0.5)
        for element, (position, colour) in zip(elements, stops):
            element.position, element.color = position, linear(colour)
        return node.outputs["Color"]

    def span(self, value: Any, low: float, high: float, to_low: float = 0, to_high: float = 1) -> bpy.types.NodeSocket:
        """Maps low..high to to_low..to_high and holds the ends."""
        return self.node(
            "MapRange", {"Value": value, "From Min": low, "From Max": high, "To Min": to_low, "To Max": to_high}
        ).outputs["Result"]

    def math(self, operation: str, a: Any, b: Any = 0.0) -> bpy.types.NodeSocket:
        return self.node("Math", {0: a, 1: b}, operation=operation).outputs["Value"]

    def mix(self, factor: Any, a: Any, b: Any, blend: str = "MIX") -> bpy.types.NodeSocket:
        node = self.node("Mix", data_type="RGBA", blend_type=blend)
        # The Mix node keeps one set of sockets for each data type; these are the indices of the colour set.
        for index, value in ((0, factor), (6, a), (7, b)):
            self.set(node.inputs[index], value)
        return node.outputs[2]

    def bump(self, height: Any, strength: float = 0.3, distance: float = 0.01) -> bpy.types.NodeSocket:
        return self.node("Bump", {"Height": height, "Strength": strength, "Distance": distance}).outputs["Normal"]

    def principled(self, colour: Any, roughness: Any = 0.6, normal: Any = None, **inputs: Any) -> bpy.types.NodeSocket:
        values = {"Base Color": colour, "Roughness": roughness} | {
            name.replace("_", " "): value for name, value in inputs.items()
        }
        if normal is not None:
            values["Normal"] = normal
        return self.node("BsdfPrincipled", values).outputs["BSDF"]

    def mix_shaders(self, factor: Any, a: bpy.types.NodeSocket, b: bpy.types.NodeSocket) -> bpy.types.NodeSocket:
        return self.node("MixShader", {0: factor, 1: a, 2: b}).outputs["Shader"]

    def surface(self, shader: bpy.types.NodeSocket) -> None:
        output = self.node("OutputMaterial")
        self.tree.links.new(shader, output.inputs["Surface"])
