# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each command line that docs/cli.md and the README show works as it is printed."""

import os
import re
import shutil
import struct
import subprocess
import unittest
import zipfile

import program
from program import example, npy, record, scalar_event

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")

MODEL = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: -1 } dim { size: 2 } } } } }
node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
versions { producer: 24 }
"""

SAVED_MODEL = "meta_graphs { meta_info_def { tags: \"serve\" } graph_def {" + MODEL + """}
  signature_def { key: "serving_default" value {
    inputs { key: "images" value { name: "x:0" dtype: DT_FLOAT } }
    outputs { key: "scores" value { name: "y:0" dtype: DT_FLOAT } } } } }"""

SAVE = """
node { name: "file" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
node { name: "value" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "names" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value" value { tensor {
  dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "dense/kernel" } } } }
node { name: "slices" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value" value { tensor {
  dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "" } } } }
node { name: "save" op: "SaveV2" input: "file" input: "names" input: "slices" input: "value"
  attr { key: "dtypes" value { list { type: DT_FLOAT } } } }
"""

INPUT = "".join(f"""
node {{ name: "{name}" op: "Const" attr {{ key: "dtype" value {{ type: DT_INT64 }} }} attr {{ key: "value" value {{ tensor {{
  dtype: DT_INT64 tensor_shape {{ }} int64_val: {value} }} }} }} }}""" for name, value in (("zero", 0), ("one", 1), ("ten", 10)))
INPUT += "".join(f"""
node {{ name: "{name}" op: "RangeDataset" input: "zero" input: "ten" input: "one"
  attr {{ key: "output_types" value {{ list {{ type: DT_INT64 }} }} }}
  attr {{ key: "output_shapes" value {{ list {{ shape {{ }} }} }} }} }}""" for name in ("train", "eval"))
INPUT += """
node { name: "it" op: "IteratorV2" attr { key: "shared_name" value { s: "" } } attr { key: "container" value { s: "" } }
  attr { key: "output_types" value { list { type: DT_INT64 } } } attr { key: "output_shapes" value { list { shape { } } } } }
node { name: "MakeIterator" op: "MakeIterator" input: "train" input: "it" }
node { name: "IteratorGetNext" op: "IteratorGetNext" input: "it"
  attr { key: "output_types" value { list { type: DT_INT64 } } } attr { key: "output_shapes" value { list { shape { } } } } }
"""


def command_lines(document):
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        blocks = re.findall(r"^```sh\n(.*?)^```", file.read(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("millrace ")]


class DocsTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("bin"))
        os.symlink(program.PROGRAM, self.path("bin/millrace"))
        self.write("model.pbtxt", MODEL)
        self.run_program("freeze", "model.pbtxt", "--fetch", "y", "-o", "model.pb")
        self.write("saved_model/saved_model.pbtxt", SAVED_MODEL)
        self.write("digits.npy", npy("<f4", (1, 2), struct.pack("<2f", 1, 2)))
        with zipfile.ZipFile(self.path("data.npz"), "w") as archive:
            archive.writestr("x.npy", npy("<f8", (1, 2), struct.pack("<2d", 1, 2)))
        self.write("save.pbtxt", SAVE)
        for step, value in ((1000, "[1, 2]"), (2000, "[1, 2.0000001]")):
            self.run_program("run", "save.pbtxt", "--feed", "file=" + self.path(f"model-{step}"), "--feed",
                             "value=" + value, "--target", "save")
        self.write("train.tfrecord", b"".join(record(example({"x": [i]})) for i in range(10001)))
        self.write("input.pbtxt", INPUT)
        self.write("train-0.tfrecord", record(b"x"))
        self.write("logs/events.out.tfevents.1", b"".join(record(scalar_event(i, 1.0, loss=2.0)) for i in range(3)))

    def test_lines(self):
        for document in ("docs/cli.md", "README.md"):
            lines = command_lines(document)
            self.assertGreater(len(lines), 4)
            for line in lines:
                if "| dot" in line and shutil.which("dot") is None:
                    continue
                if " bench " in line or " data " in line:
                    line += " --seconds 0.1"
                process = subprocess.run(
                    ["bash", "-o", "pipefail", "-c", line], cwd=self.folder, capture_output=True, timeout=120,
                    check=False, env={**os.environ, "PATH": self.path("bin") + ":" + os.environ["PATH"]})
                self.assertEqual(process.returncode, 0, line + "\n" + process.stdout.decode() + process.stderr.decode())


if __name__ == "__main__":
    unittest.main()
