"""The panoramic camera and the renderer's settings."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import bpy
import numpy as np
from mathutils import Matrix
from PIL import Image

from . import shapes
from .stage import EYE, Stage

SAMPLE = re.compile(r"Sample (\d+)/(\d+)")
FAR = 200.0
"""Metres beyond which the depth picture does not tell distances apart."""
MOST_PIXELS = 1280 * 1024
"""Pixels of one rendering."""
OVERLAP = 32
"""Pixels that a tile is rendered beyond each side."""
STEEP = 45
"""Degrees above and below the horizon beyond which a large picture is rendered half as wide."""


@dataclass(frozen=True)
class Quality:
    width: int
    height: int
    samples: int


def prepare(stage: Stage, threads: int, bounces: int, exposure: float, look: str) -> None:
    """Sets up what all pictures of one scene have in common."""
    scene = bpy.context.scene
    lens = bpy.data.cameras.new("eye")
    lens.type, lens.panorama_type = "PANO", "EQUIRECTANGULAR"
    lens.clip_end = 1000
    # Turned by 90 degrees about x, the camera looks along +y, which becomes the middle of the picture.
    scene.camera = stage.place("eye", lens, shapes.matrix(EYE, (90, 0, 0)))

    render = scene.render
    render.engine = "CYCLES"
    render.threads_mode, render.threads = "FIXED", threads
    render.use_persistent_data = True
    render.image_settings.file_format, render.image_settings.color_mode = "PNG", "RGB"
    render.image_settings.compression = 15
    scene.view_settings.view_transform = "AgX"
    scene.view_settings.look = look
    scene.view_settings.exposure = exposure

    cycles = scene.cycles
    cycles.device = "CPU"
    cycles.seed = 0
    cycles.use_adaptive_sampling, cycles.adaptive_threshold, cycles.adaptive_min_samples = True, 0.03, 8
    cycles.use_denoising, cycles.denoiser = True, "OPENIMAGEDENOISE"
    cycles.denoising_input_passes, cycles.denoising_prefilter = "RGB_ALBEDO_NORMAL", "FAST"
    cycles.denoising_use_gpu = False
    cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = bounces + 2, bounces, 2
    cycles.transmission_bounces, cycles.transparent_max_bounces = 3, 8
    cycles.caustics_reflective = cycles.caustics_refractive = False
    # Fireflies are what a denoiser handles worst.
    cycles.sample_clamp_indirect = 4.0
    cycles.blur_glossy = 1.0


@dataclass(frozen=True)
class Tile:
    """A part of a picture that is rendered by itself, in pixels of the picture; a rendered pixel is `squeeze` of them wide."""

    left: int
    right: int
    top: int
    bottom: int
    squeeze: int = 1


def tiles(quality: Quality) -> list[Tile]:
    """How a picture is cut, from left to right and downwards. Memory grows with the pixels of one rendering, so a large
    picture is rendered in parts. Above and below STEEP it has many more pixels than directions, so there it is rendered half as
    wide, which saves a quarter of the time."""
    width, height = quality.width, quality.height
    if width * height <= MOST_PIXELS:
        return [Tile(0, width, 0, height)]
    edge = round(height * (90 - STEEP) / 180)
    found = []
    for top, bottom, squeeze in ((0, edge, 2), (edge, height - edge, 1), (height - edge, height, 2)):
        count = -(-width * (bottom - top) // (MOST_PIXELS * squeeze))
        # Even, so that a squeezed tile has whole pixels.
        ends = [2 * (width // 2 * number // count) for number in range(count + 1)]
        found += [Tile(left, right, top, bottom, squeeze) for left, right in itertools.pairwise(ends)]
    return found


def shoot(
    quality: Quality, scratch: Path, with_depth: bool, progress: Callable[[float], None]
) -> tuple[Image.Image, Image.Image | None]:
    """Renders a picture and, if asked, the distances in it."""
    scene = bpy.context.scene
    render = scene.render
    render.resolution_percentage = 100
    render.use_border, render.use_crop_to_border = True, True
    render.filepath = str(scratch / "picture.png")
    scene.cycles.samples = quality.samples
    scene.view_layers[0].use_pass_z = with_depth
    scene.use_nodes = with_depth
    if with_depth:
        write_depth(scene, scratch / "depth")

    width, height = quality.width, quality.height
    picture = Image.new("RGB", (width, height))
    distances = np.zeros((height, width), dtype=np.uint16) if with_depth else None
    parts = tiles(quality)
    costs = [(tile.right - tile.left) * (tile.bottom - tile.top) / tile.squeeze for tile in parts]
    done = 0.0
    for tile, cost in zip(parts, costs):
        share = cost / sum(costs)
        # The denoiser knows nothing of what lies beyond a border, so tiles overlap.
        left, right = max(0, tile.left - OVERLAP), min(width, tile.right + OVERLAP)
        top, bottom = max(0, tile.top - OVERLAP), min(height, tile.bottom + OVERLAP)
        aim(render, quality, Tile(left, right, top, bottom, tile.squeeze))
        render_tile(lambda fraction, done=done, share=share: progress(done + fraction * share))
        done += share
        part = take(render, (right - left, bottom - top))
        picture.paste(part, (left, top), blend(part.size, left > 0, top > 0))
        for exr in scratch.glob("depth*.exr"):
            assert distances is not None
            distances[top:bottom, left:right] = np.repeat(depth_values(exr), tile.squeeze, axis=1)
            exr.unlink()
    join_ends(picture, quality)
    for exr in scratch.glob("depth*.exr"):
        exr.unlink()
    return picture, None if distances is None else Image.fromarray(distances)


def aim(render: bpy.types.RenderSettings, quality: Quality, tile: Tile) -> None:
    """Has the next rendering show a tile."""
    across, height = quality.width // tile.squeeze, quality.height
    render.resolution_x, render.resolution_y = across, height
    # Blender rounds these down to whole pixels, and counts from the bottom.
    render.border_min_x = (tile.left // tile.squeeze + 0.25) / across
    render.border_max_x = (tile.right // tile.squeeze + 0.25) / across
    render.border_min_y = (height - tile.bottom + 0.25) / height
    render.border_max_y = (height - tile.top + 0.25) / height


def take(render: bpy.types.RenderSettings, size: tuple[int, int]) -> Image.Image:
    """What was rendered, in its size in the picture."""
    with Image.open(render.filepath) as rendered:
        part = rendered.convert("RGB").resize(size, Image.Resampling.BICUBIC)
    Path(render.filepath).unlink()
    return part


def blend(size: tuple[int, int], at_left: bool, at_top: bool) -> Image.Image:
    """A mask by which a tile fades into what was rendered before at its left and above it."""
    across, down = np.ones(size[0]), np.ones(size[1])
    for wanted, weights in ((at_left, across), (at_top, down)):
        if wanted:
            weights[: 2 * OVERLAP] = (np.arange(2 * OVERLAP) + 0.5) / (2 * OVERLAP)
    return Image.fromarray((np.outer(down, across) * 255 + 0.5).astype(np.uint8))


def join_ends(picture: Image.Image, quality: Quality) -> None:
    """Renders the line where the picture's ends meet once more, from a camera that looks the other way, and fades it in: the
    denoiser took the ends for two borders, so their tones differ."""
    width, height = quality.width, quality.height
    reach = max(2, width // 64)
    eye = bpy.context.scene.camera
    ahead = eye.matrix_world.copy()
    eye.matrix_world = (
        Matrix.Translation(EYE) @ Matrix.Rotation(math.pi, 4, "Z") @ Matrix.Translation(EYE).inverted() @ ahead
    )
    aim(bpy.context.scene.render, quality, Tile(width // 2 - reach, width // 2 + reach, 0, height))
    render_tile(lambda _: None)
    eye.matrix_world = ahead
    part = take(bpy.context.scene.render, (2 * reach, height))
    weights = 1 - np.abs(np.arange(2 * reach) + 0.5 - reach) / reach
    mask = Image.fromarray(np.tile((weights * 255 + 0.5).astype(np.uint8), (height, 1)))
    for half, at in ((0, width - reach), (reach, 0)):
        box = (half, 0, half + reach, height)
        picture.paste(part.crop(box), (at, 0), mask.crop(box))


def render_tile(progress: Callable[[float], None]) -> None:
    def on_statistics(text: str, *_: object) -> None:
        if found := SAMPLE.search(text):
            progress(int(found[1]) / int(found[2]))

    bpy.app.handlers.render_stats.append(on_statistics)
    try:
        bpy.ops.render.render(write_still=True)
    finally:
        bpy.app.handlers.render_stats.remove(on_statistics)


def write_depth(scene: bpy.types.Scene, depth: Path) -> None:
    tree = scene.node_tree
    tree.nodes.clear()
    layers = tree.nodes.new("CompositorNodeRLayers")
    composite = tree.nodes.new("CompositorNodeComposite")
    tree.links.new(layers.outputs["Image"], composite.inputs["Image"])
    file = tree.nodes.new("CompositorNodeOutputFile")
    file.base_path = str(depth.parent)
    file.format.file_format, file.format.color_mode, file.format.color_depth = "OPEN_EXR", "RGB", "32"
    file.file_slots[0].path = depth.name
    tree.links.new(layers.outputs["Depth"], file.inputs[0])


def depth_values(exr: Path) -> np.ndarray:
    """Distances in 16 bits: 0 at the eye, 65535 at FAR metres and beyond."""
    image = bpy.data.images.load(str(exr))
    image.colorspace_settings.name = "Non-Color"
    width, height = image.size
    values = np.empty(width * height * image.channels, dtype=np.float32)
    image.pixels.foreach_get(values)
    bpy.data.images.remove(image)
    # Blender keeps pictures from the bottom row up.
    metres = values.reshape(height, width, -1)[::-1, :, 0]
    return (np.clip(metres / FAR, 0, 1) * 65535 + 0.5).astype(np.uint16)
