"""Models of belongings, found by the words of their labels."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..model import Model


@dataclass(frozen=True)
class Kit:
    """What a belonging is made with: chance, and the colours of its surroundings."""

    random: random.Random
    numbers: np.random.Generator
    palette: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Belonging:
    name: str
    words: tuple[str, ...]
    stands: str
    """The style of spot it needs: surface, floor or hook."""
    make: Callable[[Kit], Model]


KNOWN: list[Belonging] = []


def belonging(*words: str, stands: str = "surface") -> Callable[[Callable[[Kit], Model]], Callable[[Kit], Model]]:
    """Registers a model under its function's name and further words that a label may use for it."""

    def register(make: Callable[[Kit], Model]) -> Callable[[Kit], Model]:
        name = make.__name__.replace("_", " ")
        KNOWN.append(Belonging(name, (name, *words), stands, make))
        return make

    return register


def find(label: str) -> Belonging | None:
    """The belonging that a label names. The longest match wins: a "camera bag" is a bag if bags are known."""
    text = " ".join(["", *(singular(word) for word in re.findall(r"[^\W_]+", label.lower())), ""])
    matches = [
        (len(word), -text.index(f" {word} "), known) for known in KNOWN for word in known.words if f" {word} " in text
    ]
    return max(matches, key=lambda match: match[:2])[2] if matches else None


def singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


from . import household, music, tableware, textiles  # noqa: E402  (each module registers its models)
