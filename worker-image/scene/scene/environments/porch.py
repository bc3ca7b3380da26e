"""A veranda: boards underfoot, a white railing, a rocking chair, flowers in pots, and a view over meadow, water and hills."""

from __future__ import annotations

import math
from functools import partial

from .. import flowers, furniture, light, materials, rooms, shapes, terrain, trees
from ..items import Setting, Spot, around, facing, polar, row
from ..model import Model
from ..stage import Stage

HALF, FRONT, BACK, HEIGHT = 3.7, 2.5, -1.9, 2.75
"""Half the width, the railing's and the house's y, and the height of the ceiling."""
DROP = 0.65
"""How far the meadow lies below the boards."""

# The house's boards, its woodwork, the deck (light, dark), cushions, the door.
SCHEMES = (
    ("#86a39a", "#f7f5ee", ("#a0764c", "#74502f"), "#c8664a", "#7f3f34"),
    ("#7d9bb5", "#f7f5ef", ("#a87f56", "#7c5836"), "#d9a441", "#b5763a"),
    ("#a3ab7c", "#f6f3e8", ("#96683f", "#6b4526"), "#b4553f", "#3f5f7a"),
    ("#d9b273", "#f8f5ec", ("#8f6b4a", "#66482e"), "#4f76a0", "#3f6b66"),
    ("#b0685a", "#f7f2ea", ("#9c7450", "#6f4f33"), "#5f8c86", "#dcd3bf"),
)


def build(stage: Stage) -> Setting:
    chance = stage.random
    mirror = chance.choice((-1, 1))
    boards, white, deck, cloth, door = chance.choice(SCHEMES)
    wood = materials.wood(*chance.choice((("#b58a5c", "#8d6238"), ("#9a6a3e", "#6b4424"), ("#c7a878", "#a08050"))))
    paint = materials.paint(white, 0.5)
    setting = Setting(palette=chance.choice(flowers.PALETTES), bounces=4, exposure=0.6, frame=wood)
    azimuth, elevation = mirror * chance.uniform(48, 72), chance.uniform(24, 34)
    light.sky(stage, azimuth, elevation, cover=chance.uniform(0.35, 0.7), warmth=0.45)
    light.sun(stage, azimuth, elevation, 4.6, chance.choice(("#ffd8a0", "#ffe0b4", "#ffcf96")))
    setting.north = (chance.choice((120, 240)) - azimuth) % 360

    # Stands in for the light that the surroundings reflect under the roof.
    light.window_light(stage, "porch light", (0, BACK + 0.3, 1.5), (115, 0, 0), 6.0, 1.6, 46, "#fff4e6")
    # And for the open sky, which lights the house and, from below, the ceiling.
    light.window_light(stage, "house light", (0, FRONT + 0.3, 1.7), (-82, 0, 0), 7.0, 1.8, 46, "#eef3ff")
    light.window_light(stage, "ceiling light", (0, 0.3, 1.0), (180, 0, 0), 6.5, 3.8, 15, "#e2ebff")
    view(stage, mirror)
    building(stage, mirror, materials.paint(boards, 0.6), paint, deck, door)
    furnish(stage, setting, mirror, wood, materials.fabric(cloth))
    pots(stage, setting, mirror)
    return setting


def view(stage: Stage, mirror: int) -> None:
    chance, numbers = stage.random, stage.numbers
    dry, lush = chance.choice((("#a3a552", "#6f8a3a"), ("#98a850", "#628436"), ("#b5a95c", "#7f8f42")))
    low = -DROP
    stage.add("meadow", Model().add(shapes.sheet(500, 500, 4, 4), materials.lawn(dry, lush)), (0, 0, low))
    lake_yaw = -mirror * chance.uniform(5, 22)
    x, y = polar(lake_yaw, 42)
    water = materials.paint("#7fa3b8", 0.06)
    stage.add(
        "lake",
        Model().add(shapes.cylinder(1, 0.02, 64, 0.001), water),
        (x, y, low + 0.02),
        (0, 0, -lake_yaw),
        (30, 15, 1),
    )
    terrain.hills(stage)

    def open_ground(points):
        return ((abs(points[:, 0]) > HALF + 0.4) | (points[:, 1] > FRONT + 0.5)) & (
            ((points[:, 0] - x) / 31) ** 2 + ((points[:, 1] - y) / 16) ** 2 > 1
        )

    blades = terrain.grass(numbers, open_ground, 34, 420, 0.16, materials.grass_blades(dry, lush), full=6.0)
    stage.add("grass", blades, (0, 0, low))
    palette = chance.choice(flowers.PALETTES)
    wild = [
        flowers.daisy(numbers, palette["second"], height=0.42).to_mesh("wild daisy"),
        flowers.spike(numbers, palette["spikes"], 0.5, 8).to_mesh("wild spike"),
        flowers.daisy(numbers, palette["petals"], height=0.36).to_mesh("wild poppy"),
    ]
    for _ in range(230):
        px, py = polar(chance.uniform(-100, 100), 3.4 + 16 * chance.random() ** 1.6)
        if abs(px) > HALF + 0.5 or py > FRONT + 0.6:
            stage.place(
                "wild flower",
                wild[int((math.sin(px) + math.cos(py * 0.7) + 2) * 0.74) % 3],
                shapes.matrix((px, py, low), (0, 0, chance.uniform(0, 360)), chance.uniform(0.8, 1.4)),
            )
    meshes = terrain.tree_meshes(stage, chance.sample(["oak", "maple", "birch", "apple", "poplar", "fir"], 4))
    for i, (yaw, distance) in enumerate(((-46, 11), (34, 13), (62, 10), (-78, 12), (96, 12), (-104, 13))):
        px, py = polar(mirror * yaw + chance.uniform(-6, 6), distance + chance.uniform(-1, 2))
        stage.place(
            f"tree {i}",
            meshes[i % 4],
            shapes.matrix((px, py, low), (0, 0, chance.uniform(0, 360)), chance.uniform(1.0, 1.3)),
        )
    terrain.woods(
        stage,
        meshes,
        90,
        22,
        95,
        lambda px, py: (
            py > -5
            and ((px - x) / 33) ** 2 + ((py - y) / 18) ** 2 > 1
            and (abs(math.degrees(math.atan2(px, py)) - lake_yaw) > 24 or py > 62)
        ),
    )


def building(stage: Stage, mirror: int, boards, paint, deck: tuple[str, str], door: str) -> None:
    width = HALF * 2
    stage.add(
        "deck",
        Model().box(
            (width + 0.3, FRONT - BACK + 0.3, 0.06), materials.planks(*deck, 0.13, 2.6, 0.6, along="x"), bevel=0.001
        ),
        (0, (FRONT + BACK) / 2, -0.06),
    )
    stage.add("apron", Model().box((width + 0.26, 0.04, DROP), paint), (0, FRONT + 0.12, -DROP - 0.04))
    # Boards as long as the porch: a joint above one's head would look like a seam.
    ceiling = materials.planks("#cfe4e6", "#bdd6da", 0.09, 40.0, 0.7, along="x")
    stage.add(
        "ceiling",
        Model().box((width + 0.9, FRONT - BACK + 0.9, 0.05), ceiling, bevel=0.001),
        (0, (FRONT + BACK) / 2 + 0.2, HEIGHT),
    )
    stage.add("beam", Model().box((width + 0.2, 0.18, 0.22), paint), (0, FRONT, HEIGHT - 0.22))
    for side in (-1, 1):
        stage.add(
            f"side beam {side}",
            Model().box((0.18, FRONT - BACK, 0.22), paint),
            (side * HALF, (FRONT + BACK) / 2, HEIGHT - 0.22),
        )
    posts = (-HALF, -HALF * 0.36, HALF * 0.36, HALF)
    for i, x in enumerate(posts):
        stage.add(f"post {i}", rooms.post(paint, HEIGHT - 0.2), (x, FRONT, 0))
    for i, (a, b) in enumerate(zip(posts, posts[1:])):
        if i != 1:
            stage.add(f"railing {i}", rooms.railing(b - a - 0.15, paint), ((a + b) / 2, FRONT, 0))
    stage.add("railing 1", rooms.railing(posts[2] - posts[1] - 0.15, paint), (0, FRONT, 0))
    stage.add(
        "side railing", rooms.railing(FRONT - BACK - 0.2, paint), (-mirror * HALF, (FRONT + BACK) / 2, 0), (0, 0, 90)
    )

    window, entrance = (
        (mirror * 1.2 - 0.55, mirror * 1.2 + 0.55, 0.85, 2.1),
        (-mirror * 1.3 - 0.5, -mirror * 1.3 + 0.5, 0, 2.15),
    )
    # The wall's own x runs the other way, as it is turned to face the viewer.
    flipped = tuple((-b, -a, c, d) for a, b, c, d in (window, entrance))
    stage.add("house", rooms.siding(width, HEIGHT, boards, flipped), (0, BACK, 0), (0, 0, 180))
    stage.add(
        "house window", rooms.window(1.1, 1.25, paint, (2, 3), sill=False), (mirror * 1.2, BACK, 0.85), (0, 0, 180)
    )
    stage.add(
        "window glow", Model().box((2.0, 0.02, 2.2), materials.glow("#ffd9a0", 0.55)), (mirror * 1.2, BACK - 0.24, 0.4)
    )
    sheer = rooms.drape(0.5, 1.3, materials.curtain("#f6efe0", 0.6), 0.35, 5)
    for side in (-1, 1):
        hung = Model().merge(sheer, (-side * 0.58, 0, 0), scale=(side, 1, 1))
        stage.add(f"house curtain {side}", hung, (mirror * 1.2, BACK - 0.12, 0.83), (0, 0, 180))
    stage.add("house inside", Model().box((width, 0.02, HEIGHT), boards), (0, BACK - 0.28, 0))
    # Else the sky would shine in between the boards and what lies behind them.
    stage.add("house top", Model().box((width, 0.4, 0.03), boards), (0, BACK - 0.16, HEIGHT - 0.03))
    lantern(stage, (-mirror * 0.62, BACK + 0.03, 1.62))
    stage.add(
        "house door",
        rooms.door(
            materials.paint(door, 0.4),
            materials.paint("#c9a14e", 0.3, 0.9),
        ),
        (-mirror * 1.3, BACK, 0),
        (0, 0, 180),
    )
    stage.add(
        "side wall",
        rooms.siding(FRONT - BACK - 1.3, HEIGHT, boards),
        (mirror * HALF, (FRONT - 1.3 + BACK) / 2, 0),
        (0, 0, -mirror * 90),
    )
    stage.add("side railing 2", rooms.railing(1.15, paint), (mirror * HALF, FRONT - 0.65, 0), (0, 0, 90))
    stage.add("corner", Model().box((0.12, 0.12, HEIGHT), paint), (mirror * HALF, FRONT - 1.28, 0))
    # The boards' ends meet behind a post in the corner, and the house's other end has one too.
    stage.add("inner corner", Model().box((0.07, 0.07, HEIGHT), paint), (mirror * (HALF - 0.01), BACK + 0.01, 0))
    stage.add("outer corner", Model().box((0.1, 0.1, HEIGHT), paint), (-mirror * HALF, BACK, 0))


def lantern(stage: Stage, at: tuple[float, float, float]) -> None:
    """A lit lamp on the house's wall."""
    iron = materials.paint("#3f3b36", 0.4, 0.6)
    model = Model().box((0.1, 0.02, 0.22), iron, (0, 0, -0.02), bevel=0.006)
    model.add(shapes.tube([(0, 0.01, 0.14), (0, 0.09, 0.2), (0, 0.13, 0.16)], 0.009, 8), iron)
    model.add(shapes.lathe([(0.0, 0.17), (0.085, 0.1), (0.0, 0.1)], 6), iron, (0, 0.13, -0.02))
    model.add(shapes.cylinder(0.05, 0.14, 6, 0.004, 0.07), materials.glow("#ffdc9c", 2.2), (0, 0.13, -0.06))
    model.add(shapes.cylinder(0.058, 0.015, 6), iron, (0, 0.13, -0.075))
    stage.add("lantern", model, at)


def furnish(stage: Stage, setting: Setting, mirror: int, wood, cloth) -> None:
    chance = stage.random
    chair_x, chair_y = -mirror * 2.25, 1.05
    stage.add(
        "rocking chair",
        furniture.rocking_chair(wood, cloth),
        (chair_x, chair_y, 0),
        (0, 0, facing(chair_x, chair_y) + mirror * 12),
    )
    mat = materials.rug("#e4d8bf", chance.choice(("#5f7f6a", "#9c4f38", "#46688a")), "#cfae72", 2.6, 1.7)
    stage.add("mat", Model().box((2.6, 1.7, 0.012), mat, bevel=0.004), (0, 0.3, 0.001))
    for side in (-1, 1):
        x, y = polar(side * 34, 1.72)
        turn = facing(x, y)
        stage.add(f"table {side}", furniture.table(1.25, 0.46, 0.58, wood, shelf=True), (x, y, 0), (0, 0, turn))
        setting.spots += row("surface", (x, y, 0.58), turn, (0, -0.41, 0.41), (0.35, 0.4), inwards=10)
        setting.extras.append(partial(furniture.raised_row, stage, wood, (x, y, 0.58), turn, 1.15, 0.13))
    x, y = -mirror * 1.5, 0.2
    stage.add("stool", furniture.round_table(0.24, 0.5, wood), (x, y, 0))
    setting.spots.append(Spot("surface", (x, y, 0.5), facing(x, y), (0.34, 0.4)))
    stage.add("bench", furniture.garden_bench(wood, 1.3), (mirror * (HALF - 0.5), 0.0, 0), (0, 0, -mirror * 90))
    for offset in (-0.35, 0.35):
        setting.spots.append(Spot("surface", (mirror * (HALF - 0.5), offset, 0.455), -mirror * 90, (0.4, 0.4)))

    setting.spots += [around("easel", mirror * 8.6, 2.05, 0.0, (0.56, 0.52))]
    for offset in (0.35, -0.42):
        setting.spots.append(Spot("wall", (mirror * (HALF - 0.03), offset, 1.5), -mirror * 90, (0.66, 0.58)))
    setting.spots += [
        around("easel", mirror * 62, 2.35, 0.0, (0.56, 0.56)),
        around("easel", -mirror * 100, 2.3, 0.0, (0.56, 0.56)),
    ]
    for offset in (-0.1, -2.35, 2.35):
        setting.spots.append(Spot("wall", (mirror * offset, BACK + 0.03, 1.5), 180, (0.66, 0.58)))
    setting.spots.append(Spot("wall", (mirror * (HALF - 0.03), -1.2, 1.5), -mirror * 90, (0.66, 0.58)))
    # A second row, for who has many pictures.
    for offset in (-0.1, -2.35, 2.35):
        setting.spots.append(Spot("wall", (mirror * offset, BACK + 0.03, 2.1), 180, (0.6, 0.46)))
    for offset in (0.35, -0.42, -1.2):
        setting.spots.append(Spot("wall", (mirror * (HALF - 0.03), offset, 2.1), -mirror * 90, (0.6, 0.46)))
    setting.spots += [
        around("floor", -mirror * 7.6, 2.1, 0.0, (0.5, 1.2)),
        around("floor", 0, 1.05, 0.012, (0.75, 0.5)),
        around("floor", -mirror * 128, 2.2, 0.0, (0.8, 1.2)),
        Spot("floor", (mirror * 0.2, BACK + 0.35, 0), 180, (1.6, 1.3)),
    ]
    setting.spots.append(Spot("hook", (mirror * 0.42, BACK + 0.03, 1.7), 180, (0.34, 0.8)))


def pots(stage: Stage, setting: Setting, mirror: int) -> None:
    chance, numbers, palette = stage.random, stage.numbers, setting.palette
    earth = materials.ground("#6b5038", "#4f3a28", 30)
    plants = [
        flowers.geranium(numbers, palette["petals"], 0.32).to_mesh("potted geranium"),
        flowers.daisy(numbers, palette["second"], height=0.4, heads=12).to_mesh("potted daisy"),
        flowers.spike(numbers, palette["spikes"], 0.5).to_mesh("potted lavender"),
        flowers.fern(numbers, length=0.6).to_mesh("potted fern"),
        trees.bush(numbers, 0.24, 0.42, ("#4f7034", "#648642", "#7c9a52"), palette["bush"], 0.045, 40).to_mesh(
            "potted bush"
        ),
    ]
    clay = [materials.paint(c, 0.75) for c in ("#c77f55", "#b8704a", "#d39a6c", "#e8dfd0")]
    for i, x in enumerate((-3.35, -2.9, -1.65, -0.95, 1.05, 1.7, 2.85, 3.3)):
        radius = chance.uniform(0.15, 0.21)
        stage.add(
            f"pot {i}", furniture.plant_pot(radius, radius * 1.5, chance.choice(clay), earth), (x, FRONT - 0.3, 0)
        )
        stage.place(
            f"potted {i}",
            chance.choice(plants),
            shapes.matrix((x, FRONT - 0.3, radius * 1.35), (0, 0, chance.uniform(0, 360)), radius / 0.17),
        )
    for i, x in enumerate((-HALF * 0.68, HALF * 0.68)):
        hang = Model().add(
            shapes.lathe([(0, 0), (0.1, 0.02), (0.19, 0.12), (0.2, 0.17), (0.17, 0.16)], 28),
            materials.fabric("#9a7448", "#7a5732", 0.5),
        )
        for k in range(3):
            a = k * 2.094
            hang.add(
                shapes.tube([(0.19 * math.cos(a), 0.19 * math.sin(a), 0.16), (0, 0, 0.6)], 0.003, 4),
                materials.paint("#4b463f", 0.5),
            )
        stage.add(f"basket {i}", hang, (x, FRONT - 0.15, HEIGHT - 0.8))
        stage.place(
            f"basket plant {i}", plants[0], shapes.matrix((x, FRONT - 0.15, HEIGHT - 0.68), (0, 0, 40 * i), 1.15)
        )
