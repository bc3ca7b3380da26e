"""Puts the items on the environment's spots and works out in which direction the viewer sees each of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import bpy
import numpy as np

from . import belongings, displays, film, shapes
from .items import Item, Setting, Spot
from .model import Model
from .stage import EYE, Stage

STYLES = {"image": ("wall", "stand", "easel"), "video": ("screen", "easel")}
SMALLEST = 0.6
"""How far a belonging may be scaled down to fit a spot before another spot is tried."""
GAP = 0.4
"""Degrees that stay free between two items."""
RAYS = np.linspace(0.02, 0.98, 9)
"""Where the rays cross a picture that look for what stands before it, as shares of its width and of its height."""
BEFORE = 0.012
"""Metres before a picture within which nothing but its own frame is."""


@dataclass(frozen=True)
class Hotspot:
    kind: str
    index: int
    label: str
    shown_as: str
    yaw: float
    pitch: float
    width: float
    height: float
    corners: list[tuple[float, float]] | None = None
    """Yaw and pitch of its picture's corners, from the upper left one clockwise, if all of it is to be seen."""

    def overlaps(self, other: Hotspot) -> bool:
        sideways = abs((self.yaw - other.yaw + 180) % 360 - 180)
        return (
            sideways < (self.width + other.width) / 2 + GAP
            and abs(self.pitch - other.pitch) < (self.height + other.height) / 2 + GAP
        )


def seen(corners: np.ndarray) -> tuple[float, float, float, float]:
    """Yaw and pitch of the middle, and width and height, of points as seen from the eye; in degrees, as Pannellum takes them."""
    rays = corners - EYE
    centre = rays.mean(axis=0)
    middle = np.degrees(np.arctan2(centre[0], centre[1]))
    yaw = (np.degrees(np.arctan2(rays[:, 0], rays[:, 1])) - middle + 180) % 360 - 180
    pitch = np.degrees(np.arctan2(rays[:, 2], np.hypot(rays[:, 0], rays[:, 1])))
    centre_yaw = (middle + (yaw.min() + yaw.max()) / 2 + 180) % 360 - 180
    return centre_yaw, (pitch.min() + pitch.max()) / 2, yaw.max() - yaw.min(), pitch.max() - pitch.min()


def directions(points: np.ndarray) -> list[tuple[float, float]]:
    """Yaw and pitch of each point as seen from the eye."""
    x, y, z = (points - EYE).T
    yaw, pitch = np.degrees(np.arctan2(x, y)), np.degrees(np.arctan2(z, np.hypot(x, y)))
    return [(round(float(a), 3), round(float(b), 3)) for a, b in zip(yaw, pitch)]


def is_clear(corners: np.ndarray) -> bool:
    """Whether nothing stands between the eye and a picture, as far as a grid of rays can tell."""
    graph = bpy.context.evaluated_depsgraph_get()
    upper_left, upper_right, lower_right, lower_left = corners
    for across, down in itertools.product(RAYS, RAYS):
        upper, lower = (
            upper_left + across * (upper_right - upper_left),
            lower_left + across * (lower_right - lower_left),
        )
        ray = upper + down * (lower - upper) - EYE
        reach = float(np.linalg.norm(ray))
        if bpy.context.scene.ray_cast(graph, EYE, (ray / reach).tolist(), distance=reach - BEFORE)[0]:
            return False
    return True


class Placement:
    def __init__(self, stage: Stage, setting: Setting, scratch: Path) -> None:
        self.stage, self.setting, self.scratch = stage, setting, scratch
        self.kit = belongings.Kit(stage.random, stage.numbers, setting.palette)
        self.free = list(setting.spots)
        self.hotspots: list[Hotspot] = []
        self.pictures: dict[tuple[str, int], np.ndarray] = {}
        """The corners of each item's picture."""
        self.unplaced: list[tuple[int, Item]] = []

    def place_all(self, items: list[Item]) -> None:
        counted: dict[str, itertools.count] = {}
        numbered = [(next(counted.setdefault(item.kind, itertools.count())), item) for item in items]
        # The first image gets the best spot. Then come the kinds that have the fewest spots.
        order = {"video": 1, "belonging": 2, "image": 3}
        for index, item in sorted(
            numbered, key=lambda entry: 0 if (entry[0], entry[1].kind) == (0, "image") else order[entry[1].kind]
        ):
            put = self.belonging if item.kind == "belonging" else self.picture
            while not (placed := put(index, item)) and item.kind == "belonging" and self.setting.extras:
                self.free += self.setting.extras.pop(0)()
            if not placed:
                self.unplaced.append((index, item))

    def dress(self) -> None:
        """Puts a few ordinary things on tables that stayed empty, so that a scene without belongings looks lived in."""
        known = {found.name: found for found in belongings.KNOWN}
        owned = {spot.shown_as for spot in self.hotspots}
        placed = list(self.hotspots)
        for name in [name for name in ("flowers", "fruit bowl", "cup", "books") if name not in owned][:3]:
            model = known[name].make(self.kit)
            for spot in [spot for spot in self.free if spot.style == "surface"]:
                if self.stand(0, Item("belonging", ""), spot, model, name):
                    break
        self.hotspots = placed
        for spot, make in self.setting.fillers:
            if spot in self.free:
                self.stage.add("filler", make(), spot.at, (0, 0, spot.turn))
        for finish in self.setting.later:
            finish(self.free)

    def find_pictures(self) -> None:
        """Works out where the pictures are to be seen, once all else stands. One that is covered in part has no corners:
        the viewer would draw it over what stands before it."""
        shown = [(spot, self.pictures.get((spot.kind, spot.index))) for spot in self.hotspots]
        self.hotspots = [
            replace(spot, corners=directions(corners)) if corners is not None and is_clear(corners) else spot
            for spot, corners in shown
        ]

    def picture(self, index: int, item: Item) -> bool:
        assert item.file is not None
        if item.kind == "video":
            item = replace(item, file=film.frame(item.file, self.scratch))
        for spot in [spot for spot in self.free if spot.style in STYLES[item.kind]]:
            model = self.display(item, spot)
            low, high = model.bounds()
            # A hanging picture's spot is its middle.
            lift = -(high[2] - low[2]) / 2 if spot.style == "wall" else 0.0
            # On an easel only the picture is the item, not the legs.
            part = displays.framed(item.file, *spot.room, self.setting.frame) if spot.style == "easel" else model
            raised = displays.LEDGE if spot.style == "easel" else 0.0
            if self.stand(index, item, spot, model, spot.style, lift, focus=part, focus_lift=raised):
                return True
        return False

    def display(self, item: Item, spot: Spot) -> Model:
        wood = self.setting.frame
        if spot.style == "screen":
            return displays.television(item.file, spot.room[0])
        show = {"wall": displays.framed, "stand": displays.standing, "easel": displays.easel}[spot.style]
        return show(item.file, *spot.room, wood)

    def belonging(self, index: int, item: Item) -> bool:
        if found := belongings.find(item.label):
            model = found.make(self.kit)
            for spot in [spot for spot in self.free if spot.style == found.stands]:
                if self.stand(index, item, spot, model, found.name):
                    return True
        for spot in [spot for spot in self.free if spot.style == "surface"]:
            model = displays.card(item.label, item.file, self.scratch)
            if self.stand(index, item, spot, model, "card"):
                return True
        return False

    def stand(
        self,
        index: int,
        item: Item,
        spot: Spot,
        model: Model,
        shown_as: str,
        lift: float = 0.0,
        focus: Model | None = None,
        focus_lift: float = 0.0,
    ) -> bool:
        """Puts a model on a spot, scaled down if necessary, unless it would overlap another item."""
        low, high = model.bounds()
        size = high - low
        scale = 1.0 if focus not in (None, model) else min(1.0, spot.room[0] / size[0], spot.room[1] / size[2])
        if scale < SMALLEST:
            return False
        where = shapes.matrix((spot.at[0], spot.at[1], spot.at[2] + lift * scale), (0, 0, spot.turn), scale)
        low, high = (focus or model).bounds()
        corners = np.array(list(itertools.product(*zip(low, high)))) + (0, 0, focus_lift)
        yaw, pitch, width, height = seen(shapes.transform(corners, where))
        hotspot = Hotspot(
            item.kind, index, item.label, shown_as, round(yaw, 2), round(pitch, 2), round(width, 2), round(height, 2)
        )
        if any(hotspot.overlaps(other) for other in self.hotspots):
            return False
        self.stage.place(f"{item.kind} {index}", model.to_mesh(shown_as), where)
        self.hotspots.append(hotspot)
        if (shown := model.attached()) is not None:
            self.pictures[item.kind, index] = shapes.transform(shown, where)
        self.free.remove(spot)
        return True
