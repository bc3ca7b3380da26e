"""Bad jobs, cancelling, and what never leaves the worker."""

from __future__ import annotations

import base64
import json
import signal
import tempfile
import unittest
from pathlib import Path

from PIL import Image

from scene import belongings, lettering
from scene.job import parse
from scene.protocol import BAD_JOB, CANCELLED, DONE, JobError

from .harness import LIMIT, files, job, picture, run, start


class BadJobs(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.scratch = Path(temporary.name)

    def field(self, text: str) -> str:
        with self.assertRaises(JobError) as raised:
            parse(text, self.scratch)
        return raised.exception.field

    def test_the_error_names_the_field(self) -> None:
        broken = base64.b64encode(b"\x89PNG\r\n\x1a\nnothing").decode("ascii")
        whole, bitmap = picture((8, 8), (1, 2, 3)), picture((8, 8), (1, 2, 3), "BMP")
        cases = {
            "seed": {"seed": "not hex"},
            "variation": {"variation": [1]},
            "watermark": {"watermark": "yes"},
            "preview.width": {"preview": {"width": 4098}},
            "full.samples": {"full": {"samples": 0}},
            "patient": {"patient": "x"},
            "images[1].data": {"images": [{"data": whole, "label": ""}, {"data": broken, "label": ""}]},
            "images[0].data": {"images": [{"data": "no base64", "label": ""}]},
            "videos[0].data": {"videos": [{"label": "no poster"}]},
            "belongings[0].label": {"belongings": [{"label": " "}]},
            "belongings[0].data": {"belongings": [{"label": "x", "data": bitmap}]},
            "belongings": {"belongings": [{"label": "x"}] * 101},
        }
        for field, changes in cases.items():
            with self.subTest(field=field):
                self.assertEqual(self.field(json.dumps(job("home", **changes))), field)
        self.assertEqual(self.field(json.dumps(job("moon"))), "environment")
        self.assertEqual(self.field("{"), "")
        self.assertEqual(self.field("[]"), "")

    def test_labels_in_any_script_are_taken(self) -> None:
        labels = ["Großmutters Löffel", "石", "كتاب", "🎈", "x" * 200]
        parsed = parse(
            json.dumps(job("home", belongings=[{"label": label} for label in labels])), self.scratch
        )
        self.assertEqual([item.label for item in parsed.items if item.kind == "belonging"], labels)

    def test_the_process_sends_one_error_line_and_its_exit_code(self) -> None:
        code, events = run(json.dumps(job("attic")))
        self.assertEqual(code, BAD_JOB)
        self.assertEqual([event["event"] for event in events], ["ready", "error"])
        self.assertEqual(events[1]["field"], "environment")
        self.assertIn("garden, home, porch", events[1]["message"])

    def test_no_job_at_all_is_no_error(self) -> None:
        process = start()
        out, _ = process.communicate("", timeout=LIMIT)
        self.assertEqual((process.returncode, out), (DONE, '{"event":"ready"}\n'))

    def test_a_term_signal_ends_it_at_once(self) -> None:
        process = start()
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(job("home", preview={"width": 512, "samples": 1024})) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if '"preview"' in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, CANCELLED)


class Words(unittest.TestCase):
    def test_labels_find_their_models(self) -> None:
        cases = {
            "Grandpa's old RADIO": "radio",
            "two tea cups": "cup",
            "sewing machine": "sewing machine",
            "dog": "dog bed",
            "wall clock": "wall clock",
            "clock": "clock",
            "Flowers": "flowers",
            "reading glasses": None,
            "carpet": None,
            "": None,
        }
        for label, name in cases.items():
            with self.subTest(label=label):
                found = belongings.find(label)
                self.assertEqual(found and found.name, name)


class Lettering(unittest.TestCase):
    def test_a_label_of_any_script_and_length_fits_its_page(self) -> None:
        for label in ("Großmutters Löffel", "石", "كتاب جدتي", "ספר", "किताब", "🧵", "W" * 200, "a\x07\u202eb", "--help"):
            with self.subTest(label=label), tempfile.TemporaryDirectory() as scratch:
                with Image.open(lettering.page(label, (0.2, 0.15), Path(scratch), 0.5)) as page:
                    self.assertEqual(page.size, (720, 540))
                    self.assertGreater(len(page.getcolors(1 << 20)), 10, "there is ink")
                    upper = page.crop((0, 0, 720, 270)).getcolors()
                    self.assertEqual(upper, [(720 * 270, (0xFB, 0xF3, 0xDF))], "the upper half stays free")

    def test_a_label_without_words_leaves_the_page_empty(self) -> None:
        with tempfile.TemporaryDirectory() as scratch, Image.open(lettering.page(" ", (1, 1), Path(scratch), 0)) as page:
            self.assertEqual(page.getcolors(), [(720 * 720, (0xFB, 0xF3, 0xDF))])


class Privacy(unittest.TestCase):
    def test_pictures_hold_no_text_but_the_panorama_data(self) -> None:
        for name in ("scene.jpg", "scene.png", "preview.jpg", "thumbnail.jpg", "depth.png"):
            with self.subTest(file=name):
                data = (files("home") / name).read_bytes()
                for word in (b"w_test", b"0123456789abcdef", b"The lake", b"RenderTime", b"/tmp"):
                    self.assertNotIn(word, data)


if __name__ == "__main__":
    unittest.main()
