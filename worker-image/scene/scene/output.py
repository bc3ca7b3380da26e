"""The files of a finished scene. Each is written whole under a hidden name and then renamed, so none is ever seen in part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PART = ".part"
THUMBNAIL = (640, 360)
QUALITY = 88

GPANO = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:GPano="http://ns.google.com/photos/1.0/panorama/"
 GPano:ProjectionType="equirectangular" GPano:UsePanoramaViewer="True"
 GPano:FullPanoWidthPixels="{width}" GPano:FullPanoHeightPixels="{height}"
 GPano:CroppedAreaImageWidthPixels="{width}" GPano:CroppedAreaImageHeightPixels="{height}"
 GPano:CroppedAreaLeftPixels="0" GPano:CroppedAreaTopPixels="0"
 GPano:PoseHeadingDegrees="{heading:.1f}" GPano:PosePitchDegrees="0" GPano:PoseRollDegrees="0"
 GPano:InitialViewHeadingDegrees="{view_heading:.0f}" GPano:InitialViewPitchDegrees="{view_pitch:.0f}" GPano:InitialViewRollDegrees="0"/>
</rdf:RDF></x:xmpmeta>
<?xpacket end="w"?>"""


class Output:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[str] = []

    def write(self, name: str, save: Callable[[BinaryIO], None]) -> None:
        part = self.folder / f".{name}{PART}"
        with open(part, "wb") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.folder / name)
        self.files.append(name)

    def discard_parts(self) -> None:
        for part in self.folder.glob(f".*{PART}"):
            part.unlink(missing_ok=True)

    def json(self, name: str, value: dict[str, Any]) -> None:
        self.write(name, lambda file: file.write(json.dumps(value, ensure_ascii=False, indent=1).encode()))

    def png(self, name: str, image: Image.Image) -> None:
        self.write(name, lambda file: image.save(file, "PNG", compress_level=6))

    def jpeg(self, name: str, image: Image.Image, panorama: bytes | None = None) -> None:
        more = {"xmp": panorama} if panorama else {}
        self.write(
            name, lambda file: image.save(file, "JPEG", quality=QUALITY, optimize=True, progressive=True, **more)
        )


def gpano(size: tuple[int, int], heading: float, yaw: float, pitch: float) -> bytes:
    """The metadata by which viewers know a panorama. The initial view is a compass heading, not an angle in the picture."""
    return GPANO.format(
        width=size[0], height=size[1], heading=heading % 360, view_heading=(heading + yaw) % 360, view_pitch=pitch
    ).encode()


def flat_view(panorama: Image.Image, yaw: float, pitch: float, size: tuple[int, int], field: float = 90) -> Image.Image:
    """What a viewer sees who looks in one direction, with a horizontal field of view in degrees."""
    pixels = np.asarray(panorama, dtype=np.float32)
    height, width = pixels.shape[:2]
    columns, rows = size
    reach = np.tan(np.radians(field / 2))
    right, up = np.meshgrid(np.linspace(-reach, reach, columns), np.linspace(reach, -reach, rows) * rows / columns)
    tilt = np.radians(pitch)
    forward, rise = np.cos(tilt) - up * np.sin(tilt), np.sin(tilt) + up * np.cos(tilt)
    column = ((np.degrees(np.arctan2(right, forward)) + yaw) / 360 + 0.5) * width - 0.5
    row = np.clip(
        (0.5 - np.degrees(np.arctan2(rise, np.hypot(right, forward))) / 180) * height - 0.5, 0, height - 1.001
    )
    x, y = np.floor(column).astype(int), np.floor(row).astype(int)
    u, v = (column - x)[..., None], (row - y)[..., None]
    top = pixels[y, x % width] * (1 - u) + pixels[y, (x + 1) % width] * u
    bottom = pixels[y + 1, x % width] * (1 - u) + pixels[y + 1, (x + 1) % width] * u
    return Image.fromarray((top * (1 - v) + bottom * v + 0.5).astype(np.uint8))


def watermarked(image: Image.Image) -> Image.Image:
    """Marks a test key's picture all over, lightly enough to judge the scene by it."""
    layer = Image.new("RGBA", image.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    font = ImageFont.load_default(max(10, image.width // 22))
    step_x, step_y = image.width // 4, image.height // 5
    for row in range(5):
        for column in range(-1, 4):
            at = (column * step_x + (row % 2) * step_x // 2 + step_x // 6, row * step_y + step_y // 3)
            draw.text((at[0] + 1, at[1] + 1), "TEST", fill=(0, 0, 0, 70), font=font)
            draw.text(at, "TEST", fill=(255, 255, 255, 110), font=font)
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")
