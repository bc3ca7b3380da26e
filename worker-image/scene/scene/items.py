"""What a person brought into the scene, and the spots that an environment offers for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import bpy

from .model import Model

Kind = Literal["image", "video", "belonging"]
Style = Literal["wall", "stand", "easel", "screen", "surface", "floor", "hook"]
"""wall, stand, easel: how a picture is shown. screen: a television. surface, floor, hook: where a belonging stands or hangs."""


@dataclass(frozen=True)
class Item:
    kind: Kind
    label: str
    file: Path | None = None


@dataclass(frozen=True)
class Spot:
    style: Style
    at: tuple[float, float, float]
    """For a wall or a hook the middle of what hangs there, otherwise the point that it stands on."""
    turn: float
    """Rotation about z in degrees; at 0 the item faces -y."""
    room: tuple[float, float] = (0.4, 0.4)
    """The greatest width and height."""


@dataclass
class Setting:
    """What an environment hands back once it is built."""

    spots: list[Spot] = field(default_factory=list)
    fillers: list[tuple[Spot, Callable[[], Model]]] = field(default_factory=list)
    """What stands on a spot that no item took."""
    later: list[Callable[[list[Spot]], None]] = field(default_factory=list)
    """Each is called with the spots that no item took."""
    extras: list[Callable[[], list[Spot]]] = field(default_factory=list)
    """Each builds something more for belongings to stand on, once the spots are taken."""
    frame: bpy.types.Material | None = None
    """What picture frames and easels are made of."""
    palette: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bounces: int = 3
    exposure: float = 0.0
    look: str = "AgX - Medium High Contrast"
    north: float = 0.0
    """Compass heading of +y, chosen so that the sun stands in a plausible direction."""


def polar(yaw: float, distance: float) -> tuple[float, float]:
    """The x and y of a direction (0 is +y, growing to the right) and a distance."""
    return distance * math.sin(math.radians(yaw)), distance * math.cos(math.radians(yaw))


def facing(x: float, y: float) -> float:
    """The turn that makes something at x, y face the viewer."""
    return -math.degrees(math.atan2(x, y))


def around(style: Style, yaw: float, distance: float, height: float, room: tuple[float, float] = (0.4, 0.4)) -> Spot:
    """A spot given as the viewer sees it, facing them."""
    x, y = polar(yaw, distance)
    return Spot(style, (x, y, height), facing(x, y), room)


def row(
    style: Style,
    middle: tuple[float, float, float],
    turn: float,
    offsets: Sequence[float],
    room: tuple[float, float],
    inwards: float = 0.0,
) -> list[Spot]:
    """Spots along a turned table or wall, best first. `inwards` turns the outer ones to the middle, in degrees per metre."""
    x, y, z = middle
    a = math.radians(turn)
    return [
        Spot(style, (x + offset * math.cos(a), y + offset * math.sin(a), z), turn - offset * inwards, room)
        for offset in offsets
    ]
