# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The pages of `millrace trace` and `millrace graph html`, by what a headless Chromium draws."""

import json
import os
import subprocess
import tempfile
import unittest

import browser
import program
from program import field

SCREENSHOTS = os.environ.get("MILLRACE_SCREENSHOTS")  # a folder, for people to look at


class PageTest(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.profile = tempfile.TemporaryDirectory()
        cls.browser = browser.Browser(cls.profile.name)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.profile.cleanup()

    def open(self, path, width=1200, height=800, dark=False):
        self.browser.errors.clear()
        self.browser.open("file://" + path, width=width, height=height, dark=dark)
        self.wait("document.readyState === 'complete' && document.querySelector('#theme')?.textContent")
        self.js("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
        self.assertEqual(self.browser.errors, [])

    def js(self, expression):
        return self.browser.run(expression)

    def wait(self, expression):
        return self.browser.wait(expression)

    def screenshot(self, name):
        if SCREENSHOTS:
            self.browser.screenshot(os.path.join(SCREENSHOTS, name + ".png"))

    def key(self, key, text=None):
        more = {"text": text} if text else {}
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **more)
        self.browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def click(self, x, y, count=1):
        for n in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.browser.mouse(kind, x, y, button="left", clickCount=n)


def micros(name, op, start, length, thread=1):
    """A NodeExecStats."""
    return (
        field(1, name)
        + field(2, start)
        + field(3, 0)
        + field(4, length)
        + field(5, length)
        + field(8, f"{name} = {op}()")
        + field(9, start)
        + field(10, thread)
    )


def run_metadata(*nodes):
    device = field(1, "/job:localhost/replica:0/task:0/device:CPU:0") + b"".join(field(2, n) for n in nodes)
    return field(1, field(1, device))


SECOND = 1_000_000


class TracePageTest(PageTest):
    def draw(self, *nodes, **how):
        self.write("step.pb", run_metadata(*nodes))
        self.run_program("trace", "step.pb", "-o", "step.html")
        self.open(self.path("step.html"), **how)

    def pixel(self, at, row=0, down=0.5):
        """The colour that is drawn at a part of the time axis, in the middle of a row."""
        return self.js(
            f"""(() => {{
              const canvas = document.getElementById('canvas'), line = rows[{row}];
              const x = xOf({at} * length), y = line.top + (kRow - kBar) / 2 + kBar * {down} - scroll;
              return [...canvas.getContext('2d').getImageData(Math.round(x), Math.round(y), 1, 1).data].slice(0, 3);
            }})()"""
        )

    def colour(self, expression):
        """Of a theme or an op, as the canvas paints it."""
        return self.js(
            f"""(() => {{
              const c = document.createElement('canvas').getContext('2d');
              c.fillStyle = {expression};
              c.fillRect(0, 0, 1, 1);
              return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3);
            }})()"""
        )

    def op_colour(self, op):
        return self.colour(f"colours[data.ops.indexOf({json.dumps(op)})]")

    def test_a_narrow_event_does_not_hide_a_wide_one(self):
        # All three start in the first pixel; the last is half of the step.
        self.draw(
            micros("a", "Narrow", 0, 1),
            micros("b", "Narrow", 1, 1),
            micros("c", "Wide", 2, SECOND // 2),
            micros("d", "Late", SECOND - 10, 10),
        )
        for at in (0.1, 0.25, 0.45):
            self.assertEqual(self.pixel(at, down=0.2), self.op_colour("Wide"), at)
        self.assertEqual(self.pixel(0.7), self.colour("paint.card"))

    def test_every_wide_event_is_drawn(self):
        # A narrow one before each of 20 wide ones, at many widths of the window.
        nodes = []
        for i in range(20):
            start = i * SECOND // 20
            nodes += [micros(f"n{i}", "Narrow", start, 3), micros(f"w{i}", "Wide", start + 3, SECOND // 20 - 10)]
        for width in (700, 1200, 1601):
            self.draw(*nodes, width=width)
            for i in range(20):
                self.assertEqual(self.pixel((i + 0.7) / 20, down=0.2), self.op_colour("Wide"), (i, width))

    def test_a_hit_among_thousands_is_marked(self):
        nodes = [micros(f"n{i}", "Add", 2 * i, 1) for i in range(5000)]
        nodes.append(micros("needle", "Add", 10001, 1))
        nodes.append(micros("end", "Late", SECOND, 10))
        self.draw(*nodes)
        self.js("byId('search').value = 'needle'; byId('search').dispatchEvent(new Event('input'))")
        self.js("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
        painted = self.js(
            """(() => {
              const canvas = document.getElementById('canvas'), y = rows[0].top + kRow / 2;
              const from = Math.floor(xOf(0)), pixels = canvas.getContext('2d').getImageData(from, y, 40, 1).data;
              return Array.from({length: 40}, (_, i) => [...pixels.slice(4 * i, 4 * i + 3)]);
            })()"""
        )
        self.assertIn(self.colour("paint.hit"), painted)
        self.key("Enter")
        self.js("byId('search').focus()")
        self.key("Enter", "\r")
        self.assertEqual(self.js("document.querySelector('#details h2').textContent"), "needle")

    def test_the_longest_events_are_bars_that_answer(self):
        self.draw(
            micros("first", "Narrow", 0, 1),
            micros("long", "Wide", 1, SECOND // 2),
            micros("other", "Late", SECOND // 2 + 10, SECOND // 2, thread=2),
        )
        self.screenshot("trace")
        box = self.js(
            "(() => { const b = byId('canvas').getBoundingClientRect(); return [b.x + xOf(length / 4), b.y + rows[0].top + kRow / 2]; })()"
        )
        self.browser.mouse("mouseMoved", *box)
        self.assertIn("long", self.wait("!byId('tip').hidden && byId('tip').textContent"))
        tip = self.js("(({left, top, right, bottom}) => [left, top, right, bottom])(byId('tip').getBoundingClientRect())")
        self.assertGreaterEqual(min(tip), 0)
        self.assertLessEqual(tip[2], 1200)
        self.click(*box)
        self.assertEqual(self.js("document.querySelector('#details h2').textContent"), "long")
        self.key("+", "+")
        self.assertLess(self.js("view.to - view.from"), SECOND * 1000)

    def test_narrow_and_dark(self):
        self.draw(micros("a", "Wide", 0, SECOND), width=500, height=900, dark=True)
        self.assertLessEqual(self.js("document.documentElement.scrollWidth"), 500)
        self.assertLess(sum(self.pixel(-0.005)), 150)
        self.assertEqual(self.pixel(0.5, down=0.2), self.op_colour("Wide"))
        self.js("document.getElementById('theme').click()")
        self.assertEqual(self.js("document.documentElement.dataset.theme"), "light")
        self.assertEqual(self.js("document.getElementById('theme').textContent"), "Theme: light")
        self.js("localStorage.clear()")


# The boxes that are drawn, as the screen has them.
BOXES = """[...document.querySelectorAll('#scene .box')].map((box) => {
  const r = box.querySelector('rect').getBoundingClientRect();
  const {title} = boxes.find((b) => b.drawn === box);  // of an open one
  const text = [...box.querySelectorAll('text'), ...(title ? [title] : [])].map((t) => t.getBoundingClientRect());
  return {name: box.getAttribute('aria-label'), open: box.classList.contains('open'), kind: box.classList[1],
          left: r.left, top: r.top, right: r.right, bottom: r.bottom,
          textHeight: Math.min(...text.map((t) => t.height)),
          textFits: text.every((t) => t.left >= r.left - 1 && t.right <= r.right + 1)};
})"""
# How far the ends of edges are from the boxes that they belong to.
EDGE_GAPS = """edges.filter((e) => e.drawn).map((e) => {
  const at = (length) => e.drawn.getPointAtLength(length).matrixTransform(e.drawn.getScreenCTM());
  const gap = (box, p) => {
    const r = box.drawn.querySelector('rect').getBoundingClientRect();
    return Math.hypot(Math.max(r.left - p.x, 0, p.x - r.right), Math.max(r.top - p.y, 0, p.y - r.bottom));
  };
  return Math.max(gap(e.from, at(0)), gap(e.to, at(e.drawn.getTotalLength())));
})"""
STAGE = "(({left, top, right, bottom}) => ({left, top, right, bottom}))(document.getElementById('stage').getBoundingClientRect())"
LEAST_TEXT = 8.5  # pixels that a line of text is high


def contains(a, b):
    return a["left"] <= b["left"] + 1 and a["right"] >= b["right"] - 1 and a["top"] <= b["top"] + 1 and a["bottom"] >= b["bottom"] - 1


def overlap(a, b):
    return min(a["right"], b["right"]) - max(a["left"], b["left"]) > 1 and min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]) > 1


class GraphPageTest(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.networks = tempfile.TemporaryDirectory()
        import page_networks

        page_networks.write(cls.networks.name)
        for name in page_networks.NETWORKS:
            path = os.path.join(cls.networks.name, name)
            subprocess.run([program.PROGRAM, "graph", "html", path + ".pb"], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.networks.cleanup()

    def open_network(self, name, **how):
        self.open(os.path.join(self.networks.name, name + ".html"), **how)

    def boxes(self):
        return self.js(BOXES)

    def box(self, name):
        return next(b for b in self.boxes() if b["name"].split(", ")[0] == name)

    def assert_drawn_well(self, what):
        boxes, stage = self.boxes(), self.js(STAGE)
        for box in boxes:
            self.assertTrue(box["textFits"], f"{what}: {box}")
        for i, a in enumerate(boxes):
            for b in boxes[i + 1 :]:
                inside = (a["open"] and contains(a, b)) or (b["open"] and contains(b, a))
                self.assertFalse(overlap(a, b) and not inside, f"{what}: {a} and {b} overlap")
        gaps = self.js(EDGE_GAPS)
        self.assertGreater(len(gaps), 0, what)
        self.assertLess(max(gaps), 2.5, what)
        return boxes, stage

    def test_networks_are_seen_whole_and_legible(self):
        for name in ("resnet50", "resnet50_flat", "inception", "lstm_training"):
            for width in (1200, 500):
                what = f"{name} at {width}"
                self.open_network(name, width=width)
                self.screenshot(f"{name}-{width}")
                boxes, stage = self.assert_drawn_well(what)
                self.assertLessEqual(self.js("document.documentElement.scrollWidth"), width, what)
                for box in boxes:
                    self.assertTrue(contains(stage, box), f"{what}: {box} is not in {stage}")
                    self.assertGreaterEqual(box["textHeight"], LEAST_TEXT, f"{what}: {box}")
                self.assertEqual([b for b in boxes if b["kind"] == "const"], [], what)
                # Neither everything in one box nor a crowd.
                self.assertGreaterEqual(len(boxes), 5, what)
                largest = self.js("Math.max(...boxes.filter((b) => !b.open && b.parent).map((b) => b.item.nodes - b.item.constants))")
                self.assertLess(largest, 0.75 * self.js("items[0].nodes - items[0].constants"), what)

    def test_a_chain_is_cut_into_pieces_in_their_order(self):
        self.open_network("resnet50_flat")
        boxes = [b for b in self.boxes() if not b["open"]]
        # All edges go down: pieces of a chain do not read from each other in circles.
        self.assertTrue(self.js("edges.every((e) => e.from.y < e.to.y)"))
        self.assertGreaterEqual(len([b for b in boxes if b["kind"] == "group-of"]), 3)
        # A piece gives way to what is in it, and comes back.
        before = len(boxes)
        group = next(b for b in boxes if b["kind"] == "group-of")
        self.click((group["left"] + group["right"]) / 2, (group["top"] + group["bottom"]) / 2, count=2)
        after = self.assert_drawn_well("opened")[0]
        self.assertGreater(len(after), before)
        self.assertNotIn(group["name"], [b["name"] for b in after])
        self.js("select(boxes.find((b) => items[b.item.parent]?.kind === kGroup).item)")
        for _ in range(3):
            if group["name"] not in [b["name"] for b in self.boxes()]:
                self.js("document.querySelector('.fold').click()")
        self.assertIn(group["name"], [b["name"] for b in self.assert_drawn_well("folded")[0]])

    def test_constants(self):
        self.open_network("inception")
        self.js("goTo(items.find((i) => pathOf(i) === 'stem/Conv2D'))")
        names = [b["name"] for b in self.boxes()]
        self.assertIn("stem/Conv2D, Conv2D", names)
        self.assertNotIn("stem/weights, Const", names)
        self.assertFalse([n for n in names if n.endswith(", Identity")])  # of a constant
        self.key("c", "c")
        self.assertEqual(self.js("byId('constants').getAttribute('aria-pressed')"), "true")
        names = [b["name"] for b in self.assert_drawn_well("with constants")[0]]
        self.assertIn("stem/weights, Const", names)
        self.key("c", "c")
        self.assertNotIn("stem/weights, Const", [b["name"] for b in self.boxes()])
        self.write("c.pbtxt", 'node { name: "a" op: "Const" } node { name: "b" op: "Identity" input: "a" }')
        self.run_program("graph", "html", "c.pbtxt")
        self.open(self.path("c.html"))
        self.assertEqual(len(self.assert_drawn_well("constants alone")[0]), 2)

    def test_a_scope_that_shows_one_node_is_that_node(self):
        self.write("m.pbtxt", """node { name: "x" op: "Placeholder" } node { name: "sum/axis" op: "Const" }
            node { name: "sum" op: "Sum" input: "x" input: "sum/axis" }
            node { name: "out/w" op: "Const" } node { name: "out/y" op: "MatMul" input: "sum" input: "out/w" }""")
        self.run_program("graph", "html", "m.pbtxt")
        self.open(self.path("m.html") + "#out/y")
        self.assertEqual(self.js("boxes.filter((b) => b.parent).map((b) => b.label).sort()"), ["out/y", "sum", "x"])
        self.assertEqual(self.js("[...document.querySelectorAll('.box.selected')].map((b) => b.getAttribute('aria-label'))"), ["out/y, MatMul"])
        self.assert_drawn_well("alone")
        self.js("goTo(items.find((i) => i.label === 'sum' && i.node < 0))")  # the scope is where its node is
        self.assertEqual(self.js("[...document.querySelectorAll('.box.selected')].map((b) => b.getAttribute('aria-label'))"), ["sum, Sum"])
        self.key("c", "c")
        self.assertIn("out, 2 nodes, open", [b["name"] for b in self.assert_drawn_well("with constants")[0]])

    def test_titles_lie_over_edges(self):
        self.open_network("inception")
        self.assertTrue(self.js("""boxes.some((b) => b.title) && boxes.filter((b) => b.title).every((b) => edges.every((e) =>
            !e.drawn || e.drawn.compareDocumentPosition(b.title) & Node.DOCUMENT_POSITION_FOLLOWING))"""))

    def test_opening_closing_and_zoom(self):
        self.open_network("resnet50")
        box = self.box("block2")
        toggle = self.js("(({x, y, width, height}) => [x + width / 2, y + height / 2])(boxes.find((b) => b.item.label === 'block2').drawn.querySelector('.toggle').getBoundingClientRect())")
        self.click(*toggle)
        opened = self.box("block2")
        self.assertTrue(opened["open"])
        # It stays where it was.
        self.assertAlmostEqual(opened["left"], box["left"], delta=2)
        self.assertAlmostEqual(opened["top"], box["top"], delta=2)
        self.assert_drawn_well("block2 open")
        self.key("0", "0")
        boxes, stage = self.boxes(), self.js(STAGE)
        self.assertTrue(all(contains(stage, b) for b in boxes))
        before = self.box("images")
        x, y = (stage["left"] + stage["right"]) / 2, (stage["top"] + stage["bottom"]) / 2
        self.browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
        self.wait("moved")
        after = self.box("images")
        self.assertGreater(after["right"] - after["left"], 1.2 * (before["right"] - before["left"]))
        self.key("x", "x")
        self.assertFalse([b for b in self.boxes() if b["open"]])
        for _ in range(6):
            self.key("o", "o")
        self.assertGreater(len(self.assert_drawn_well("all open")[0]), 200)
        self.screenshot("resnet50-open")

    def test_search_keys_and_tips(self):
        self.open_network("lstm_training")
        self.js("document.body.focus()")
        self.key("/", "/")
        self.assertEqual(self.js("document.activeElement.id"), "search")
        self.browser.call("Input.insertText", text="op:MatMul")
        self.assertIn("match", self.js("byId('matches').textContent"))
        self.key("Enter", "\r")
        name = self.js("document.querySelector('#details h2').textContent")
        self.assertIn("MatMul", name)
        hit, stage = self.box(name), self.js(STAGE)
        self.assertTrue(contains(stage, hit), f"{hit} {stage}")
        stroke = self.js("getComputedStyle(document.querySelector('.box.selected > rect')).stroke")
        self.assertEqual(stroke, self.js("(() => { const p = make('p', {style: 'color: var(--accent)'}); document.body.append(p); return getComputedStyle(p).color; })()"))
        self.assert_drawn_well("after a search")
        self.screenshot("lstm-search")
        self.key("Escape")
        self.key("Escape")
        # The tip describes the item under the pointer.
        self.browser.mouse("mouseMoved", (hit["left"] + hit["right"]) / 2, (hit["top"] + hit["bottom"]) / 2)
        self.assertIn("transpose_a", self.wait("!byId('tip').hidden && byId('tip').textContent"))
        # Boxes are reached with Tab, and opened with Enter.
        self.key("x", "x")
        self.key("o", "o")
        self.js("boxes.find((b) => !b.open && canOpen(b.item) && b.item.kind === kScope && b.parent).drawn.focus()")
        focused = self.js("document.activeElement.dataset.item")
        count = len(self.boxes())
        self.key("Enter", "\r")
        self.assertGreater(len(self.boxes()), count)
        self.assertEqual(self.js("document.activeElement.dataset.item"), focused)

    def test_dark_and_names_in_the_address(self):
        self.open_network("resnet50", dark=True)
        self.assertEqual(self.js("document.documentElement.dataset.theme"), "dark")
        self.assertLess(self.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + Number(b), 0)"), 150)
        self.screenshot("resnet50-dark")
        path = os.path.join(self.networks.name, "resnet50.html")
        self.browser.open("about:blank")
        self.open(path + "#block3/unit_2/conv1/Conv2D")
        box = self.box("block3/unit_2/conv1/Conv2D")
        self.assertTrue(contains(self.js(STAGE), box))

    def test_odd_graphs(self):
        nodes = "".join(f'node {{ name: "n{i}" op: "NoOp" }}' for i in range(300))
        loop = 'node { name: "a" op: "Merge" input: "c" } node { name: "b" op: "Neg" input: "a" } node { name: "c" op: "Neg" input: "b" }'
        dense = "".join(
            f'node {{ name: "d{i}" op: "ConcatV2" ' + " ".join(f'input: "d{k}"' for k in range(i)) + " }" for i in range(120)
        )
        hostile = 'node { name: "</script><b>" op: "<img src=x onerror=alert(1)>" } node { name: "z" op: "Neg" input: "</script><b>" }'
        for name, text in (("apart", nodes), ("loop", loop), ("dense", dense), ("hostile", hostile), ("one", 'node { name: "a" op: "NoOp" }')):
            self.write(name + ".pbtxt", text)
            self.run_program("graph", "html", name + ".pbtxt")
            self.open(self.path(name + ".html"))
            if name not in ("apart", "one"):
                self.assert_drawn_well(name)
            stage = self.js(STAGE)
            self.assertTrue(all(contains(stage, b) for b in self.boxes()), name)
            self.key("o", "o")
            self.key("o", "o")
            self.assertEqual(self.browser.errors, [], name)
        self.assertIsNone(self.js("document.querySelector('img')"))


if __name__ == "__main__":
    unittest.main()
