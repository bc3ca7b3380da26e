"""What every environment's scene must have, and what makes two scenes the same."""

from __future__ import annotations

import itertools
import json
import unittest
from typing import Any

import numpy as np
from PIL import Image

from .harness import files, rendered

ENVIRONMENTS = ("garden", "home", "porch")


def hotspots(environment: str, **which: Any) -> dict[str, Any]:
    return json.loads((files(environment, **which) / "hotspots.json").read_text())


def pixels(environment: str, **which: Any) -> np.ndarray:
    return np.asarray(Image.open(files(environment, **which) / "scene.png"), dtype=float)


class Scenes(unittest.TestCase):
    def test_all_files_are_there_in_their_sizes(self) -> None:
        sizes = {
            "preview.jpg": (128, 64),
            "scene.jpg": (128, 64),
            "scene.png": (128, 64),
            "depth.png": (128, 64),
            "thumbnail.jpg": (640, 360),
        }
        for environment, (name, size) in itertools.product(ENVIRONMENTS, sizes.items()):
            with self.subTest(environment=environment, file=name), Image.open(files(environment) / name) as image:
                self.assertEqual(image.size, size)

    def test_panoramas_say_that_they_are(self) -> None:
        for environment in ENVIRONMENTS:
            with self.subTest(environment=environment):
                data = (files(environment) / "scene.jpg").read_bytes()
                for part in (
                    b"http://ns.adobe.com/xap/1.0/\0",
                    b'ProjectionType="equirectangular"',
                    b'FullPanoWidthPixels="128"',
                    b'FullPanoHeightPixels="64"',
                    b"PoseHeadingDegrees",
                    b"InitialViewHeadingDegrees",
                ):
                    self.assertIn(part, data)

    def test_depth_has_16_bits_and_near_and_far_places(self) -> None:
        for environment in ENVIRONMENTS:
            with self.subTest(environment=environment):
                depth = np.asarray(Image.open(files(environment) / "depth.png")).astype(float) / 65535 * 200
                # The floor lies a seated eye's height below the camera.
                self.assertAlmostEqual(float(np.median(depth[-1])), 1.15, delta=0.1)
                self.assertGreater(depth.max(), 2.5)

    def test_every_item_has_a_direction_of_its_own(self) -> None:
        for environment in ENVIRONMENTS:
            with self.subTest(environment=environment):
                described = hotspots(environment)
                items = described["items"]
                self.assertEqual(described["unplaced"], [])
                self.assertEqual(
                    sorted(item["label"] for item in items),
                    ["A tower", "A walk", "Blue teapots", "Guitar", "Lucky stone", "Radio", "The lake"],
                )
                for item in items:
                    self.assertTrue(-180 <= item["yaw"] <= 180 and -60 <= item["pitch"] <= 40, item)
                    self.assertTrue(2 < item["width"] < 60 and 1 < item["height"] < 60, item)
                for one, other in itertools.combinations(items, 2):
                    apart_x = abs((one["yaw"] - other["yaw"] + 180) % 360 - 180) >= (one["width"] + other["width"]) / 2
                    apart_y = abs(one["pitch"] - other["pitch"]) >= (one["height"] + other["height"]) / 2
                    self.assertTrue(apart_x or apart_y, (one, other))

    def test_pictures_have_corners_and_other_things_have_none(self) -> None:
        for environment in ENVIRONMENTS:
            for item in hotspots(environment)["items"]:
                with self.subTest(environment=environment, item=item["label"]):
                    if item["kind"] == "belonging":
                        self.assertIsNone(item["corners"])
                        continue
                    (left, top), (right, _), (_, bottom), _ = item["corners"]
                    self.assertTrue(0 < (right - left + 360) % 360 <= item["width"] + 0.1, item)
                    self.assertTrue(0 < top - bottom <= item["height"] + 0.1, item)

    def test_it_starts_at_the_first_image(self) -> None:
        for environment in ENVIRONMENTS:
            with self.subTest(environment=environment):
                described = hotspots(environment)
                first = next(item for item in described["items"] if item["label"] == "The lake")
                self.assertEqual(described["initial_view"]["yaw"], first["yaw"])
                self.assertLess(abs(first["yaw"]), 45)

    def test_an_unknown_belonging_becomes_a_card_and_known_ones_do_not(self) -> None:
        for environment in ENVIRONMENTS:
            with self.subTest(environment=environment):
                shown = {item["label"]: item["shown_as"] for item in hotspots(environment)["items"]}
                self.assertEqual(
                    (shown["Lucky stone"], shown["Radio"], shown["Blue teapots"], shown["Guitar"]),
                    ("card", "radio", "teapot", "guitar"),
                )

    def test_there_is_no_dark_patch_at_the_feet(self) -> None:
        for environment in ENVIRONMENTS:
            with self.subTest(environment=environment):
                cap = pixels(environment)[-13:]
                self.assertGreater((cap @ (0.2126, 0.7152, 0.0722)).mean(), 70)

    def test_the_ends_of_a_picture_go_on_in_each_other(self) -> None:
        for environment in ENVIRONMENTS:
            with self.subTest(environment=environment):
                columns = pixels(environment)
                middle = columns.shape[1] // 2
                for end, inside in ((0, 2), (-1, -3)):
                    like = np.abs(columns[:, end] - columns[:, inside]).mean()
                    unlike = np.abs(columns[:, end] - columns[:, middle]).mean()
                    self.assertLess(like, unlike)

    def test_the_same_seed_makes_the_same_scene(self) -> None:
        self.assertEqual(hotspots("home"), hotspots("home", again=1))
        self.assertLess(np.abs(pixels("home") - pixels("home", again=1)).mean(), 2)

    def test_another_seed_makes_another_scene(self) -> None:
        self.assertGreater(np.abs(pixels("home") - pixels("home", seed="fedcba9876543210")).mean(), 5)

    def test_progress_runs_from_build_to_done(self) -> None:
        _, events = rendered("home")
        self.assertEqual(events[0]["event"], "ready")
        self.assertEqual(events[-1]["event"], "done")
        stages = [
            key for key, _ in itertools.groupby(event["stage"] for event in events if event["event"] == "progress")
        ]
        self.assertEqual(stages, ["build", "preview", "full"])


if __name__ == "__main__":
    unittest.main()
