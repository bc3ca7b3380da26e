"""How a large picture is cut into renderings."""

from __future__ import annotations

import unittest

import numpy as np

from scene import camera
from scene.camera import Quality


class Tiles(unittest.TestCase):
    def test_every_pixel_is_rendered_once(self) -> None:
        for width in (64, 1024, 2048, 2050, 2886, 4096):
            with self.subTest(width=width):
                quality = Quality(width, width // 2, 1)
                times = np.zeros((quality.height, quality.width), dtype=int)
                for tile in camera.tiles(quality):
                    times[tile.top : tile.bottom, tile.left : tile.right] += 1
                self.assertEqual((times.min(), times.max()), (1, 1))

    def test_no_rendering_is_larger_than_its_limit(self) -> None:
        for width in (1024, 2048, 2886, 4096):
            for tile in camera.tiles(Quality(width, width // 2, 1)):
                pixels = (tile.right - tile.left) // tile.squeeze * (tile.bottom - tile.top)
                self.assertLessEqual(pixels, camera.MOST_PIXELS * 1.01, tile)
                self.assertEqual((tile.left % tile.squeeze, tile.right % tile.squeeze), (0, 0), tile)

    def test_a_large_picture_is_half_as_wide_above_and_below(self) -> None:
        squeezed = {(tile.top, tile.bottom) for tile in camera.tiles(Quality(4096, 2048, 1)) if tile.squeeze == 2}
        self.assertEqual(squeezed, {(0, 512), (1536, 2048)})

    def test_a_tile_fades_in_where_another_was_before(self) -> None:
        mask = np.asarray(camera.blend((200, 100), True, False))
        self.assertEqual((mask[0, 0], mask[99, 199]), (2, 255))
        self.assertTrue((np.diff(mask[50].astype(int)) >= 0).all())


if __name__ == "__main__":
    unittest.main()
