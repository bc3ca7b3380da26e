"""The panoramic camera and the renderer's settings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import bpy
import numpy as np
from PIL import Image

from . import shapes
from .stage import EYE, Stage

SAMPLE = re.compile(r"Sample (\d+)/(\d+)")
FAR = 200.0
"""Metres beyond which the depth picture does not tell distances apart."""
MOST_PIXELS = 2048 * 1024
"""Pixels of one rendering."""
OVERLAP = 32
"""Pixels that a strip is rendered beyond either side."""


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
    cycles.denoising_input_passes, cycles.denoising_prefilter = "RGB_ALBEDO_NORMAL", "ACCURATE"
    cycles.denoising_use_gpu = False
    cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = bounces + 2, bounces, 2
    cycles.transmission_bounces, cycles.transparent_max_bounces = 3, 8
    cycles.caustics_reflective = cycles.caustics_refractive = False
    # Fireflies are what a denoiser handles worst.
    cycles.sample_clamp_indirect = 4.0
    cycles.blur_glossy = 1.0


def shoot(
    quality: Quality, scratch: Path, with_depth: bool, progress: Callable[[float], None]
) -> tuple[Image.Image, Image.Image | None]:
    """Renders a picture and, if asked, the distances in it. A large one is rendered in upright strips, since the memory
    that the renderer and its denoiser take grows with the pixels of one rendering."""
    scene = bpy.context.scene
    render = scene.render
    render.resolution_x, render.resolution_y, render.resolution_percentage = quality.width, quality.height, 100
    render.use_border, render.use_crop_to_border = True, True
    render.border_min_y, render.border_max_y = 0.0, 1.0
    render.filepath = str(scratch / "picture.png")
    scene.cycles.samples = quality.samples
    scene.view_layers[0].use_pass_z = with_depth
    scene.use_nodes = with_depth
    if with_depth:
        write_depth(scene, scratch / "depth")

    count = -(-quality.width * quality.height // MOST_PIXELS)
    ends = [quality.width * number // count for number in range(count + 1)]
    picture = Image.new("RGB", (quality.width, quality.height))
    distances = []
    for number, (left, right) in enumerate(itertools.pairwise(ends)):
        # The denoiser knows nothing of what lies beyond a border, so strips overlap.
        first, last = max(0, left - OVERLAP), min(quality.width, right + OVERLAP)
        # Blender rounds these down to whole pixels.
        render.border_min_x, render.border_max_x = (first + 0.25) / quality.width, (last + 0.25) / quality.width
        render_strip(lambda fraction, done=number: progress((done + fraction) / count))
        with Image.open(render.filepath) as strip:
            picture.paste(strip.convert("RGB").crop((left - first, 0, right - first, quality.height)), (left, 0))
        Path(render.filepath).unlink()
        for exr in scratch.glob("depth*.exr"):
            distances.append(depth_values(exr)[:, left - first : right - first])
            exr.unlink()
    return picture, Image.fromarray(np.hstack(distances)) if distances else None


def render_strip(progress: Callable[[float], None]) -> None:
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
