"""The panoramic camera and the renderer's settings."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Quality:
    width: int
    height: int
    samples: int


def prepare(
    stage: Stage, threads: int, bounces: int, exposure: float = 0.0, look: str = "AgX - Medium High Contrast"
) -> None:
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


def shoot(quality: Quality, picture: Path, depth: Path | None, progress: Callable[[float], None]) -> None:
    """Renders one PNG and, if asked, the distances as a floating-point EXR. The depth's name gets Blender's frame number."""
    scene = bpy.context.scene
    scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = (
        quality.width,
        quality.height,
        100,
    )
    scene.render.filepath = str(picture)
    scene.cycles.samples = quality.samples
    scene.view_layers[0].use_pass_z = depth is not None
    scene.use_nodes = depth is not None
    if depth is not None:
        write_depth(scene, depth)

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


def depth_picture(exr: Path) -> Image.Image:
    """Distances in 16 bits: 0 at the eye, 65535 at FAR metres and beyond."""
    image = bpy.data.images.load(str(exr))
    image.colorspace_settings.name = "Non-Color"
    width, height = image.size
    values = np.empty(width * height * image.channels, dtype=np.float32)
    image.pixels.foreach_get(values)
    bpy.data.images.remove(image)
    # Blender keeps pictures from the bottom row up.
    metres = values.reshape(height, width, -1)[::-1, :, 0]
    return Image.fromarray((np.clip(metres / FAR, 0, 1) * 65535 + 0.5).astype(np.uint16))
