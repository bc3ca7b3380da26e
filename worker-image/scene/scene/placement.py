"""Puts the items on the environment's spots and works out in which direction the viewer sees each of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import belongings, displays, shapes
from .items import Item, Setting, Spot
from .model import Model
from .stage import EYE, Stage

STYLES = {"image": ("wall", "stand", "easel"), "video": ("screen", "easel")}
SMALLEST = 0.6
"""How far a belonging may be scaled down to fit a spot before another spot is tried."""
GAP = 0.4
"""Degrees that stay free between two items."""


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


class Placement:
    def __init__(self, stage: Stage, setting: Setting, scratch: Path) -> None:
        self.stage, self.setting, self.scratch = stage, setting, scratch
        self.kit = belongings.Kit(stage.random, stage.numbers, setting.palette)
        self.free = list(setting.spots)
        self.hotspots: list[Hotspot] = []
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

    def picture(self, index: int, item: Item) -> bool:
        assert item.file is not None
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
        self.free.remove(spot)
        return True
