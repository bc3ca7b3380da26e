"""Light out of doors: a sky with drifting clouds, and a sun with a soft edge."""

from __future__ import annotations

import math

import bpy
import numpy as np

from . import shapes
from .shader import Shader, linear
from .stage import Stage


def towards(azimuth: float, elevation: float) -> np.ndarray:
    """The unit vector of a direction in degrees; an azimuth of 0 is +y and it grows to the right."""
    a, e = math.radians(azimuth), math.radians(elevation)
    return np.array([math.sin(a) * math.cos(e), math.cos(a) * math.cos(e), math.sin(e)])


def sun(
    stage: Stage, azimuth: float, elevation: float, strength: float, colour: str = "#ffe3bd", softness: float = 2.2
) -> None:
    lamp = bpy.data.lights.new("sun", "SUN")
    lamp.energy, lamp.angle = strength, math.radians(softness)
    lamp.color = linear(colour)[:3]
    # A lamp shines along its own -z.
    stage.place("sun", lamp, shapes.matrix(turn=(0, 90 - elevation, 90 - azimuth)))


def sky(
    stage: Stage, azimuth: float, elevation: float, strength: float = 0.2, cover: float = 0.5, warmth: float = 0.25
) -> None:
    """A physical clear sky with two layers of clouds. `cover` is the share of the sky behind clouds, `warmth` tints them."""
    world = bpy.data.worlds.new("sky")
    bpy.context.scene.world = world
    s = Shader(world)
    clear = s.node(
        "TexSky",
        sky_type="NISHITA",
        sun_disc=False,
        sun_elevation=math.radians(max(elevation, 18)),
        sun_rotation=math.radians(azimuth),
        air_density=1.0,
        dust_density=0.6,
        ozone_density=2.2,
    )

    direction = s.node("TexCoord").outputs["Generated"]
    parts = s.node("SeparateXYZ", {0: direction})
    up = s.math("MAXIMUM", parts.outputs[2], 0.0)
    # Clouds lie on a flat layer, so they grow small towards the horizon.
    far = s.math("DIVIDE", 1.0, s.math("ADD", up, 0.16))
    shift = stage.random.uniform(0, 50)
    plane = s.node(
        "CombineXYZ",
        {"X": s.math("MULTIPLY", parts.outputs[0], far), "Y": s.math("MULTIPLY", parts.outputs[1], far), "Z": shift},
    ).outputs[0]
    density = s.noise(plane, 0.62, 9, 0.56, 0.25)
    x, y, _ = towards(azimuth, 0)
    nearer_sun = s.node("VectorMath", {0: plane, 1: (x * 0.16, y * 0.16, 0)}).outputs[0]
    ahead = s.noise(nearer_sun, 0.62, 5, 0.56, 0.25)
    edge = 0.575 - 0.2 * cover
    heap = s.span(density, edge, edge + 0.11)
    heap = s.math("MULTIPLY", s.math("MULTIPLY", heap, heap), s.math("SUBTRACT", 3.0, s.math("MULTIPLY", heap, 2.0)))
    # A cloud is bright where there is less of it on the way to the sun.
    lit = s.span(s.math("SUBTRACT", density, ahead), -0.09, 0.1)
    cloud = s.mix(lit, "#c3c6d2", "#fffdf8")
    cloud = s.mix(warmth, cloud, s.mix(lit, "#d9c3b8", "#fff0d8"))
    wisps = s.node(
        "Mapping", {"Vector": plane, "Scale": (0.8, 1.3, 1), "Rotation": (0, 0, stage.random.uniform(0, 3))}
    ).outputs[0]
    veil = s.math("MULTIPLY", s.span(s.noise(wisps, 1.3, 6, 0.6, 0.8), 0.5, 0.85), 0.12)
    cover_all = s.math("MULTIPLY", s.math("MAXIMUM", heap, veil), s.span(up, 0.015, 0.17))

    base = s.node("Background", {"Color": s.mix(0.06, clear.outputs[0], (3, 2.6, 2.1)), "Strength": strength}).outputs[
        0
    ]
    clouds = s.node("Background", {"Color": cloud, "Strength": strength * 7.5}).outputs[0]
    both = s.mix_shaders(cover_all, base, clouds)
    # Clouds are costly to compute, and light from the sky is soft in any case: only the camera sees them.
    bright = s.mix(0.35 * cover, clear.outputs[0], (7, 6.9, 6.6))
    plain = s.node("Background", {"Color": bright, "Strength": strength}).outputs[0]
    both = s.mix_shaders(s.node("LightPath").outputs["Is Camera Ray"], plain, both)
    # Below the horizon lies bright haze: anything that looks past the last hill must not meet black.
    haze = s.node("Background", {"Color": "#d9dfe2", "Strength": strength * 4}).outputs[0]
    shader = s.mix_shaders(s.span(parts.outputs[2], -0.06, 0.035), haze, both)
    output = s.node("OutputWorld")
    s.tree.links.new(shader, output.inputs["Surface"])
    # The map by which light from the sky is sampled; its default is finer than soft light needs and slow to make.
    world.cycles.sampling_method = "MANUAL"
    world.cycles.sample_map_resolution = 256


def lamp(
    stage: Stage, name: str, at: tuple[float, float, float], watts: float, colour: str = "#ffd6a0", radius: float = 0.08
) -> None:
    bulb = bpy.data.lights.new(name, "POINT")
    bulb.energy, bulb.shadow_soft_size, bulb.color = watts, radius, linear(colour)[:3]
    stage.place(name, bulb, shapes.matrix(at))


def window_light(
    stage: Stage,
    name: str,
    at: tuple[float, float, float],
    turn: tuple[float, float, float],
    width: float,
    height: float,
    watts: float,
    colour: str = "#fff1dc",
) -> None:
    """Daylight that comes in through a window: a glowing rectangle outside it, which converges far sooner than the sky would."""
    panel = bpy.data.lights.new(name, "AREA")
    panel.shape, panel.size, panel.size_y, panel.energy, panel.color = (
        "RECTANGLE",
        width,
        height,
        watts,
        linear(colour)[:3],
    )
    thing = stage.place(name, panel, shapes.matrix(at, turn))
    thing.visible_camera = False
