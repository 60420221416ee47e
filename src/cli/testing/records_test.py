# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""millrace records and events, as a program."""

import gzip
import os
import struct
import unittest
import xml.etree.ElementTree
import zlib

import program
from program import example, field, record, scalar_event, sequence_example


class RecordsTest(program.ProgramTest):
    def write_records(self, name, records, compress=lambda data: data):
        return self.write(name, compress(b"".join(record(r) for r in records)))

    def test_counts_and_lists_files_of_each_compression(self):
        records = [b"one", b"", b"three"]
        self.write_records("plain", records)
        self.write_records("zlib", records, zlib.compress)
        self.write_records("gzip", records, gzip.compress)
        self.assertEqual(self.run_program("records", "count", "plain").out, "3\n")
        out = self.run_program("records", "count", "plain", "zlib", "gzip").out
        self.assertEqual(out, "3 plain\n3 zlib\n3 gzip\n9 in all\n")
        files = self.run_json("records", "ls", "plain", "zlib", "gzip")["files"]
        self.assertEqual([f["compression"] for f in files], ["none", "zlib", "gzip"])
        for f in files:
            self.assertEqual((f["records"], f["data_bytes"], f["shortest"], f["longest"]), (3, 8, 0, 5))
        self.assertIn("gzip", self.run_program("records", "ls", "gzip").out)
        self.run_program("records", "count", "zlib", "--compression", "gzip", code=1)

    def test_empty_file(self):
        self.write("empty", b"")
        self.assertEqual(self.run_program("records", "count", "empty").out, "0\n")
        self.assertEqual(self.run_json("records", "head", "empty")["records"], [])
        self.assertEqual(self.run_json("records", "verify", "empty")["files"][0]["records"], 0)

    def test_examples_are_shown(self):
        self.write_records("f", [
            example({"label": [7], "image": [b"\xff\xd8\x00pixels"], "box": [0.1, float("nan"), 2.0]}),
            sequence_example({"id": [b"a"]}, {"words": [[1, 2], [3]]}),
            b"plain text",
            b"\x00\x01\xff",
        ])
        out = self.run_program("records", "head", "f").out
        self.assertIn("record 0 at 0, ", out)
        self.assertRegex(out, r'image +bytes +\[1\] +"\\377\\330\\000pixels"')
        self.assertRegex(out, r"label +int64 +\[1\] +7\n")
        self.assertRegex(out, r"box +float +\[3\] +0\.1 nan 2\.")
        self.assertIn("words: 2 steps", out)
        records = self.run_json("records", "head", "f")["records"]
        self.assertEqual([r["kind"] for r in records], ["Example", "SequenceExample", "text", "bytes"])
        self.assertEqual(records[0]["features"]["box"], {"type": "float", "size": 3, "values": [0.1, None, 2]})
        self.assertEqual(records[0]["features"]["image"]["values"], [{"b64": "/9gAcGl4ZWxz"}])
        self.assertEqual(records[1]["feature_lists"]["words"][0]["values"], [1, 2])
        self.assertEqual(records[2]["bytes"], "plain text")
        self.assertEqual(records[3]["bytes"], {"b64": "AAH/"})

    def test_values_and_number_of_records_are_limited(self):
        self.write_records("f", [example({"x": list(range(100))})] * 9)
        self.assertEqual(self.run_program("records", "head", "f", "-n", "2").out.count("record "), 2)
        self.assertIn("0 1 2 …", self.run_program("records", "head", "f", "--values", "3").out)

    def test_an_index_finds_records(self):
        data = [b"record %d" % i for i in range(1000)]
        for name, compress in (("plain", lambda d: d), ("gz", gzip.compress)):
            self.write_records(name, data, compress)
            without = self.run_json("records", "head", name, "--at", "700", "-n", "2")
            self.assertEqual([r["bytes"] for r in without["records"]], ["record 700", "record 701"])
            self.assertEqual(self.run_json("records", "index", name),
                             {"index": name + ".idx", "records": 1000, "data_bytes": sum(map(len, data))})
            self.assertEqual(self.run_json("records", "head", name, "--at", "700", "-n", "2"), without)
            self.assertEqual(len(self.run_json("records", "head", name, "--at", "999")["records"]), 1)
        self.assert_error(["records", "head", "plain", "--at", "1000"], 1, "has 1000 records")
        # An index that is stale or broken is not used, and the answer is right.
        self.write_records("plain", data[:800])
        result = self.run_program("records", "head", "plain", "--at", "799", "-n", "1", "--json")
        self.assertEqual(result.json["records"][0]["bytes"], "record 799")
        self.assertIn("belongs to another file", result.err)
        self.write("plain.idx", b"nonsense")
        self.assertIn("not used", self.run_program("records", "head", "plain", "--at", "0").err)
        self.assert_error(["records", "head", "plain", "--at", "0", "--index", "plain.idx"], 1, "not an index of records")

    def test_broken_files_are_told_with_the_offset(self):
        good = record(b"good") + record(b"second")
        flipped = bytearray(good)
        flipped[20 + 13] ^= 1
        self.write("flipped", bytes(flipped))
        self.write("cut", good[:-3])
        self.write("good", good)
        result = self.run_program("records", "verify", "flipped", "cut", "good", code=1)
        self.assertIn("flipped: BROKEN, 1 good record,", result.out)
        self.assertIn("good: ok, 2 records", result.out)
        self.assertIn("corrupted record at 32 (in file flipped)", result.err)
        self.assertIn("truncated record at 20 (in file cut)", result.err)
        files = self.run_json("records", "verify", "flipped", "cut", "good", code=1)["files"]
        self.assertEqual([f["ok"] for f in files], [False, False, True])
        self.assertEqual(files[1]["error"]["code"], "Data loss")
        # Lengths are checked without the data; the data are not read.
        self.assertEqual(self.run_program("records", "count", "flipped").out, "2\n")
        self.assert_error(["records", "index", "cut"], 1, "truncated record at 20")
        self.assert_error(["records", "head", "flipped", "--at", "1"], 1, "corrupted record at")

    def test_hostile_files(self):
        huge = struct.pack("<Q", 2 ** 63)
        self.write("huge", huge + struct.pack("<I", program.masked_crc32c(huge)) + b"x")
        self.run_program("records", "count", "huge", code=1)
        self.run_program("records", "verify", "huge", code=1)
        self.write("bomb", gzip.compress(bytes(1 << 20)))
        self.run_program("records", "verify", "bomb", code=1)
        self.write_records("escape", [b"\x1b[2Jtext"])
        self.assertNotIn("\x1b", self.run_program("records", "head", "escape").out)
        self.run_program("records", "verify", ".", code=1)
        self.run_program("records", "verify", "none", code=1)


class EventsTest(program.ProgramTest):
    def write_events(self, name, events):
        version = field(1, 1e9) + field(3, "brain.Event:2")
        return self.write(name, b"".join(record(e) for e in [version, *events]))

    def test_lists_what_there_is(self):
        image = field(5, field(1, field(1, "im") + field(4, field(1, 2) + field(2, 2))))
        self.write_events("logs/train/events.out.tfevents.1.host", [
            field(1, 1e9) + field(4, b""), scalar_event(3, 1.5e9, loss=0.5, accuracy=0.25), image])
        files = self.run_json("events", "ls", "logs")["files"]
        self.assertEqual(files[0]["run"], "train")
        self.assertEqual(files[0]["events"], 4)
        self.assertEqual(files[0]["tags"], {"images": ["im"], "scalars": ["accuracy", "loss"]})
        self.assertEqual(files[0]["others"], {"graphs": 1})
        out = self.run_program("events", "ls", "logs").out
        self.assertIn("scalars (2): accuracy loss", out)
        self.assertIn("2001-09-09 01:46:40", out)

    def test_links_that_lead_back(self):
        self.write_events("logs/run/x.tfevents", [scalar_event(1, 1.0, x=1.0)])
        os.symlink("..", self.path("logs/run/up"))
        os.symlink("loop", self.path("logs/loop"))
        os.symlink("run", self.path("logs/again"))
        self.assertEqual(len(self.run_json("events", "ls", "logs")["files"]), 1)

    def test_scalars_of_both_forms(self):
        tensor = field(8, field(1, 1) + program.float_field(5, 0.75))
        metadata = field(9, field(1, field(1, "scalars")))
        self.write_events("e.tfevents.1", [
            scalar_event(2, 2.0, loss=0.5), scalar_event(1, 1.0, loss=float("nan")),
            field(2, 7) + field(5, field(1, field(1, "acc") + metadata + tensor))])
        scalars = {s["tag"]: s["points"] for s in self.run_json("events", "scalars", "e.tfevents.1")["scalars"]}
        self.assertEqual(scalars, {"loss": [[1, 1, None], [2, 2, 0.5]], "acc": [[7, 0, 0.75]]})
        only = self.run_json("events", "scalars", "e.tfevents.1", "--tag", "a*")["scalars"]
        self.assertEqual([s["tag"] for s in only], ["acc"])
        self.assertRegex(self.run_program("events", "scalars", ".").out, r"loss +2 +2 +nan +0\.5 +0\.5 +0\.5")
        self.assertEqual(len(self.run_program("events", "scalars", ".", "--points").out.splitlines()), 4)

    def test_plots(self):
        for run in ("a", "b<&>"):
            self.write_events(f"logs/{run}/x.tfevents", [
                scalar_event(i, 1e9 + i, loss=1.0 / (i + 1), constant=3.0) for i in range(3000)])
        for extra in ([], ["--smooth", "0.9"], ["--log"]):
            self.run_program("events", "scalars", "logs", "--plot", "p.svg", *extra)
            root = xml.etree.ElementTree.fromstring(self.read("p.svg"))
            text = "".join(root.itertext())
            for part in ("loss", "constant", "b<&>"):
                self.assertIn(part, text)
            self.assertNotIn("nan", self.read("p.svg").decode())
            self.assertLess(len(self.read("p.svg")), 200000)

    def test_extreme_values_are_plotted(self):
        values = [3e38, -3e38, float("inf"), float("nan"), 0.0, 1e-45]
        self.write_events("e.tfevents", [scalar_event((1 << 62) * (i % 2), 0.0, v=v) for i, v in enumerate(values)])
        for extra in ([], ["--log"]):
            self.run_program("events", "scalars", "e.tfevents", "--plot", "p.svg", *extra)
            svg = self.read("p.svg").decode()
            xml.etree.ElementTree.fromstring(svg)
            self.assertNotRegex(svg, r'd="[^"]*(nan|inf)')

    def test_a_file_that_is_being_written(self):
        name = self.write_events("e.tfevents", [scalar_event(1, 1.0, x=1.0), scalar_event(2, 2.0, x=2.0)])
        self.write(name, self.read(name)[:-5])
        result = self.run_program("events", "scalars", name, "--json")
        self.assertEqual(result.json["scalars"][0]["points"], [[1, 1, 1]])
        self.assertIn("truncated record", result.err)

    def test_broken_and_missing_files(self):
        name = self.write_events("e.tfevents", [scalar_event(1, 1.0, x=1.0)])
        data = bytearray(self.read(name))
        data[-6] ^= 1
        self.write(name, bytes(data))
        self.assertIn("corrupted record", self.run_program("events", "ls", name, code=1).err)
        self.assertIn("error", self.run_json("events", "ls", name, code=1)["files"][0])
        self.assert_error(["events", "ls", "none"], 1, "none")
        self.assert_error(["events", "scalars", "."], 1, "corrupted record")
        self.write("no/thing", b"")
        self.assert_error(["events", "ls", "no"], 1, "no event files")
        self.write("x.tfevents", record(b"\xff\xff"))
        self.run_program("events", "ls", "x.tfevents", code=1)


if __name__ == "__main__":
    unittest.main()
