"""A sitting room: window light through curtains, an armchair and a lamp, books, a sideboard with pictures above it."""

from __future__ import annotations

from .. import flowers, furniture, light, materials, rooms, shapes, terrain, trees
from ..belongings.household import COVERS
from ..items import Setting, Spot, facing, row
from ..model import Model
from ..stage import Stage

WIDTH, FRONT, BACK, HEIGHT = 5.4, 2.55, -2.25, 2.5
MIDDLE, DEPTH = (FRONT + BACK) / 2, FRONT - BACK
DOOR = 1.7
"""How far the door is from the middle of its wall."""
RAIL = 0.88
"""Height of the panelling."""

# Wallpaper and its sprigs, curtains, upholstery, cushions, rug (field, border, accent).
SCHEMES = (
    ("#dde5d6", "#93ab8c", "#b9653f", "#6f8f86", "#d8a24a", ("#e6dcc6", "#a8543c", "#7f9a84")),
    ("#c9d8d2", "#86a39a", "#6f8f6c", "#b8704f", "#e4c987", ("#e8e0ce", "#4f7361", "#c9a56c")),
    ("#ecd9d4", "#c58f8a", "#8f4a55", "#7d86ae", "#e3b7a0", ("#e9dcd2", "#7f4450", "#8d8fae")),
    ("#cfdbe6", "#8ea6be", "#4f6f94", "#c08a4e", "#e9dcc0", ("#e6e2d8", "#3f5f86", "#c79a62")),
    ("#efe2b6", "#cbaa5a", "#5f7f95", "#6d8495", "#b5523f", ("#ebe1c8", "#3f5d73", "#cfa45a")),
)
WOODS = (("#96694a", "#5e402b"), ("#7d5238", "#4a3222"), ("#b08c62", "#806344"))
FLOORS = (("#c79a62", "#99693a"), ("#b58350", "#80532c"), ("#d2ad7c", "#ab8252"))


def build(stage: Stage) -> Setting:
    chance = stage.random
    mirror = chance.choice((-1, 1))
    paper, sprig, drapes, cloth, accent, rug = chance.choice(SCHEMES)
    wood = materials.wood(*chance.choice(WOODS))
    setting = Setting(
        palette=chance.choice(flowers.PALETTES),
        bounces=5,
        exposure=0.0,
        frame=materials.wood(*chance.choice((*WOODS, ("#d9b45f", "#b58a3a")))),
    )
    daylight(stage, mirror)
    setting.north = (mirror * 170) % 360
    plain = chance.random() < 0.35
    shell(
        stage,
        mirror,
        materials.paint(paper, 0.85) if plain else materials.wallpaper(paper, sprig),
        chance.choice(FLOORS),
    )
    window(stage, mirror, drapes)
    if chance.random() < 0.4:
        rug = (rug[2], rug[1], rug[0])
    stage.add("rug", Model().box((3.2, 2.5, 0.014), materials.rug(*rug, 3.2, 2.5), bevel=0.004), (0, 0.3, 0.001))

    coffee_table(stage, setting, wood, mirror)
    front(stage, setting, mirror, wood)
    window_side(stage, setting, mirror, wood, materials.fabric(cloth), materials.fabric(accent, scale=1.4))
    book_side(stage, setting, mirror, wood)
    back(
        stage,
        setting,
        mirror,
        wood,
        materials.fabric(cloth),
        [materials.fabric(accent, scale=1.4), materials.fabric(drapes, scale=1.4)],
    )
    return setting


def daylight(stage: Stage, mirror: int) -> None:
    azimuth, elevation = -mirror * stage.random.uniform(62, 88), stage.random.uniform(26, 36)
    light.sky(stage, azimuth, elevation, strength=0.45, cover=0.5)
    light.sun(stage, azimuth, elevation, 8, stage.random.choice(("#ffedd2", "#fff3e2")), 1.4)
    light.window_light(
        stage, "window light", (-mirror * (WIDTH / 2 + 0.3), 0.75, 1.6), (0, -mirror * 90, 0), 1.5, 2.0, 170, "#d6e4ff"
    )
    # Faint lights from above and below: without them the ceiling and the corners away from the window are gloomy.
    light.window_light(stage, "ceiling light", (0, 0, 0.7), (180, 0, 0), 3.6, 3.4, 17, "#f4f6ff")
    light.window_light(stage, "room light", (0, -0.4, HEIGHT - 0.12), (0, 0, 0), 3.6, 3.4, 34, "#fff6ea")


def shell(stage: Stage, mirror: int, paper, floor: tuple[str, str]) -> None:
    white = materials.paint("#f3ede0", 0.6)
    stage.add(
        "floor",
        Model().box((WIDTH + 0.4, DEPTH + 0.4, 0.05), materials.planks(*floor), bevel=0.001),
        (0, MIDDLE, -0.05),
    )
    stage.add(
        "ceiling",
        Model().box((WIDTH + 0.4, DEPTH + 0.4, 0.05), materials.paint("#f7f2e8", 0.9), bevel=0.001),
        (0, MIDDLE, HEIGHT),
    )
    opening = (-0.95, 0.95, 0.78, 2.25)
    sides = (
        ("front", WIDTH, (0, FRONT, 0), 0, ()),
        ("back", WIDTH, (0, BACK, 0), 180, ()),
        (
            "window wall",
            DEPTH,
            (-mirror * WIDTH / 2, MIDDLE, 0),
            mirror * 90,
            (shifted(opening, mirror * (0.75 - MIDDLE)),),
        ),
        ("book wall", DEPTH, (mirror * WIDTH / 2, MIDDLE, 0), -mirror * 90, ()),
    )
    for name, length, at, turn, openings in sides:
        stage.add(name, rooms.wall(length + 0.32, HEIGHT, paper, openings), at, (0, 0, turn))
        left_out = [(a - 0.12, b + 0.12, c - 0.05, d) for a, b, c, d in openings]
        if name == "back":
            left_out.append((-mirror * DOOR - 0.54, -mirror * DOOR + 0.54, 0, HEIGHT))
        stage.add(
            f"{name} panels",
            rooms.wainscot(length, RAIL, white, tuple(left_out)),
            at,
            (0, 0, turn),
        )
        stage.add(f"{name} moulding", rooms.cornice(length, white, HEIGHT), at, (0, 0, turn))
    stage.add("ceiling panel", rooms.strapwork(WIDTH - 1.1, DEPTH - 1.1, white), (0, MIDDLE, HEIGHT))
    at = (0, 0.9, HEIGHT)
    stage.add("ceiling rose", rooms.ceiling_rose(white), at)
    stage.add(
        "chandelier",
        furniture.chandelier(materials.paint("#c9a14e", 0.3, 0.9), materials.lampshade("#f7ead2", 1.5)),
        at,
    )
    light.lamp(stage, "chandelier light", (0, 0.9, HEIGHT - 0.62), 9, "#ffdcae", 0.2)


def shifted(opening: rooms.Opening, by: float) -> rooms.Opening:
    return opening[0] + by, opening[1] + by, opening[2], opening[3]


def window(stage: Stage, mirror: int, drapes: str) -> None:
    chance, numbers = stage.random, stage.numbers
    x, turn = -mirror * WIDTH / 2, mirror * 90
    stage.add(
        "window", rooms.window(1.9, 1.47, materials.paint("#f6f1e6", 0.45), (4, 3)), (x, 0.75, 0.78), (0, 0, turn)
    )
    cloth, sheer = materials.curtain(drapes, 0.25), materials.curtain("#fbf6ea", 0.75)
    rod = Model().add(shapes.tube([(-1.5, 0, 0), (1.5, 0, 0)], 0.017, 12), materials.paint("#c9a14e", 0.3, 0.9))
    for side in (-1, 1):
        rod.add(shapes.sphere(0.035, 16, 9), materials.paint("#c9a14e", 0.3, 0.9), (side * 1.5, 0, -0.035))
    stage.add("rod", rod, (x + mirror * 0.13, 0.75, 2.36), (0, 0, turn))
    for side in (-1, 1):
        outer = (
            Model().merge(rooms.drape(0.62, 2.3, cloth, 0.45), (-1.42, 0, 0))
            if side < 0
            else Model().merge(rooms.drape(0.62, 2.3, cloth, 0.45), (1.42, 0, 0), scale=(-1, 1, 1))
        )
        stage.add(f"drape {side}", outer, (x + mirror * 0.14, 0.75, 0.04), (0, 0, turn))
        inner = rooms.drape(0.36, 1.5, sheer, 0, 5)
        stage.add(
            f"sheer {side}",
            Model().merge(inner, (-0.92, 0, 0)) if side < 0 else Model().merge(inner, (0.92, 0, 0), scale=(-1, 1, 1)),
            (x + mirror * 0.02, 0.75, 0.82),
            (0, 0, turn),
        )

    terrain.hills(stage)
    stage.add("lawn", Model().add(shapes.sheet(160, 160, 2, 2), materials.lawn("#8fa04a", "#5f7f2f")), (0, 0, -0.5))
    meshes = terrain.tree_meshes(stage, chance.sample(["oak", "apple", "birch", "maple"], 2))
    for i in range(7):
        stage.place(
            f"tree {i}",
            meshes[i % 2],
            shapes.matrix(
                (x * (2.6 + i * 0.7) + chance.uniform(-1, 1), 0.75 + (i - 3) * 2.4 + chance.uniform(-1, 1), -0.5),
                (0, 0, chance.uniform(0, 360)),
                chance.uniform(0.8, 1.2),
            ),
        )
    for i in range(6):
        stage.place(f"hedge {i}", hedge_mesh(numbers), shapes.matrix((x * 2.2, -4.5 + i * 2.0, -0.5), (0, 0, 90)))


_HEDGE = "garden hedge"


def hedge_mesh(numbers):
    import bpy

    return bpy.data.meshes.get(_HEDGE) or trees.hedge(numbers, 2.1, 0.7, 1.1).to_mesh(_HEDGE)


def front(stage: Stage, setting: Setting, mirror: int, wood) -> None:
    brass = materials.paint("#c9a14e", 0.3, 0.9)
    x = -mirror * 0.25
    hearth = stage.random.random() < 0.45
    if hearth:
        top, hung = 1.12, 1.83
        bricks = stage.random.choice((("#b5694b", "#9a5238", "#d8c9b4"), ("#c9b8a0", "#b3a088", "#e6dcc8")))
        fireplace = rooms.fireplace(1.95, top, materials.brick(*bricks), wood, materials.paint("#f3ede0", 0.6))
        stage.add("fireplace", fireplace, (x, FRONT, 0))
        light.lamp(stage, "fire", (x, FRONT - 0.3, 0.35), 4, "#ffa050", 0.15)
    else:
        top, hung = 0.84, 1.7
        stage.add("sideboard", furniture.cabinet(1.95, 0.44, top, wood, brass), (x, FRONT - 0.27, 0))
    room = (0.74, 0.5 if hearth else 0.64)
    setting.spots += row("wall", (x, FRONT - 0.005, hung), 0, (0, -0.8, 0.8), room)
    setting.spots += row("stand", (x, FRONT - 0.2, top), 0, (-0.4, 0.4, 0), (0.3, 0.3), inwards=20)
    setting.spots += row("surface", (x, FRONT - 0.2, top), 0, (-0.8, 0.8), (0.32, 0.42), inwards=20)
    setting.spots.append(Spot("hook", (mirror * 1.22, FRONT, 1.72), 0, (0.34, 0.8)))

    tv_x, tv_y = mirror * 2.15, 1.7
    turn = facing(tv_x, tv_y)
    stage.add("low cabinet", furniture.cabinet(1.15, 0.42, 0.52, wood, brass, 3, False), (tv_x, tv_y, 0), (0, 0, turn))
    setting.spots.append(Spot("screen", (tv_x, tv_y, 0.52), turn, (0.95, 0.8)))
    setting.spots.append(Spot("floor", (mirror * 1.29, 1.91, 0), facing(mirror * 1.29, 1.91), (0.5, 1.2)))
    setting.spots.append(Spot("floor", (-mirror * 1.15, 0.95, 0.015), facing(-mirror * 1.15, 0.95), (0.75, 0.5)))


def window_side(stage: Stage, setting: Setting, mirror: int, wood, cloth, accent) -> None:
    chair_x, chair_y = -mirror * 1.8, 1.6
    stage.add(
        "armchair",
        furniture.armchair(cloth, wood, accent),
        (chair_x, chair_y, 0),
        (0, 0, facing(chair_x, chair_y) * 0.85),
    )
    shade = materials.lampshade("#f1dcb4", 1.6)
    stage.add("floor lamp", furniture.floor_lamp(materials.paint("#b08d48", 0.3, 0.9), shade), (-mirror * 2.3, 2.2, 0))
    light.lamp(stage, "lamp", (-mirror * 2.3, 2.2, 1.4), 22, radius=0.12)
    x, y = -mirror * 1.6, 0.55
    stage.add("side table", furniture.round_table(0.3, 0.58, wood), (x, y, 0))
    setting.spots.append(Spot("surface", (x, y, 0.58), facing(x, y), (0.36, 0.42)))
    for offset in (0.35, -0.35):
        setting.spots.append(
            Spot("surface", (-mirror * (WIDTH / 2 - 0.02), 0.75 + offset, 0.78), mirror * 90, (0.24, 0.35))
        )
    plant(stage, setting, (-mirror * 2.25, -0.75), "fern")
    wall = (-mirror * WIDTH / 2, -1.5)
    for offset in (-0.34, 0.34):
        setting.spots.append(Spot("wall", (wall[0] + mirror * 0.005, wall[1] + offset, 1.95), mirror * 90, (0.6, 0.46)))

    def shelf() -> list[Spot]:
        stage.add("wall shelf", furniture.wall_shelf(1.36, wood), (*wall, 1.24), (0, 0, mirror * 90))
        at = (wall[0] + mirror * 0.13, wall[1], 1.24)
        return row("surface", at, mirror * 90, (-0.17, 0.17, -0.51, 0.51), (0.3, 0.36))

    setting.extras.append(shelf)


def book_side(stage: Stage, setting: Setting, mirror: int, wood) -> None:
    chance = stage.random
    width, depth, height, shelves = 1.5, 0.3, 2.02, 6
    x, y, turn = mirror * (WIDTH / 2 - 0.22), 0.45, -mirror * 90
    stage.add("bookcase", furniture.bookcase(width, depth, height, shelves, wood), (x, y, 0), (0, 0, turn))
    stage.add("books", shelf_of_books(chance, width, height, shelves), (x, y, 0), (0, 0, turn))
    table_x, table_y = mirror * 1.55, 0.85
    stage.add(
        "round table", furniture.round_table(0.4, 0.62, wood, materials.curtain("#f3ead8", 0.1)), (table_x, table_y, 0)
    )
    for dx, dy in ((-0.05, -0.2), (0.02, 0.2)):
        setting.spots.append(
            Spot("surface", (table_x + dx * mirror, table_y + dy, 0.626), facing(table_x, table_y), (0.36, 0.42))
        )
    wide = Spot("floor", (mirror * (WIDTH / 2 - 0.34), -1.15, 0), turn, (1.6, 1.3))
    setting.spots.append(wide)
    setting.fillers.append((wide, lambda: chest(setting, wood)))
    for offset in (0.45, -0.45):
        setting.spots.append(Spot("wall", (mirror * (WIDTH / 2 - 0.005), -1.15 + offset, 1.75), turn, (0.66, 0.56)))


def chest(setting: Setting, wood) -> Model:
    """A chest of drawers with a lamp, for the wall that a piano would take."""
    model = Model().merge(furniture.cabinet(1.1, 0.4, 0.82, wood, materials.paint("#c9a14e", 0.3, 0.9), 3), (0, 0.1, 0))
    lamp = furniture.floor_lamp(materials.paint("#b08d48", 0.3, 0.9), materials.lampshade("#f1dcb4", 1.2), 0.5)
    return model.merge(lamp, (-0.3, 0.1, 0.82))


def shelf_of_books(chance, width: float, height: float, shelves: int) -> Model:
    model = Model()
    step = (height - 0.1) / shelves
    for shelf in range(shelves):
        z = 0.08 + shelf * step + 0.024
        x = -width / 2 + 0.04
        while x < width / 2 - 0.1:
            if chance.random() < 0.06:
                x += chance.uniform(0.06, 0.14)
                continue
            thick, tall, deep = (
                chance.uniform(0.018, 0.045),
                chance.uniform(0.62, 0.9) * step,
                chance.uniform(0.16, 0.21),
            )
            if x + thick > width / 2 - 0.04:
                break
            cover = materials.paint(chance.choice(COVERS), 0.6)
            lean = chance.uniform(4, 9) if chance.random() < 0.05 else 0
            model.add(
                shapes.box((thick, deep, tall), 0.003),
                cover,
                (x + thick / 2, 0.14 - deep / 2 - 0.02, z),
                (0, -lean, 0),
                smooth=False,
            )
            if chance.random() < 0.6:
                band = materials.paint("#d9b45f", 0.35, 0.6)
                for share in (0.2, 0.8):
                    model.box(
                        (thick * 0.96, 0.003, 0.006),
                        band,
                        (x + thick / 2, 0.12 - deep - 0.001, z + tall * share),
                        bevel=0.0005,
                    )
            x += thick + 0.001 + lean * 0.003
    return model


def back(stage: Stage, setting: Setting, mirror: int, wood, cloth, pillows) -> None:
    sofa_x = -mirror * 0.7
    stage.add("sofa", furniture.sofa(cloth, wood, pillows), (sofa_x, BACK + 0.55, 0), (0, 0, 180))
    for offset in (0, -0.8, 0.8):
        setting.spots.append(Spot("wall", (sofa_x + offset, BACK + 0.005, 1.72), 180, (0.66, 0.56)))
    # Where no picture hangs, a mirror doubles the window's light.
    setting.fillers.append((setting.spots[-3], lambda: furniture.mirror(setting.frame)))
    setting.spots.append(Spot("floor", (mirror * 0.75, -1.1, 0.015), facing(mirror * 0.75, -1.1), (0.75, 0.6)))
    stage.add(
        "door",
        rooms.door(materials.paint("#f3ede0", 0.45), materials.paint("#c9a14e", 0.3, 0.9)),
        (mirror * DOOR, BACK + 0.05, 0),
        (0, 0, 180),
    )
    plant(stage, setting, (-mirror * 2.25, BACK + 0.45), "bush")


def plant(stage: Stage, setting: Setting, at: tuple[float, float], kind: str) -> None:
    pot = furniture.plant_pot(0.19, 0.3, materials.paint("#c9825a", 0.7), materials.ground("#6b5038", "#4f3a28", 30))
    stage.add("pot", pot, (*at, 0))
    leafy = (
        flowers.fern(stage.numbers, length=0.75)
        if kind == "fern"
        else trees.bush(stage.numbers, 0.34, 0.75, ("#56773f", "#6b8d4b", "#83a35c"), leaf=0.1)
    )
    stage.add("house plant", leafy, (*at, 0.26))


def coffee_table(stage: Stage, setting: Setting, wood, mirror: int) -> None:
    y = 1.25
    stage.add("coffee table", furniture.table(1.25, 0.55, 0.46, wood, shelf=True), (0, y, 0.014))
    setting.extras.append(lambda: furniture.raised_row(stage, wood, (0, y, 0.474), 0, 1.1, 0.17))
    for offset in (0.0, -mirror * 0.38, mirror * 0.38):
        setting.spots.append(Spot("surface", (offset, y, 0.474), facing(offset, y) * 0.6, (0.36, 0.42)))
