"""A garden: paving under the viewer, lawn, beds in flower, a path to a bench, a hedge, and trees under a wide sky."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .. import climbers, flowers, furniture, light, materials, shapes, terrain, trees
from ..items import Setting, Spot, around, facing, polar, row
from ..model import Model
from ..stage import Stage

HEDGE_RADIUS = 9.6


def build(stage: Stage) -> Setting:
    chance = stage.random
    setting = Setting(palette=chance.choice(flowers.PALETTES), bounces=3, exposure=0.15)
    mirror = chance.choice((-1, 1))
    wood = materials.wood(*chance.choice((("#b58a5c", "#8d6238"), ("#a9794b", "#7d5330"), ("#c0a888", "#94795a"))))
    setting.frame = materials.wood(
        *chance.choice((("#8a5a33", "#5e3a1f"), ("#b98d58", "#8c6437"), ("#e9e0d0", "#d3c7b2")))
    )

    azimuth, elevation = mirror * chance.uniform(95, 140), chance.uniform(30, 44)
    warm = chance.choice(("#ffe0b4", "#ffe9cc", "#ffd9a0"))
    light.sky(stage, azimuth, elevation, 0.27, cover=chance.uniform(0.3, 0.7))
    light.sun(stage, azimuth, elevation, 4.2, warm)
    # In the morning the sun stands in the east.
    setting.north = (chance.choice((115, 235)) - azimuth) % 360

    bend = -mirror * chance.uniform(1.2, 2.0)
    path = make_path(bend)
    beds = make_beds(stage, mirror)
    lay_ground(stage, path, beds)
    plant_beds(stage, setting, beds)
    surround(stage, mirror, azimuth)
    furnish(stage, setting, wood, mirror, bend)
    return setting


def make_path(bend: float) -> terrain.Mask:
    def on_path(points: np.ndarray) -> np.ndarray:
        x, y = points[:, 0], points[:, 1]
        centre = bend * np.sin(np.clip(y - 1.2, 0, None) / 8 * math.pi) * 0.9
        return (np.hypot(x, y) < 1.75) | ((y > 0) & (y < HEDGE_RADIUS + 1) & (np.abs(x - centre) < 0.55))

    return on_path


Bed = tuple[float, float, float, float, float]
"""Middle x and y, the two half axes, and the turn of an ellipse in degrees."""


def make_beds(stage: Stage, mirror: int) -> list[Bed]:
    chance = stage.random
    beds: list[Bed] = [(mirror * -2.1, 4.3, 0.95, 1.5, 20 * mirror), (mirror * 3.3, 4.5, 1.0, 1.6, -24 * mirror)]
    for yaw in (62, 100, 142, 180, -142, -104, -66):
        x, y = polar(mirror * yaw + chance.uniform(-5, 5), HEDGE_RADIUS * 0.58 + chance.uniform(-0.8, 0.8))
        beds.append((x, y, chance.uniform(1.6, 2.3), chance.uniform(0.8, 1.2), facing(x, y)))
    return beds


def inside(bed: Bed, points: np.ndarray, grow: float = 0.0) -> np.ndarray:
    x, y, a, b, turn = bed
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    dx, dy = points[:, 0] - x, points[:, 1] - y
    return ((dx * c + dy * s) / (a + grow)) ** 2 + ((dy * c - dx * s) / (b + grow)) ** 2 < 1


def lay_ground(stage: Stage, path: terrain.Mask, beds: list[Bed]) -> None:
    chance, numbers = stage.random, stage.numbers
    dry, lush = chance.choice((("#8fa04a", "#5f7f2f"), ("#9aa653", "#6a8634"), ("#7f9a45", "#537a30")))
    flag = materials.stone(*chance.choice((("#cdc0a8", "#9f9079"), ("#c9c3b8", "#989287"), ("#d3b695", "#a78664"))))
    stage.add("lawn", Model().add(shapes.sheet(400, 400, 4, 4), materials.lawn(dry, lush)))
    stage.add("paving", terrain.paving(numbers, path, (-3, -3, 4, HEDGE_RADIUS + 2), 0.25, flag))
    joints = Model().add(shapes.cylinder(1.72, 0.012, 48), materials.ground("#b7a98a", "#93835f", 30))
    stage.add("joints", joints, at=(0, 0, 0))

    def grassy(points: np.ndarray) -> np.ndarray:
        kept = ~path(points)
        for bed in beds:
            kept &= ~inside(bed, points, 0.02)
        return kept

    stage.add("grass", terrain.grass(numbers, grassy, 26, 1100, 0.055, materials.grass_blades(dry, lush)))
    terrain.hills(stage)


def plant_beds(stage: Stage, setting: Setting, beds: list[Bed]) -> None:
    chance, numbers, palette = stage.random, stage.numbers, setting.palette
    # Beds of one hue look painted: what stands in a bed comes from more than one palette.
    others = [each for each in flowers.PALETTES if each is not palette]
    warm, cool = chance.sample(others, 2)
    low = [
        flowers.daisy(numbers, palette["second"], height=0.26).to_mesh("daisy"),
        flowers.geranium(numbers, palette["petals"]).to_mesh("geranium"),
        flowers.geranium(numbers, ("#fdf6ee", "#ffffff", "#f4ead8")).to_mesh("white geranium"),
        flowers.tulip(numbers, warm["petals"]).to_mesh("tulip"),
        flowers.daisy(numbers, ("#f7c948", "#f2b134", "#fbe08a"), height=0.24).to_mesh("marigold"),
        flowers.daisy(numbers, ("#6f8fe0", "#8aa5ea", "#5a78cf"), height=0.22, heads=12).to_mesh("blue daisy"),
    ]
    middle = [
        flowers.spike(numbers, palette["spikes"]).to_mesh("salvia"),
        flowers.spike(numbers, ("#fbf7ef", "#ffffff", "#efe6f4")).to_mesh("white salvia"),
        flowers.daisy(numbers, ("#fffdf6", "#fbf3e2"), height=0.5, heads=9).to_mesh("ox-eye daisy"),
        flowers.daisy(numbers, cool["petals"], height=0.48, heads=9).to_mesh("tall daisy"),
        flowers.fern(numbers).to_mesh("fern"),
    ]
    tall = [
        flowers.spike(numbers, palette["spikes"], 1.1, 9, 0.045).to_mesh("delphinium"),
        flowers.spike(numbers, palette["petals"], 1.2, 6, 0.07).to_mesh("hollyhock"),
        flowers.spike(numbers, ("#fff8ec", "#fdf0d4", "#ffffff"), 1.15, 7, 0.06).to_mesh("white hollyhock"),
        flowers.spike(numbers, cool["spikes"], 1.0, 9, 0.045).to_mesh("larkspur"),
    ]
    bushes = [
        trees.bush(numbers, 0.42, 0.75, ("#4f7034", "#648642", "#7c9a52"), palette["bush"]).to_mesh("bush"),
        trees.bush(numbers, 0.36, 0.6, ("#587a3a", "#6f9148"), palette["petals"], flowers=45).to_mesh("rose bush"),
    ]
    soil = materials.ground("#8a6b4c", "#6b5038", 22)
    edging = materials.stone("#c2b7a3", "#91866f")
    for number, bed in enumerate(beds):
        x, y, a, b, turn = bed
        mound = shapes.lathe([(1.02, -0.02), (1.0, 0.02), (0.9, 0.07), (0.5, 0.11), (0, 0.12)], 40)
        stage.add(f"soil {number}", Model().add(mound, soil), (x, y, 0), (0, 0, turn), (a, b, 1))
        stones = Model()
        for angle in np.arange(0, 2 * math.pi, 0.2 / ((a + b) / 2)):
            at = shapes.transform(
                np.array([[a * 1.02 * math.cos(angle), b * 1.02 * math.sin(angle), -0.03]]),
                shapes.matrix((x, y, 0), (0, 0, turn)),
            )[0]
            stones.add(
                shapes.cushion(
                    (chance.uniform(0.15, 0.22), chance.uniform(0.1, 0.14), chance.uniform(0.09, 0.13)), 0.05, 0.1, 5
                ),
                edging,
                at,
                (0, 0, chance.uniform(0, 360)),
            )
        stage.add(f"edging {number}", stones)
        drift = {"low": chance.sample(low, 3), "middle": chance.sample(middle, 3), "tall": chance.sample(tall, 3)}
        waves = chance.uniform(0, 6.28)
        for point in scatter(stage, bed, 0.21):
            # Low plants at the rim, tall ones within; the same kind keeps together.
            depth = 1 - math.hypot(point[0], point[1])
            band = "low" if depth < 0.3 else "middle" if depth < 0.62 else "tall"
            if band == "tall" and chance.random() < 0.4:
                mesh, size = chance.choice(bushes), chance.uniform(0.8, 1.1)
            else:
                place = math.sin(point[0] * 3.2 + waves) + math.cos(point[1] * 2.6 - waves) + chance.uniform(-0.5, 0.5)
                mesh, size = drift[band][int((place + 2.5) / 5 * 2.999)], chance.uniform(0.85, 1.25)
            where = shapes.matrix((x, y, 0.04 + 0.06 * depth), (0, 0, turn)) @ shapes.matrix(
                (point[0] * a, point[1] * b, 0), (0, 0, chance.uniform(0, 360)), size
            )
            stage.place(f"plant {number}", mesh, where)


def scatter(stage: Stage, bed: Bed, gap: float) -> list[tuple[float, float]]:
    """Points in the unit disc that, stretched to the bed, lie at least a gap apart."""
    a, b = bed[2], bed[3]
    points: list[tuple[float, float]] = []
    for _ in range(400):
        radius, angle = math.sqrt(stage.random.random()) * 0.93, stage.random.uniform(0, 6.283)
        u, v = radius * math.cos(angle), radius * math.sin(angle)
        if all(math.hypot((u - p) * a, (v - q) * b) > gap for p, q in points):
            points.append((u, v))
    return points


def surround(stage: Stage, mirror: int, sun: float) -> None:
    chance, numbers = stage.random, stage.numbers
    greens = (
        ("#54773a", "#678b44", "#7d9f4f", "#94b25c"),
        ("#4c6f3c", "#5f8548", "#749a55", "#89ab62"),
        ("#5f7d38", "#748f42", "#8ca34e", "#a3b65e"),
    )
    segment = [trees.hedge(numbers, 2.1, 0.9, 1.5, tones).to_mesh(f"hedge {i}") for i, tones in enumerate(greens)]
    gap = 14
    yaw = gap
    while yaw < 360 - gap + 1:
        x, y = polar(yaw, HEDGE_RADIUS)
        stage.place("hedge", chance.choice(segment), shapes.matrix((x, y, 0), (0, 0, -yaw)))
        yaw += math.degrees(2.0 / HEDGE_RADIUS)
    kinds = chance.sample(["oak", "maple", "birch", "apple", "poplar", "fir"], 5)
    if "apple" not in kinds:
        kinds[0] = "apple"
    meshes = terrain.tree_meshes(stage, kinds)
    near = [
        (-40, 7.4, "apple"),
        (46, 7.9, None),
        (82, 8.2, None),
        (122, 7.4, None),
        (160, 8.3, None),
        (-160, 7.8, "apple"),
        (-120, 8.2, None),
        (-82, 8.0, None),
    ]
    for i, (angle, distance, kind) in enumerate(near):
        if in_the_light(mirror * angle, sun):
            continue
        mesh = meshes[kinds.index("apple")] if kind else meshes[i % len(meshes)]
        x, y = polar(mirror * angle + chance.uniform(-6, 6), distance + chance.uniform(-0.4, 0.6))
        stage.place(
            f"tree {i}", mesh, shapes.matrix((x, y, -0.05), (0, 0, chance.uniform(0, 360)), chance.uniform(1.0, 1.3))
        )
    terrain.woods(
        stage,
        meshes,
        150,
        13,
        65,
        lambda x, y: (
            abs(x) > y * 0.22 and (math.hypot(x, y) > 24 or not in_the_light(math.degrees(math.atan2(x, y)), sun))
        ),
    )


def in_the_light(yaw: float, sun: float) -> bool:
    """Whether a tree in this direction would throw its shadow on the viewer."""
    return abs((yaw - sun + 180) % 360 - 180) < 30


def furnish(stage: Stage, setting: Setting, wood, mirror: int, bend: float) -> None:
    bench_x, bench_y = polar(mirror * -90, 3.1)
    stage.add("bench", furniture.garden_bench(wood), (bench_x, bench_y, 0), (0, 0, facing(bench_x, bench_y)))
    for side in (-1, 1):
        x, y = polar(side * 40, 1.62)
        turn = facing(x, y)
        stage.add(f"table {side}", furniture.table(1.3, 0.5, 0.66, wood, shelf=True), (x, y, 0.025), (0, 0, turn))
        setting.spots += row("surface", (x, y, 0.685), turn, (0, -0.42, 0.42), (0.36, 0.42), inwards=10)
        setting.extras.append(partial(furniture.raised_row, stage, wood, (x, y, 0.685), turn, 1.2, 0.15))
    seat = (bench_x, bench_y, 0.455)
    setting.spots += row("surface", seat, facing(bench_x, bench_y), (-0.42, 0.1, 0.52), (0.4, 0.45))

    setting.spots += [
        around("easel", mirror * 9, 2.3, 0.02, (0.66, 0.6)),
        around("easel", mirror * 72, 2.3, 0.0, (0.62, 0.6)),
        around("easel", mirror * 150, 2.4, 0.0, (0.62, 0.6)),
    ]
    setting.spots += [
        around("floor", mirror * -9, 2.2, 0.03, (0.5, 1.2)),
        around("floor", mirror * -71, 2.0, 0, (0.8, 0.6)),
        around("floor", mirror * 176, 3.0, 0, (1.7, 1.4)),
    ]
    panel(stage, setting, wood, mirror * 108, 3.0)
    panel(stage, setting, wood, mirror * -130, 3.2)
    arch = climbers.rose_arch(stage.numbers, wood, setting.palette["bush"])
    stage.add("rose arch", arch, (bend * 0.9 * math.sin((HEDGE_RADIUS - 3.2) / 8 * math.pi), HEDGE_RADIUS - 2.0, 0))
    bird_bath(stage, *polar(mirror * 23, 3.6))


def panel(stage: Stage, setting: Setting, wood, yaw: float, distance: float) -> None:
    """A lattice panel in the lawn on which pictures hang."""
    model = Model()
    for x in (-1.1, 1.1):
        model.box((0.07, 0.07, 1.95), wood, (x, 0, 0))
        model.add(shapes.sphere(0.05, 14, 9), wood, (x, 0, 1.94))
    for z in (0.25, 1.82):
        model.box((2.2, 0.05, 0.07), wood, (0, 0, z))
    for i in range(-16, 24):
        for slope in (-1, 1):
            start = slope * (i * 0.14 - 1.2)
            end = start + slope * 1.52
            clipped = [np.clip(v, -1.07, 1.07) for v in (start, end)]
            if abs(clipped[0] - clipped[1]) > 0.05:
                z = [0.3 + abs(v - start) for v in clipped]
                model.beam((clipped[0], slope * 0.008, z[0]), (clipped[1], slope * 0.008, z[1]), 0.008, 0.024, wood)
    x, y = polar(yaw, distance)
    turn = facing(x, y)
    stage.add("panel", model, (x, y, 0), (0, 0, turn))
    # The frames hang on the lattice's face, not in it.
    hang_x, hang_y = polar(yaw, distance - 0.03)
    spots = []
    for z in (1.42, 0.82):
        spots += row("wall", (hang_x, hang_y, z), turn, (0, -0.7, 0.7), (0.56, 0.5))
    setting.spots += spots

    def overgrow(free: list[Spot]) -> None:
        empty = all(spot in free for spot in spots)
        climber = climbers.climber(stage.numbers, 2.2, 1.9, setting.palette["bush"], empty)
        stage.add("climber", climber, (x, y, 0), (0, 0, turn))

    setting.later.append(overgrow)


def bird_bath(stage: Stage, x: float, y: float) -> None:
    stone = materials.stone("#cfc8ba", "#a39b8b")
    profile = [
        (0, 0),
        (0.2, 0),
        (0.2, 0.05),
        (0.1, 0.1),
        (0.07, 0.2),
        (0.085, 0.45),
        (0.07, 0.66),
        (0.14, 0.72),
        (0.33, 0.8),
        (0.36, 0.84),
        (0.33, 0.85),
        (0.2, 0.78),
        (0, 0.76),
    ]
    model = Model().add(shapes.lathe(profile, 36), stone)
    model.add(shapes.cylinder(0.27, 0.004, 36, 0.001), materials.paint("#8fb3c4", 0.05), (0, 0, 0.81))
    stage.add("bird bath", model, (x, y, 0))
