"""Words as a picture. Pango sets them, since Blender neither turns the direction of writing nor joins letters and marks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from PIL import Image

LONGEST_LABEL = 80
WIDTH = 720
"""Pixels of a page's width."""
SIZES = (100, 84, 70, 58, 48, 40, 33, 27)
MARGIN = 24
PAPER, INK = "#fbf3df", "#4a2f1c"
FONTS = "Noto Sans,Noto Naskh Arabic,Noto Sans Thai,Noto Color Emoji"
TIME = 30
"""Seconds for one setting of a label."""


def page(label: str, size: tuple[float, float], scratch: Path, below: float) -> Path:
    """A sheet of these proportions with a label in as large a type as fits, in the part that is `below` this share of it."""
    width, height = WIDTH, round(WIDTH * size[1] / size[0])
    top = round(height * below)
    box = (width - 2 * MARGIN, height - top - 2 * MARGIN)
    file = scratch / f"words {len(list(scratch.glob('words *')))}.png"
    with Image.new("RGB", (width, height), PAPER) as sheet:
        if words := shortened(label):
            with set_words(words, box, file) as setting:
                shown = setting.convert("RGB").crop((0, 0, setting.width, min(setting.height, box[1])))
                sheet.paste(shown, ((width - shown.width) // 2, top + (height - top - shown.height) // 2))
        sheet.save(file)
    return file


def shortened(label: str) -> str:
    """A label on one line, without characters that control a terminal or the setting."""
    text = " ".join("".join(c for c in label if c.isprintable() or c.isspace() or c in "\u200c\u200d").split())
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1].rstrip() + "…"


def set_words(words: str, box: tuple[int, int], file: Path) -> Image.Image:
    """The words in the largest type in which they fit the box, or else in the smallest."""
    for size in SIZES:
        command = ["pango-view", "--no-display", "--backend=cairo", "--pixels", "--dpi=72", "--align=center"]
        command += [f"--width={box[0]}", "--wrap=word", "--margin=6", f"--foreground={INK}", f"--background={PAPER}"]
        command += [f"--font={FONTS} {size}", f"--output={file}", f"--text={words}"]
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "XDG_CACHE_HOME": str(file.parent)}
        subprocess.run(command, check=True, timeout=TIME, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        setting = Image.open(file)
        setting.load()
        if setting.width <= box[0] + 12 and setting.height <= box[1]:
            break
    return setting
