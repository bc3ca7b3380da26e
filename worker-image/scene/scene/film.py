"""A film's poster as a frame of film, so that nobody takes it for a photograph. The viewer draws the same in `film.ts`."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw

BAND = 0.125
"""The share of a frame's height that each of its perforated bands takes."""
BLACK, HOLE = "#16130f", "#e9e2d3"
HEIGHT = 800


def frame(poster: Path, scratch: Path) -> Path:
    """The poster between two perforated bands, with the triangle by which everybody knows a film."""
    with Image.open(poster) as image:
        height = min(HEIGHT, round(image.height / (1 - 2 * BAND)))
        inner = round(height * (1 - 2 * BAND))
        width = max(1, round(inner * image.width / image.height))
        film = Image.new("RGB", (width, height), BLACK)
        film.paste(image.convert("RGB").resize((width, inner)), (0, round(height * BAND)))
    draw = ImageDraw.Draw(film, "RGBA")
    pitch = width / max(2, round(width / (height * 0.11)))
    wide, tall = pitch * 0.5, height * BAND * 0.5
    for number in range(round(width / pitch)):
        x = (number + 0.5) * pitch - wide / 2
        for top in (height * BAND / 2, height * (1 - BAND / 2)):
            draw.rounded_rectangle((x, top - tall / 2, x + wide, top + tall / 2), wide * 0.22, HOLE)
    middle, radius = (width / 2, height / 2), min(width, inner) * 0.15
    draw.ellipse((*(m - radius for m in middle), *(m + radius for m in middle)), (15, 12, 9, 150))
    points = [(middle[0] + radius * x, middle[1] + radius * y) for x, y in ((-0.32, -0.52), (0.58, 0), (-0.32, 0.52))]
    draw.polygon(points, "#ffffff")
    file = scratch / f"film {poster.stem}.png"
    film.save(file, "PNG", compress_level=1)
    return file
