"""Procedural materials. Each is made once for its parameters and shared, so that the renderer compiles few shaders."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from zlib import crc32

import bpy

from .shader import Shader, linear

Material = bpy.types.Material


def shared(make: Callable[..., None]) -> Callable[..., Material]:
    @wraps(make)
    def cached(*args, **kwargs) -> Material:
        # Blender cuts names at 63 bytes, so the parameters go in as a checksum.
        name = f"{make.__name__} {crc32(repr((args, sorted(kwargs.items()))).encode()):08x}"
        material = bpy.data.materials.get(name)
        if material is None:
            material = bpy.data.materials.new(name)
            make(Shader(material), *args, **kwargs)
        return material

    return cached


@shared
def paint(s: Shader, colour: str, roughness: float = 0.5, metallic: float = 0.0) -> None:
    """Paint, ceramic, plastic or metal: one colour with faint unevenness."""
    tone = s.noise(s.coordinates(), 6, 3)
    shade = s.mix(s.span(tone, 0.3, 0.7, 0, 0.05), colour, (0.12, 0.1, 0.08), "MULTIPLY")
    s.surface(s.principled(shade, roughness, Metallic=metallic))


@shared
def wood(s: Shader, light: str, dark: str, grain: str = "x", roughness: float = 0.42, scale: float = 1.0) -> None:
    """Wood with its grain along one axis; every object starts elsewhere in the grain."""
    along = {"x": (1.2, 14, 14), "y": (14, 1.2, 14), "z": (14, 14, 1.2)}[grain]
    base = s.node("TexCoord").outputs["Object"]
    shift = s.node("ObjectInfo").outputs["Random"]
    moved = s.node(
        "VectorMath",
        {
            0: base,
            1: s.node("CombineXYZ", {"X": s.math("MULTIPLY", shift, 9.0), "Y": s.math("MULTIPLY", shift, 5.0)}).outputs[
                0
            ],
        },
    ).outputs[0]
    vector = s.node("Mapping", {"Vector": moved, "Scale": tuple(a * scale for a in along)}).outputs[0]
    rings = s.noise(vector, 1.1, 4, 0.6, 1.4)
    fibre = s.noise(vector, 9, 2, 0.6)
    tone = s.math("ADD", s.math("MULTIPLY", rings, 0.75), s.math("MULTIPLY", fibre, 0.3))
    colour = s.ramp(tone, [(0.32, dark), (0.52, light), (0.66, light), (0.78, dark)])
    s.surface(
        s.principled(colour, s.span(fibre, 0.3, 0.7, roughness - 0.08, roughness + 0.12), s.bump(tone, 0.12, 0.004))
    )


@shared
def planks(
    s: Shader, light: str, dark: str, width: float = 0.14, length: float = 1.8, roughness: float = 0.4, along: str = "y"
) -> None:
    """Floor boards laid in a half bond, each board of a slightly different tone."""
    position = s.node("TexCoord").outputs["Object"]
    if along == "y":
        parts = s.node("SeparateXYZ", {0: position})
        position = s.node("CombineXYZ", {"X": parts.outputs[1], "Y": parts.outputs[0], "Z": parts.outputs[2]}).outputs[
            0
        ]
    # The pattern has joints at its origin, where the viewer is.
    position = s.node("VectorMath", {0: position, 1: (0.68 * length, 0, 0)}).outputs[0]
    bricks = s.node(
        "TexBrick",
        {
            "Vector": position,
            "Color1": (0, 0, 0, 1),
            "Color2": (1, 1, 1, 1),
            "Mortar": (0.5, 0.5, 0.5, 1),
            "Scale": 1.0,
            "Mortar Size": 0.0016,
            "Mortar Smooth": 0.2,
            "Brick Width": length,
            "Row Height": width,
        },
        offset=0.37,
    )
    tone = bricks.outputs["Color"]
    shifted = s.node(
        "VectorMath",
        {
            0: position,
            1: s.node("CombineXYZ", {"X": s.math("MULTIPLY", tone, 7.0), "Y": s.math("MULTIPLY", tone, 3.0)}).outputs[
                0
            ],
        },
    ).outputs[0]
    grain = s.noise(s.node("Mapping", {"Vector": shifted, "Scale": (1.0, 16, 1)}).outputs[0], 2.2, 4, 0.6, 1.2)
    colour = s.ramp(grain, [(0.3, dark), (0.55, light), (0.8, dark)])
    colour = s.mix(s.math("MULTIPLY", tone, 0.35), colour, dark)
    colour = s.mix(s.math("MULTIPLY", bricks.outputs["Fac"], 0.55), colour, (0.06, 0.035, 0.02))
    height = s.math("SUBTRACT", s.math("MULTIPLY", grain, 0.15), bricks.outputs["Fac"])
    s.surface(s.principled(colour, roughness, s.bump(height, 0.35, 0.004)))


@shared
def fabric(s: Shader, colour: str, second: str | None = None, scale: float = 1.0) -> None:
    """Woven cloth: a fine weave, and with a second colour a faded mottle of both."""
    vector = s.coordinates()
    threads = s.node("TexVoronoi", {"Vector": vector, "Scale": 260 * scale}).outputs["Distance"]
    folds = s.noise(vector, 3.5 * scale, 4, 0.6)
    shade = (
        s.mix(s.span(folds, 0.35, 0.65), colour, second)
        if second
        else s.mix(s.span(folds, 0.3, 0.7, 0, 0.25), colour, (0.2, 0.17, 0.15), "MULTIPLY")
    )
    shade = s.mix(s.span(threads, 0.0, 0.6, 0.18, 0), shade, (0.15, 0.13, 0.12), "MULTIPLY")
    # Yarn of uneven tone, coarse enough to be seen across a room.
    yarn = s.noise(vector, 70 * scale, 2, 0.7)
    shade = s.mix(s.span(yarn, 0.36, 0.64, 0.3, 0), shade, (0.3, 0.28, 0.27), "MULTIPLY")
    s.surface(
        s.principled(
            shade, 0.92, s.bump(s.math("ADD", s.math("MULTIPLY", threads, 0.4), folds), 0.25, 0.004), Sheen_Weight=0.25
        )
    )


@shared
def stripes(s: Shader, colours: tuple[str, ...], width: float, axis: int = 0, roughness: float = 0.9) -> None:
    """Bands of colours along one axis: blankets, awnings, wallpaper, rag rugs."""
    position = s.node("SeparateXYZ", {0: s.node("TexCoord").outputs["Object"]}).outputs[axis]
    phase = s.math("FRACT", s.math("DIVIDE", position, width))
    node = s.node("ValToRGB", {"Fac": phase})
    node.color_ramp.interpolation = "CONSTANT"
    while len(node.color_ramp.elements) < len(colours):
        node.color_ramp.elements.new(0.5)
    for i, colour in enumerate(colours):
        node.color_ramp.elements[i].position, node.color_ramp.elements[i].color = i / len(colours), linear(colour)
    wear = s.noise(s.coordinates(), 40, 3)
    shade = s.mix(s.span(wear, 0.3, 0.7, 0, 0.25), node.outputs["Color"], (0.35, 0.3, 0.26), "MULTIPLY")
    s.surface(s.principled(shade, roughness, s.bump(wear, 0.2, 0.003)))


@shared
def foliage(s: Shader, colours: tuple[str, ...], through: float = 0.35, gloss: float = 0.5, crown: float = 0.0) -> None:
    """Leaves, blades and petals: each island of the mesh has its own tone, and light shines through. With `crown`, a height
    above the plant's foot, light falls on them as on a round body about that point: needles are too fine to shade one by one."""
    island = s.node("NewGeometry").outputs["Random Per Island"]
    plant = s.node("ObjectInfo").outputs["Random"]
    tone = s.math("FRACT", s.math("ADD", s.math("MULTIPLY", island, 0.8), s.math("MULTIPLY", plant, 0.35)))
    colour = s.ramp(tone, [(i / max(1, len(colours) - 1), c) for i, c in enumerate(colours)])
    # Real leaves light one another over many bounces. The renderer follows few, so the leaves are lighter instead.
    colour = s.node("HueSaturation", {"Color": colour, "Value": 1.3}).outputs["Color"]
    back = {"Color": s.mix(0.35, colour, "#d8e070", "SOFT_LIGHT")}
    outwards = None
    if crown:
        geometry = s.node("NewGeometry").outputs
        foot = s.node("ObjectInfo").outputs["Location"]
        middle = s.node("VectorMath", {0: foot, 1: (0, 0, crown)}).outputs[0]
        body = s.node("VectorMath", {0: geometry["Position"], 1: middle}, operation="SUBTRACT").outputs[0]
        body = s.node("VectorMath", {0: body}, operation="NORMALIZE").outputs[0]
        # Blended with each needle's own normal, which keeps some of the texture.
        own = s.node("VectorMath", {0: geometry["Normal"], "Scale": 0.55}, operation="SCALE").outputs[0]
        both = s.node("VectorMath", {0: body, 1: own}).outputs[0]
        outwards = s.node("VectorMath", {0: both}, operation="NORMALIZE").outputs[0]
        back["Normal"] = outwards
    front = s.principled(colour, gloss, outwards, Specular_IOR_Level=0.25)
    whole = s.mix_shaders(through, front, s.node("BsdfTranslucent", back).outputs[0])
    if crown:
        # Light that has wandered among needles for longer than the renderer follows it.
        glow = s.node("Emission", {"Color": colour, "Strength": 0.05}).outputs[0]
        whole = s.node("AddShader", {0: whole, 1: glow}).outputs[0]
        s.owner.cycles.emission_sampling = "NONE"
    s.surface(whole)


def lawn_colour(s: Shader, dry: str, lush: str) -> bpy.types.NodeSocket:
    """The colour of grass by place, the same for the blades and the ground under them, so that one fades into the other."""
    place = s.coordinates("World")
    broad = s.noise(place, 0.35, 3, 0.6)
    fine = s.noise(place, 3.0, 3, 0.6)
    tone = s.math("ADD", s.math("MULTIPLY", broad, 0.7), s.math("MULTIPLY", fine, 0.4))
    return s.mix(s.span(tone, 0.38, 0.72), lush, dry)


@shared
def grass_blades(s: Shader, dry: str, lush: str) -> None:
    island = s.node("NewGeometry").outputs["Random Per Island"]
    colour = s.mix(s.span(island, 0, 1, 0, 0.5), lawn_colour(s, dry, lush), "#a8bd55")
    front = s.principled(colour, 0.55, Specular_IOR_Level=0.2)
    s.surface(s.mix_shaders(0.4, front, s.node("BsdfTranslucent", {"Color": colour}).outputs[0]))


@shared
def lawn(s: Shader, dry: str, lush: str) -> None:
    place = s.coordinates("World")
    tufts = s.noise(place, 55, 3, 0.7)
    colour = s.mix(s.span(tufts, 0.35, 0.75, 0, 0.45), lawn_colour(s, dry, lush), "#8fa548")
    s.surface(s.principled(colour, 0.95, s.bump(tufts, 0.5, 0.03), Specular_IOR_Level=0.1))


@shared
def ground(s: Shader, light: str, dark: str, scale: float = 14, bump: float = 0.6) -> None:
    """Soil, gravel, sand, plaster: grainy, in two tones."""
    place = s.coordinates("World")
    grains = s.noise(place, scale, 6, 0.72)
    s.surface(
        s.principled(
            s.ramp(grains, [(0.35, dark), (0.62, light)]), 0.95, s.bump(grains, bump, 0.02), Specular_IOR_Level=0.15
        )
    )


@shared
def hillside(s: Shader, tint: str, wooded: str) -> None:
    """A hill far away: fields, and woods whose crowns make a grain."""
    place = s.coordinates("World")
    woods = s.span(s.noise(place, 0.045, 4, 0.55, 0.4), 0.5, 0.56)
    fields = s.noise(place, 0.02, 2, 0.5)
    crowns = s.noise(place, 0.5, 3, 0.7)
    open_land = s.mix(s.span(fields, 0.35, 0.65, 0, 0.3), tint, "#c3bf8a")
    shade = s.mix(s.span(crowns, 0.35, 0.65, 0, 0.35), wooded, tint)
    colour = s.mix(s.math("MULTIPLY", woods, 0.85), open_land, shade)
    s.surface(s.principled(colour, 0.95, Specular_IOR_Level=0.1))


@shared
def stone(s: Shader, light: str, dark: str) -> None:
    """Flagstone: each slab has its own tone, with lichen and pits."""
    island = s.node("NewGeometry").outputs["Random Per Island"]
    place = s.coordinates("World")
    cloudy = s.noise(place, 2.6, 6, 0.65)
    pits = s.noise(place, 38, 4, 0.65)
    tone = s.math("ADD", s.math("MULTIPLY", island, 0.45), s.math("MULTIPLY", cloudy, 0.6))
    colour = s.ramp(tone, [(0.25, dark), (0.75, light)])
    colour = s.mix(s.span(pits, 0.45, 0.7, 0, 0.45), colour, dark)
    grit = s.noise(place, 130, 2, 0.7)
    colour = s.mix(s.span(grit, 0.34, 0.66, 0.35, 0), colour, (0.36, 0.33, 0.3), "MULTIPLY")
    s.surface(s.principled(colour, 0.85, s.bump(s.math("ADD", cloudy, s.math("MULTIPLY", pits, 0.9)), 0.45, 0.012)))


@shared
def bark(s: Shader, light: str, dark: str, banded: bool = False) -> None:
    """Bark: furrows along the trunk, or for a birch dark bands across it."""
    vector = s.coordinates("Object", (3, 3, 22) if banded else (16, 16, 2.2))
    pattern = s.noise(vector, 1.0, 5, 0.65, 0.6)
    colour = s.ramp(pattern, [(0.56, light), (0.68, dark)] if banded else [(0.35, dark), (0.65, light)])
    s.surface(s.principled(colour, 0.95, s.bump(pattern, 0.15 if banded else 0.7, 0.02), Specular_IOR_Level=0.2))


@shared
def brick(s: Shader, first: str, second: str, mortar: str) -> None:
    parts = s.node("SeparateXYZ", {0: s.coordinates()})
    across = s.math("ADD", parts.outputs[0], parts.outputs[1])
    flat = s.node("CombineXYZ", {"X": across, "Y": parts.outputs[2]}).outputs[0]
    colours = {"Color1": first, "Color2": second, "Mortar": mortar}
    sizes = {"Scale": 1.0, "Mortar Size": 0.008, "Mortar Smooth": 0.3, "Brick Width": 0.22, "Row Height": 0.075}
    bricks = s.node("TexBrick", {"Vector": flat} | colours | sizes)
    rough = s.noise(s.coordinates(), 30, 4, 0.65)
    colour = s.mix(s.span(rough, 0.35, 0.7, 0, 0.3), bricks.outputs["Color"], (0.25, 0.2, 0.17), "MULTIPLY")
    height = s.math("SUBTRACT", s.math("MULTIPLY", rough, 0.3), bricks.outputs["Fac"])
    s.surface(s.principled(colour, 0.9, s.bump(height, 0.6, 0.008)))


@shared
def wallpaper(s: Shader, base: str, motif: str, size: float = 0.26) -> None:
    """Faint sprigs in a diamond repeat over a plain ground."""
    parts = s.node("SeparateXYZ", {0: s.node("NewGeometry").outputs["Position"]})
    along = s.math("ADD", parts.outputs[0], parts.outputs[1])
    u = s.math("DIVIDE", along, size)
    v = s.math("DIVIDE", parts.outputs[2], size * 1.4)
    waves = s.math(
        "MULTIPLY",
        s.math("SINE", s.math("MULTIPLY", s.math("ADD", u, v), 6.2832)),
        s.math("SINE", s.math("MULTIPLY", s.math("SUBTRACT", u, v), 6.2832)),
    )
    curl = s.noise(s.node("NewGeometry").outputs["Position"], 34, 3, 0.6)
    figure = s.span(s.math("ADD", waves, s.math("MULTIPLY", curl, 0.9)), 0.95, 1.15)
    s.surface(s.principled(s.mix(s.math("MULTIPLY", figure, 0.4), base, motif), 0.85, Specular_IOR_Level=0.2))


@shared
def rug(s: Shader, field: str, border: str, accent: str, width: float, depth: float) -> None:
    """A woven rug: borders by distance from the edge, and a field of small diamonds."""
    parts = s.node("SeparateXYZ", {0: s.node("TexCoord").outputs["Object"]})
    x, y = parts.outputs[0], parts.outputs[1]
    inset = s.math(
        "MINIMUM",
        s.math("SUBTRACT", width / 2, s.math("ABSOLUTE", x)),
        s.math("SUBTRACT", depth / 2, s.math("ABSOLUTE", y)),
    )
    diamond = s.math(
        "ADD", s.math("PINGPONG", s.math("ADD", x, 10.0), 0.075), s.math("PINGPONG", s.math("ADD", y, 10.0), 0.075)
    )
    inner = s.mix(s.math("MULTIPLY", s.math("GREATER_THAN", diamond, 0.108), 0.6), field, accent)
    inner = s.mix(s.math("MULTIPLY", s.math("LESS_THAN", diamond, 0.026), 0.7), inner, border)
    node = s.node("ValToRGB", {"Fac": s.span(inset, 0, 0.4)})
    node.color_ramp.interpolation = "CONSTANT"
    elements = node.color_ramp.elements
    for _ in range(3):
        elements.new(0.5)
    for element, (position, colour) in zip(
        elements, [(0, border), (0.14, accent), (0.2, border), (0.62, accent), (0.68, field)]
    ):
        element.position, element.color = position, linear(colour)
    colour = s.mix(s.math("GREATER_THAN", inset, 0.3), node.outputs["Color"], inner)
    vector = s.coordinates()
    pile = s.noise(vector, 130, 2, 0.7)
    wear = s.noise(vector, 3, 4, 0.6)
    colour = s.mix(s.span(wear, 0.35, 0.7, 0, 0.3), colour, field)
    colour = s.mix(s.span(pile, 0.3, 0.7, 0.25, 0), colour, (0.3, 0.27, 0.25), "MULTIPLY")
    s.surface(s.principled(colour, 0.95, s.bump(pile, 0.5, 0.006), Sheen_Weight=0.2))


@shared
def glow(s: Shader, colour: str, strength: float) -> None:
    s.surface(s.node("Emission", {"Color": colour, "Strength": strength}).outputs[0])


@shared
def flame(s: Shader) -> None:
    """Fire: yellow below, red above. It throws no shadow."""
    height = s.node("SeparateXYZ", {0: s.node("NewGeometry").outputs["Position"]}).outputs[2]
    colour = s.ramp(s.span(height, 0.1, 0.36), [(0, "#ffd27a"), (0.4, "#ff9a3c"), (1, "#e2551c")])
    light = s.node("Emission", {"Color": colour, "Strength": 2.4}).outputs[0]
    clear = s.node("BsdfTransparent").outputs[0]
    s.surface(s.mix_shaders(s.node("LightPath").outputs["Is Shadow Ray"], light, clear))


@shared
def lampshade(s: Shader, colour: str, strength: float = 1.2) -> None:
    """Lit cloth. It glows by itself, which costs the renderer far less than a bulb seen through it."""
    cloth = s.principled(colour, 0.9)
    height = s.node("SeparateXYZ", {0: s.node("TexCoord").outputs["Generated"]}).outputs[2]
    light = s.node(
        "Emission",
        {
            "Color": "#ffce8f",
            "Strength": s.span(s.math("ABSOLUTE", s.math("SUBTRACT", height, 0.45)), 0, 0.6, strength, strength * 0.45),
        },
    ).outputs[0]
    s.surface(s.node("AddShader", {0: cloth, 1: light}).outputs[0])


@shared
def curtain(s: Shader, colour: str, through: float = 0.4) -> None:
    """Cloth that lets daylight through."""
    threads = s.noise(s.coordinates("Object", (180, 180, 180)), 1.0, 1)
    shade = s.mix(s.span(threads, 0.3, 0.7, 0, 0.12), colour, (0.4, 0.36, 0.3), "MULTIPLY")
    s.surface(s.mix_shaders(through, s.principled(shade, 0.9), s.node("BsdfTranslucent", {"Color": shade}).outputs[0]))


def photograph(path: Path, lit: float = 0.0) -> Material:
    """An attached picture. `lit` makes it glow a little: a television that is on, or a print in the shade."""
    name = f"photograph {path} {lit}"
    material = bpy.data.materials.get(name) or bpy.data.materials.new(name)
    s = Shader(material)
    image = bpy.data.images.load(str(path), check_existing=True)
    texture = s.node("TexImage", {"Vector": s.node("TexCoord").outputs["UV"]}, image=image, extension="EXTEND")
    s.surface(
        s.principled(texture.outputs["Color"], 0.35, Emission_Color=texture.outputs["Color"], Emission_Strength=lit)
    )
    return material
