"""The page of a made-up run."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
sys.dont_write_bytecode = True
import benchmark_page

SIDES = ["Hammock, recorded", "Hammock, compiled", "Hammock, compiled, memory_budget 0.7",
         "PyTorch 2.11.0, eager", "PyTorch 2.11.0, compile"]


def made_up_run(sides):
    results = [{"row": "a model", "side": side, "ms": 10.0 + i, "min": 9.5 + i, "first": 2000, "peak": 3 << 30}
               for i, side in enumerate(sides)]
    failed = {"row": "another", "side": "compile", "why": "not supported"}
    return {"device": "cuda", "machine": "a GPU", "threads": 2, "date": "2026-01-31", "load": 1,
            "results": results + [failed]}


class BenchmarkPage(unittest.TestCase):
    def test_every_side_has_a_colour_of_its_own(self):
        colours = benchmark_page.colours_of(SIDES)
        self.assertEqual(len(set(colours.values())), len(SIDES))

    def test_legends_stay_in_the_picture(self):
        picture = benchmark_page.picture(made_up_run(SIDES))
        width = int(re.search(r'<svg [^>]*width="(\d+)"', picture)[1])
        legend = [int(re.search(rf'<text x="(\d+)" y="\d+" >{re.escape(side)}<', picture)[1]) for side in SIDES]
        for x, side in zip(legend, SIDES):
            self.assertLess(x + 6.5 * len(side), width, side)
        self.assertEqual(len(re.findall('height="12"', picture)), 2 * len(SIDES))  # legend and bars

    def test_tables_have_medians_minima_and_ratios(self):
        table = benchmark_page.table(made_up_run(SIDES)).splitlines()
        self.assertIn("| Hammock, compiled, memory_budget 0.7 |", table[0])
        self.assertIn("| 10 (min 9.5, first 2 s, 3 GiB) |", table[2])
        self.assertTrue(table[2].endswith("| 1.30x |"), table[2])
        self.assertEqual(table[3], "| another " + "| - " * (len(SIDES) + 1) + "|")


if __name__ == "__main__":
    unittest.main()
