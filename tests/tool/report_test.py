"""Looks at a report in a headless Chromium, light and dark: clicks, keys, search, pictures.

    report_test.py TOOL TRAINING FOLDER

Exits with 77 where there is no Chromium.
"""

import os
import subprocess
import sys
import unittest

import browser

TOOL, TRAINING, FOLDER = sys.argv[1:4]


def make_report(model):
    profile, page = (os.path.join(FOLDER, model + end) for end in (".json", ".html"))
    environment = dict(os.environ, HAMMOCK_PROFILE_FILE=profile, HAMMOCK_DEVICE="cpu")
    subprocess.run([TRAINING, model], check=True, env=environment)
    subprocess.run([TOOL, "report", profile, "-o", page], check=True)
    return "file://" + page


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.url = make_report("mlp")
        cls.page = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.page.__exit__()

    def tearDown(self):
        self.assertEqual(self.page.errors, [])

    def text(self, selector):
        return self.page.value(f"document.querySelector({selector!r}).textContent")

    def test_overview_counts_what_happened(self):
        self.page.open(self.url)
        text = self.text("#overview")
        for part in ("ops traced", "graphs compiled", "cache hits", "peak memory", "tracing",
                     "compiling", "running", "Slowest kernels", "dot_general"):
            self.assertIn(part, text)
        self.assertEqual(self.page.value("document.querySelectorAll('#kernels tbody tr').length"), 12)

    def test_data_is_never_markup(self):
        self.page.open(self.url)
        self.assertIsNone(self.page.value("document.getElementById('planted')"))
        self.page.open(self.url + "#tab=graphs&search=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        self.assertEqual(self.text("#search-count"), "nothing found")
        self.assertEqual(self.page.value("document.querySelectorAll('img').length"), 0)

    def test_a_click_on_a_node_shows_its_details(self):
        self.page.open(self.url + "#tab=graphs")
        product = self.page.value(
            "data.graphs[view.index].nodes.findIndex((node) => node.op === 'dot_general')")
        self.page.value(f"reveal(view.graph.nodes[{product}].box)")
        self.page.click(self.page.center(f"[data-node='{product}'] rect"))
        self.assertEqual(self.text("#details-title"), "dot_general")
        details = self.text("#details")
        for part in ("f32[32,", "traced_training.cpp:", "Inputs", "Used by", "median", "GFLOP/s"):
            self.assertIn(part, details)
        self.assertIn("call dot_general", self.text("#kernel-text"))
        self.assertTrue(self.page.value(
            f"document.querySelector(\"[data-node='{product}']\").classList.contains('selected')"))
        self.assertIn(f"select={product}", self.page.value("location.hash"))

    def test_a_click_on_a_box_shows_the_kernel(self):
        self.page.open(self.url + "#tab=graphs")
        self.page.value("fit()")
        x, y = self.page.value("""(() => {
            const kernel = document.querySelector('.kernel rect');
            const box = kernel.getBoundingClientRect();
            for (let x = box.left + 1; x < box.right; ++x) {
                for (let y = box.top + 1; y < box.bottom; ++y) {
                    if (document.elementFromPoint(x, y) === kernel) return [x, y];
                }
            }
        })()""")
        self.page.click([x, y])
        self.assertIn("Nodes", self.text("#details"))
        self.assertIn("kernel=", self.page.value("location.hash"))

    def test_search_finds_nodes(self):
        self.page.open(self.url + "#tab=graphs")
        self.page.click(self.page.center("#search"))
        self.page.type("reduce_")
        found = self.page.value(
            "view.nodes.filter((node) => node.classList.contains('match')).length")
        expected = self.page.value("""data.graphs[view.index].nodes.filter((node) =>
            node.op.includes('reduce_') || (node.kernel !== undefined &&
            data.graphs[view.index].kernels[node.kernel].name.includes('reduce_'))).length""")
        self.assertEqual(found, expected)
        self.assertGreater(found, 0)
        self.assertEqual(self.text("#search-count"), f"{found} nodes")
        self.page.key("Enter")
        self.assertIn(f"1 of {found} nodes", self.text("#search-count"))
        visible = self.page.value("""(() => {
            const node = document.querySelector('.node.selected').getBoundingClientRect();
            const room = document.querySelector('#graph').getBoundingClientRect();
            return node.left >= room.left && node.right <= room.right && node.top >= room.top &&
                node.bottom <= room.bottom;
        })()""")
        self.assertTrue(visible)

    def test_keys_walk_and_zoom(self):
        self.page.open(self.url + "#tab=graphs&select=0")
        self.page.value("document.querySelector('#graph').focus()")
        self.page.key("ArrowDown")
        user = self.page.value("view.selected")
        self.assertIn(0, self.page.value(f"view.graph.nodes[{user}].in"))
        before = self.page.value("view.scale")
        self.page.key("+")
        self.assertGreater(self.page.value("view.scale"), before)
        self.page.key("Escape")
        self.assertIsNone(self.page.value("view.selected"))
        self.page.key("/")
        self.assertEqual(self.page.value("document.activeElement.id"), "search")

    def test_a_link_opens_what_it_names(self):
        self.page.open(self.url + "#graph=2&select=3")
        self.assertEqual(self.page.value("view.graph.graph"), 2)
        self.assertEqual(self.page.value("view.selected"), 3)
        self.assertFalse(self.page.value("document.getElementById('graphs').hidden"))

    def test_the_timeline_names_a_span(self):
        self.page.open(self.url + "#tab=timeline")
        place = self.page.value("""(() => {
            const room = document.querySelector('#time-canvas').getBoundingClientRect();
            const row = clock.rows[0];
            const span = row.thread.spans.find((span) => span[0] === 'compile');
            const middle = span[2] + span[3] / 2;
            return [room.left + (middle - clock.from) / (clock.to - clock.from) * room.width,
                room.top + row.y + span[4] * lane + 8];
        })()""")
        self.page.click(place)
        self.assertIn("compile", self.text("#span-details"))

    def test_memory_and_recompiles(self):
        self.page.open(self.url + "#tab=memory")
        self.assertIn("planned peak", self.text("#memory"))
        self.page.open(self.url + "#tab=recompiles")
        self.assertEqual(self.page.value("document.querySelectorAll('.miss').length"),
                         self.page.value("data.misses.length"))
        self.assertIn("other sizes need no compile any more", self.text("#recompiles"))

    def test_pictures_in_light_and_dark(self):
        pictures = []
        for dark in (False, True):
            self.page.set_dark(dark)
            for tab in ("overview", "graphs", "timeline", "memory", "recompiles"):
                self.page.open(self.url + "#tab=" + tab)
                name = f"report_{tab}{'_dark' if dark else ''}.png"
                pictures.append(self.page.screenshot(os.path.join(FOLDER, name)))
        self.page.set_dark(False)
        self.assertEqual(len(set(pictures)), len(pictures))
        self.assertTrue(all(len(picture) > 10000 for picture in pictures))


class LargeReport(unittest.TestCase):
    def test_thousands_of_nodes_are_quick(self):
        url = make_report("transformer")
        with browser.Browser() as page:
            page.open(url + "#tab=graphs")
            self.assertGreater(page.value("view.graph.nodes.length"), 2000)
            ms = page.value("""(() => {
                const start = performance.now();
                drawGraph(); fit(); search("dot_general"); nextMatch(1);
                document.querySelector('.node.selected').getBoundingClientRect();
                return performance.now() - start;
            })()""")
            self.assertLess(ms, 3000)
            self.assertEqual(page.errors, [])


if __name__ == "__main__":
    if not browser.find():
        print("there is no Chromium (Debian package chromium): the report is not looked at")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
