# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""millrace watch, as a program, and its page in a headless Chromium."""

import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
import zlib

import browser
import program
from program import field, float_field, record

VERSION = field(1, 1.0) + field(3, "brain.Event:2")
FILE = "events.out.tfevents.1.host"


def event(step, *values):
    return record(field(1, 1000.0 + step) + field(2, step) + field(5, b"".join(field(1, v) for v in values)))


def scalar(tag, value):
    return field(1, tag) + float_field(2, value)


def start(step):
    return record(field(1, 1.0) + field(2, step) + field(7, field(1, 1)))


def histogram(tag, low, counts):
    """Buckets of width 1 from `low` on."""
    limits = [low + 1.0 + i for i in range(len(counts))]
    doubles = f"<{len(counts)}d"
    return field(1, tag) + field(
        5,
        field(1, float(low))
        + field(2, limits[-1])
        + field(3, float(sum(counts)))
        + field(6, struct.pack(doubles, *limits))
        + field(7, struct.pack(doubles, *counts)),
    )


def png(width, height, gray):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([gray]) * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def image(tag, data):
    return field(1, tag) + field(4, field(4, data))


def text(tag, value):
    return (
        field(1, tag)
        + field(9, field(1, field(1, "text")))
        + field(8, field(1, 7) + field(2, b"") + field(8, value))
    )


def wav(samples):
    data = b"\0\0" * samples
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
        + b"data"
        + struct.pack("<I", len(data))
        + data
    )


def graph(*nodes):
    definition = b"".join(
        field(1, field(1, name) + field(2, op) + b"".join(field(3, i) for i in inputs))
        for name, op, *inputs in nodes
    )
    return record(field(1, 1.0) + field(4, definition))


HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"


class WatchTest(program.ProgramTest):
    def write_runs(self):
        self.write(
            "logs/a/" + FILE,
            record(VERSION)
            + graph(("x", "Placeholder"), ("layer/y", "Relu", "x"))
            + b"".join(
                event(
                    10 * i,
                    scalar("train/loss", 8.0 / 2**i),
                    scalar("train/rate", 0.5),
                    scalar("speed", 100.0 + i),
                )
                for i in range(5)
            ),
        )
        self.write(
            "logs/b/" + FILE,
            record(VERSION) + b"".join(event(10 * i, scalar("train/loss", 4.0 / 2**i)) for i in range(3)),
        )

    def serve(self, *args):
        """The address of a server, which ends with the test."""
        server = subprocess.Popen(
            [program.PROGRAM, "watch", "logs", "--port", "0", "--interval", "0.1", *args],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        line = server.stdout.readline().decode()
        self.assertIn("watching logs at http://127.0.0.1:", line)
        return server, re.search(r"http://\S+", line).group()


class ProgramTest(WatchTest):
    def test_json(self):
        self.write_runs()
        self.write(
            "logs/a/events.out.tfevents.2.host",
            record(VERSION) + start(30) + event(30, scalar("train/loss", 9.0)),
        )
        result = self.run_json("watch", "logs")
        a, b = result["runs"]
        self.assertEqual((a["name"], b["name"], a["purged"]), ("a", "b", 6))
        loss = next(s for s in a["series"] if s["tag"] == "train/loss")
        self.assertEqual(loss["step"], [0, 10, 20, 30])
        self.assertEqual(loss["value"], [8, 4, 2, 9])
        self.assertEqual(loss["time"], [1000, 1010, 1020, 1030])
        self.assertEqual(result["notes"], [])

    def test_json_of_other_kinds(self):
        values = [
            field(1, "t")
            + field(9, field(1, field(1, "text")))
            + field(8, field(1, 7) + field(2, b"") + field(8, b"\xff")),
            scalar("nan", float("nan")),
            image("i", png(1, 1, 0)),
        ]
        self.write("logs/" + FILE, record(VERSION) + event(1, *values))
        nan, picture, words = self.run_json("watch", "logs")["runs"][0]["series"]
        self.assertEqual(nan["value"], [None])
        self.assertEqual(picture["bytes"], [len(png(1, 1, 0))])
        self.assertEqual(words["text"], [{"b64": "/w=="}])

    def test_html_holds_all_and_no_script_of_a_file(self):
        self.write("logs/" + FILE, record(VERSION) + event(1, scalar(HOSTILE, 1.0), text("t", HOSTILE)))
        summary = self.run_json("watch", "logs", "--html", "page.html")
        page = self.read("page.html").decode()
        self.assertEqual(summary, {"output": "page.html", "runs": 1, "files": 1, "bytes": len(page.encode())})
        self.assertNotIn('onerror="', page)
        self.assertNotRegex(page, r"(src|href)=\"?https?:")

    def test_errors(self):
        os.makedirs(self.path("empty"))
        self.assert_error(["watch", "none", "--html", "x.html"], 1, "none")
        self.assert_error(["watch", "empty", "--html", "x.html"], 1, "no event files")
        self.run_program("watch", "none", "--port", "0", code=1)
        self.run_program("watch", "empty", "--port", "70000", code=2)
        self.run_program("watch", "empty", "--port", "0", "--listen", "no such machine", code=1)
        self.assertFalse(os.path.exists(self.path("x.html")))

    def test_any_bytes_are_an_event_file(self):
        state = 1
        for i in range(60):
            data = b""
            for _ in range(200):
                state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                data += bytes([state >> 40 & 0xFF])
            self.write(f"logs/{i}/x.tfevents", data if i % 2 else record(VERSION) + record(data[:100]) + data)
        result = self.run_json("watch", "logs", "--html", "page.html")
        self.assertEqual(result["runs"], 60)
        self.assertEqual(len(self.run_json("watch", "logs")["notes"]), 60)

    def test_server(self):
        self.write_runs()
        server, url = self.serve()
        with urllib.request.urlopen(url) as page:
            self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])
            self.assertIn(b"<title>logs", page.read())
        with urllib.request.urlopen(url + "index?since=0") as answer:
            index = json.load(answer)
        while index["bytes_read"] < index["bytes"]:
            with urllib.request.urlopen(f"{url}index?since={index['generation']}") as answer:
                index = json.load(answer)
        loss = [s for s in index["series"] if s["tag"] == "train/loss"]
        with urllib.request.urlopen(f"{url}series?ids={loss[0]['id']},{loss[1]['id']},99999,x") as answer:
            series = json.load(answer)
        self.assertEqual([len(s["step"]) for s in series.values()], [5, 3])
        with urllib.request.urlopen(f"{url}graph?run={index['runs'][0]['id']}") as answer:
            self.assertIn(b"layer/y", answer.read())
        for path in (
            "nothing",
            "blob?series=1&key=1",
            "graph?run=77",
            f"graph?run={index['runs'][1]['id']}",
            "../etc/passwd",
            "series",
        ):
            with self.assertRaises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(url + path)
            self.assertEqual(error.exception.code, 404, path)
            error.exception.close()
        request = urllib.request.Request(url, headers={"Host": "rebound.example.com"})
        with self.assertRaises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request)
        self.assertEqual(error.exception.code, 421)
        error.exception.close()
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(60), 0)
        self.assertEqual(server.stderr.read(), b"")


@unittest.skipIf(browser.find() is None, "there is no Chromium on this machine")
class PageTest(WatchTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.browser = browser.Browser(folder.name)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.browser.errors.clear()

    def tearDown(self):
        self.js("localStorage.clear()")
        self.browser.open("about:blank")
        self.assertEqual(self.browser.errors, [])

    def js(self, expression):
        return self.browser.run(expression)

    def wait(self, expression):
        return self.browser.wait(expression)

    def open_file(self, tab="", **view):
        self.run_program("watch", "logs", "--html", "page.html")
        self.browser.open(f"file://{self.path('page.html')}#{tab}", **view)
        self.wait("document.querySelector('#tabs button') !== null")

    def curve(self, tag, run):
        """Points of a drawn curve, in pixels."""
        path = self.wait(
            f"document.querySelector('[data-tag=\"{tag}\"] .curve[data-run=\"{run}\"]')?.getAttribute('d')"
        )
        return [tuple(map(float, point.split())) for point in re.split("[ML]", path)[1:]]

    def set_smoothing(self, value):
        self.js(
            f"(() => {{ const s = document.getElementById('smoothing'); s.value = {value}; s.dispatchEvent(new Event('input')); }})()"
        )

    def test_curves_stand_where_their_values_are(self):
        self.write_runs()
        self.open_file()
        self.set_smoothing(0)
        points = self.curve("train/loss", "a")
        self.assertEqual(len(points), 5)
        # Steps of the same distance; values 8, 4, 2, 1, 0.5: each fall is half of the one before.
        across = [q[0] - p[0] for p, q in zip(points, points[1:])]
        falls = [q[1] - p[1] for p, q in zip(points, points[1:])]
        self.assertTrue(all(abs(x - across[0]) < 0.3 for x in across), across)
        for before, after in zip(falls, falls[1:]):
            self.assertAlmostEqual(after, before / 2, delta=0.3)
        # The other run shares the axes: its first value, 4, is as high as the second of this one.
        other = self.curve("train/loss", "b")
        self.assertAlmostEqual(other[0][1], points[1][1], delta=0.2)
        self.assertAlmostEqual(other[1][0], points[1][0], delta=0.2)
        self.js("document.getElementById('log').click()")
        falls = [
            q[1] - p[1] for p, q in zip(self.curve("train/loss", "a"), self.curve("train/loss", "a")[1:])
        ]
        self.assertTrue(all(abs(f - falls[0]) < 0.3 for f in falls), falls)

    def test_smoothing_is_a_moving_average(self):
        self.write(
            "logs/" + FILE,
            record(VERSION) + b"".join(event(i, scalar("s", v)) for i, v in enumerate([0.0, 1.0, 1.0])),
        )
        self.open_file()
        self.set_smoothing(0)
        raw = self.curve("s", ".")
        zero, one = raw[0][1], raw[1][1]
        self.set_smoothing(0.5)
        # With weight 1/2 and no pull to 0: 0, 2/3, 6/7.
        for (_, y), expected in zip(self.curve("s", "."), [0, 2 / 3, 6 / 7]):
            self.assertAlmostEqual(y, zero + (one - zero) * expected, delta=0.2)
        self.assertEqual(self.js("document.querySelectorAll('.raw').length"), 1)

    def test_what_is_no_number_is_marked_and_breaks_the_curve(self):
        values = [1.0, float("nan"), 3.0, float("inf"), 2.0]
        self.write(
            "logs/" + FILE, record(VERSION) + b"".join(event(i, scalar("s", v)) for i, v in enumerate(values))
        )
        self.open_file()
        self.set_smoothing(0)
        self.curve("s", ".")
        self.assertEqual(self.js("document.querySelector('.curve').getAttribute('d').match(/M/g).length"), 3)
        self.assertEqual(
            self.js("[...document.querySelectorAll('.hole')].map((h) => h.textContent)"), ["NaN", "Infinity"]
        )

    def test_hovering_tells_the_values(self):
        self.write_runs()
        self.open_file()
        self.set_smoothing(0)
        x, y = self.curve("train/loss", "a")[2]
        box = self.js(
            "(({x, y}) => [x, y])(document.querySelector('[data-tag=\"train/loss\"] svg').getBoundingClientRect())"
        )
        self.browser.mouse("mouseMoved", box[0] + x + 1, box[1] + y)
        rows = self.js(
            "[...document.querySelectorAll('#tip tr')].map((r) => [...r.children].slice(0, 3).map((c) => c.textContent))"
        )
        self.assertEqual(rows, [["", "value", "step"], ["a", "2", "20"], ["b", "1", "20"]])
        # A drag zooms, a double click shows all again.
        before = self.curve("train/loss", "a")
        for kind, at in (("mousePressed", 60), ("mouseMoved", 120), ("mouseReleased", 150)):
            self.browser.mouse(kind, box[0] + at, box[1] + 60, button="left", clickCount=1)
        zoomed = self.curve("train/loss", "a")
        self.assertGreater(zoomed[1][0] - zoomed[0][0], 2 * (before[1][0] - before[0][0]))
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self.browser.mouse(kind, box[0] + 200, box[1] + 60, button="left", clickCount=count)
        self.assertEqual(self.curve("train/loss", "a"), before)

    def test_runs_and_tags_are_chosen(self):
        self.write_runs()
        self.open_file()
        self.curve("train/loss", "b")
        self.assertEqual(
            self.js("[...document.querySelectorAll('.prefix summary')].map((s) => s.firstChild.textContent)"),
            ["Without a prefix", "train"],
        )
        tags = "[...document.querySelectorAll('.card')].map((c) => c.dataset.tag)"
        self.assertEqual(self.js(tags), ["speed", "train/loss", "train/rate"])
        self.js("document.querySelectorAll('#runs input')[0].click()")  # a
        self.wait("document.querySelectorAll('.curve').length === 1")
        self.assertEqual(self.js(tags), ["train/loss"])
        self.js("document.getElementById('all-runs').click()")
        type_in = "((id, text) => { const i = document.getElementById(id); i.value = text; i.dispatchEvent(new Event('input')); })"
        self.js(f"{type_in}('tag-filter', '^train/(rate|x)')")
        self.assertEqual(self.js(tags), ["train/rate"])
        self.js(f"{type_in}('tag-filter', '(')")  # no regular expression
        self.assertEqual(
            self.js("document.getElementById('tag-filter').getAttribute('aria-invalid')"), "true"
        )
        self.assertEqual(self.js("document.getElementById('empty').textContent"), "Nothing fits the filters.")

    def test_ridges_images_audio_text_and_graph(self):
        self.write(
            "logs/r/" + FILE,
            record(VERSION)
            + graph(("x", "Placeholder"), ("layer/y", "Relu", "x"))
            + b"".join(
                event(
                    i,
                    histogram("h", i, [1.0, 4.0, 1.0]),
                    image("p/image/0", png(4, 3, 60 * i)),
                    text("t", f"{i}: {HOSTILE}"),
                    field(1, "a/audio") + field(6, field(4, wav(800))),
                )
                for i in range(4)
            ),
        )
        self.open_file("histograms")
        self.assertEqual(self.wait("document.querySelectorAll('.ridge').length"), 4)
        # Each stands one further to the right and lower, and is highest in its middle.
        ridges = self.js(
            "[...document.querySelectorAll('.ridge')].map((r) => r.getBBox()).map((b) => [b.x + b.width / 2, b.y + b.height])"
        )
        for (x, bottom), (next_x, next_bottom) in zip(ridges, ridges[1:]):
            self.assertGreater(next_x, x)
            self.assertGreater(next_bottom, bottom)
        self.js("document.querySelector('[data-tab=images]').click()")
        self.wait("document.querySelector('.media img')?.naturalWidth === 4")
        self.assertIn("step 3 ", self.js("document.querySelector('.media .at').textContent"))
        last = self.js("document.querySelector('.media img').src")
        self.js(
            "(() => { const s = document.querySelector('.media input'); s.value = 1; s.dispatchEvent(new Event('input')); })()"
        )
        self.wait("document.querySelector('.media .at').textContent.startsWith('step 1 ')")
        self.assertNotEqual(self.js("document.querySelector('.media img').src"), last)
        self.js("document.querySelector('[data-tab=audio]').click()")
        self.js("document.querySelector('audio').preload = 'auto'")
        self.wait("Math.abs(document.querySelector('audio').duration - 0.1) < 0.01")
        self.js("document.querySelector('[data-tab=text]').click()")
        self.wait("document.querySelectorAll('pre').length === 4")
        self.assertEqual(self.js("document.querySelector('pre').textContent"), "3: " + HOSTILE)
        self.assertIn("logs", self.js("document.title"))
        self.js("document.querySelector('[data-tab=graphs]').click()")
        names = "[...document.getElementById('graph').contentDocument?.querySelectorAll('.box') ?? []].map((box) => box.getAttribute('aria-label'))"
        self.assertIn("x, Placeholder", self.wait(f"{names}.length > 1 && {names}"))

    def test_the_page_follows_the_files(self):
        self.write_runs()
        _, url = self.serve()
        self.browser.open(url)
        self.wait("document.querySelector('#tabs button') !== null")
        self.set_smoothing(0)
        self.assertEqual(len(self.curve("train/loss", "a")), 5)
        whole = event(50, scalar("train/loss", 0.25))
        with open(self.path("logs/a/" + FILE), "ab") as file:
            file.write(whole[:9])
        with open(self.path("logs/a/" + FILE), "ab") as file:
            file.write(whole[9:])
        count = "document.querySelector('[data-tag=\"train/loss\"] .curve[data-run=a]').getAttribute('d').split(/[ML]/).length - 1"
        self.wait(f"{count} === 6")
        # A restart from step 20, and a new run.
        self.write(
            "logs/a/events.out.tfevents.2.host",
            record(VERSION) + start(20) + event(20, scalar("train/loss", 3.0)),
        )
        self.write(
            "logs/c/" + FILE, record(VERSION) + event(1, scalar("train/loss", 1.0), image("i", png(2, 2, 9)))
        )
        self.wait(f"{count} === 3")
        self.wait(
            "[...document.querySelectorAll('#runs .name')].map((n) => n.textContent).join() === 'a,b,c'"
        )
        self.wait("document.querySelector('[data-tab=images]') !== null")
        self.js("document.querySelector('[data-tab=images]').click()")
        self.wait("document.querySelector('.media img')?.naturalWidth === 2")
        self.js("document.querySelector('[data-tab=graphs]').click()")
        self.wait("document.getElementById('graph').contentDocument?.querySelectorAll('.box').length > 1")
        self.write("logs/d/" + FILE, record(VERSION) + b"broken, and longer than the head of a record")
        self.wait("document.getElementById('notes').textContent.includes('logs/d/')")

    def test_narrow_and_dark(self):
        self.write_runs()
        self.open_file(width=500, height=900, dark=True)
        self.curve("train/loss", "a")
        self.assertLessEqual(self.js("document.documentElement.scrollWidth"), 500)
        self.assertEqual(self.js("document.documentElement.dataset.theme"), "dark")
        self.assertLess(
            self.js(
                "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + Number(b), 0)"
            ),
            150,
        )
        self.assertEqual(
            self.js(
                "[...document.querySelectorAll('.card')].filter((c) => c.getBoundingClientRect().right > 500).length"
            ),
            0,
        )
        self.js("document.getElementById('theme').click()")
        self.assertEqual(self.js("document.documentElement.dataset.theme"), "light")


if __name__ == "__main__":
    unittest.main()
