# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""millrace run, show, bench, freeze, optimize, graph and checkpoint, as a program."""

import json
import os
import re
import struct
import subprocess
import threading
import unittest
import xml.etree.ElementTree
import zipfile

import program
from program import field, npy

FLOAT, INT32, STRING = 1, 3, 7

AFFINE = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: -1 } dim { size: 2 } } } } }
node { name: "layer/w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 2 } }
    float_val: 1 float_val: 2 float_val: 3 float_val: 4 } } } }
node { name: "layer/y" op: "MatMul" input: "x" input: "layer/w" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "z" op: "Neg" input: "layer/y" attr { key: "T" value { type: DT_FLOAT } } }
versions { producer: 24 }
"""

# A variable v of two floats, with nodes that set, save and restore it.
VARIABLE = """
node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 2 } } } }
  attr { key: "shared_name" value { s: "" } } attr { key: "container" value { s: "" } } }
node { name: "value" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "read" op: "Identity" input: "v" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "y" op: "Neg" input: "read" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "file" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
node { name: "names" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
  attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "v" } } } }
node { name: "slices" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
  attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "" } } } }
node { name: "restored" op: "RestoreV2" input: "file" input: "names" input: "slices"
  attr { key: "dtypes" value { list { type: DT_FLOAT } } } }
node { name: "assign" op: "Assign" input: "v" input: "restored" attr { key: "T" value { type: DT_FLOAT } } }
"""

SAVE = """
node { name: "save" op: "SaveV2" input: "file" input: "names" input: "slices" input: "value"
  attr { key: "dtypes" value { list { type: DT_FLOAT } } } }
"""

META = "graph_def {" + VARIABLE + """ }
saver_def { filename_tensor_name: "file:0" restore_op_name: "assign" version: V2 }
meta_info_def { tags: "serve" }
signature_def { key: "serving_default" value { method_name: "tensorflow/serving/predict"
  outputs { key: "negated" value { name: "y:0" dtype: DT_FLOAT tensor_shape { dim { size: 2 } } } } } }
"""


class ModelTest(program.ProgramTest):
    def save_variable(self, prefix, values):
        self.write("save.pbtxt", VARIABLE + SAVE)
        self.run_program("run", "save.pbtxt", "--feed", "file=" + self.path(prefix), "--feed", f"value={values}",
                         "--target", "save")


class ForeignFilesTest(ModelTest):
    def test_other_formats_are_named(self):
        for name, data, what in [
            ("a.h5", b"\x89HDF\r\n\x1a\n1234", "HDF5"),
            ("a.tflite", b"\x1c\0\0\0TFL3abcd", "TensorFlow Lite"),
            ("a.onnx", b"\x08\x07\x12\x07pytorch:\x02ab", "ONNX"),
            ("a.pt", b"PK\3\4" + bytes(26) + b"archive/data.pkl", "PyTorch"),
            ("a.zip", b"PK\3\4" + bytes(26) + b"a.txt", "ZIP"),
            ("a.pb.gz", b"\x1f\x8b\x08\0abc", "gzip"),
        ]:
            self.write(name, data)
            for command in ["show"], ["run"], ["bench"], ["graph", "svg"]:
                self.assert_error([*command, name], 1, what)

    def test_files_of_other_commands_are_named(self):
        self.save_variable("v", [1, 2])
        self.run_program("checkpoint", "convert", "v", "old", "--to", "v1")
        self.write("a.tfrecord", program.record(b"abc"))
        self.write("events", program.record(field(1, 5.0) + field(3, b"brain.Event:2")))
        self.write("none.pb", "")
        self.write("cut.pb", b"\x0a\x30\x0a\x01x\x12\x0bPlaceholder")
        for name, text in (("old", "is a checkpoint, for millrace checkpoint"), ("v", "is the prefix of a checkpoint, for millrace checkpoint"),
                           ("v.index", "is a checkpoint"), ("a.tfrecord", "for millrace records"),
                           ("events", "for millrace events"), ("none.pb", "is empty")):
            self.assert_error(["show", name], 1, text)
        self.write("v.meta", "")
        self.assert_error(["show", "v"], 1, "whose graph is v.meta")
        # What is no text is not said to be a wrong one.
        self.assertNotIn("as text", self.run_program("show", "cut.pb", code=1).err)
        self.write("logs/events.out.tfevents.1.host", "")
        self.assert_error(["show", "logs"], 1, "it has event files")

    def test_folders_without_a_model(self):
        self.write("empty/x", "")
        os.remove(self.path("empty/x"))
        self.assert_error(["show", "empty"], 1, "it is empty")
        self.write("parent/1/saved_model.pb", "")
        self.assert_error(["show", "parent"], 1, "perhaps parent/1 is meant")
        self.write("train/model.ckpt-7.index", "")
        self.assert_error(["show", "train"], 1, "without a graph, for millrace checkpoint: train/model.ckpt-7")
        self.write("train/model.ckpt-7.meta", "")
        self.assert_error(["show", "train"], 1, "whose graph is train/model.ckpt-7.meta")

    def test_pipes_and_standard_input(self):
        process = subprocess.run(
            [program.PROGRAM, "show", "-", "--json"], input=AFFINE.encode(), capture_output=True, timeout=60, check=True)
        self.assertEqual(json.loads(process.stdout)["nodes"], 4)
        for args, text in ((["dot", "-", "-o", "-"], b'digraph "standard input"'), (["svg", "-"], b"<svg"), (["html", "-"], b"<!doctype html>")):
            process = subprocess.run([program.PROGRAM, "graph", *args], input=AFFINE.encode(), capture_output=True, timeout=60,
                                     check=True, cwd=self.folder)
            self.assertTrue(process.stdout.startswith(text), process.stdout[:60])
        self.assertEqual(os.listdir(self.folder), [])
        self.assert_error(["trace", "-"], 2, "name one with -o")
        self.assert_error(["records", "index", "-"], 2, "name one with -o")
        os.mkfifo(self.path("pipe"))
        writer = threading.Thread(target=self.write, args=("pipe", AFFINE))
        writer.start()
        self.assertEqual(self.run_json("run", "pipe", "--feed", "x=[[1, 2]]", "--fetch", "z")["outputs"]["z"]["values"],
                         [[-7, -10]])
        writer.join()

    def test_graphs_that_cannot_be_loaded(self):
        self.write("g.pbtxt", AFFINE.replace('input: "layer/w"', 'input: "nothing"'))
        self.assertIn("nothing", self.run_json("show", "g.pbtxt", code=3)["load_error"])
        self.assertIn("The graph can't be loaded", self.run_program("show", "g.pbtxt", code=3).out)
        # Nodes of a GPU run on the CPU, in this command as in those that run the graph.
        self.write("gpu.pbtxt", AFFINE.replace('input: "layer/w"', 'input: "layer/w" device: "/device:GPU:0"'))
        self.assertTrue(self.run_json("show", "gpu.pbtxt")["runs_here"])
        self.assertEqual(self.run_json("run", "gpu.pbtxt", "--feed", "x=[[1, 2]]", "--fetch", "z")["outputs"]["z"]["values"],
                         [[-7, -10]])

    def test_unknown_words_get_a_suggestion(self):
        self.assert_error(["shwo", "x"], 2, "there is no command 'shwo'; did you mean 'show'?")
        self.assert_error(["show", "--btach=3", "x"], 2, "there is no option '--btach'; did you mean '--batch'?")
        self.assert_error(["bench", "m", "--warmup", "-1"], 2, "'-1' is not a number from 0 on")
        self.assert_error(["bench", "m", "--runs=0"], 2, "'0' is not a number above 0")
        self.assert_error(["bench", "m", "--runs=" + "9" * 300], 2, "--runs: '" + "9" * 40 + "' is too large a number")
        self.assert_error(["bench", "m", "--seconds", "1e9"], 2, "'1e9' is not a number from 0 to 86400")
        self.assert_error(["bench", "m", "--seconds", "nan"], 2, "'nan' is not a number from 0 to 86400")
        self.assert_error(["checkpoint", "qqqqqq"], 2, "there is no command 'qqqqqq'")


class RunTest(ModelTest):
    def setUp(self):
        super().setUp()
        self.write("m.pbtxt", AFFINE)

    def values(self, *args):
        return self.run_json("run", "m.pbtxt", *args)["outputs"]

    def test_runs_with_text_and_arrays(self):
        expected = {"layer/y": {"dtype": "float", "shape": [1, 2], "values": [[7, 10]]}}
        self.write("x.npy", npy("<f4", (1, 2), struct.pack("<2f", 1, 2)))
        self.write("d.npy", npy(">f8", (1, 2), struct.pack(">2d", 1, 2)))
        with zipfile.ZipFile(self.path("x.npz"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.npy", npy("<i8", (1, 2), struct.pack("<2q", 1, 2)))
            archive.writestr("b.npy", npy("<i8", (), struct.pack("<q", 2)))
        for value in ("[[1, 2]]", "x.npy", "d.npy", "x.npz:a"):
            self.assertEqual(self.values("--feed", f"x={value}", "--fetch", "layer/y"), expected, value)
        out = self.run_program("run", "m.pbtxt", "--feed", "x=[[1,2],[0,0.5]]", "--fetch", "z:0", "--fetch", "x").out
        self.assertEqual(out, "z:0: float [2,2]\n[[ -7.  -10. ]\n [ -1.5  -2. ]]\nx: float [2,2]\n[[1.  2. ]\n [0.  0.5]]\n")

    def test_results_go_to_files(self):
        args = ["run", "m.pbtxt", "--feed", "x=[[1,2]]", "--fetch", "z", "--fetch", "layer/y"]
        self.run_program(*args, "--out", "o.npz")
        with zipfile.ZipFile(self.path("o.npz")) as archive:
            self.assertEqual(sorted(archive.namelist()), ["layer/y.npy", "z.npy"])
            self.assertEqual(struct.unpack("<2f", archive.read("z.npy")[-8:]), (-7, -10))
        self.run_program("run", "m.pbtxt", "--feed", "x=o.npz:layer/y", "--fetch", "z", "--out", "z.npy")
        self.assertEqual(struct.unpack("<2f", self.read("z.npy")[-8:]), (-37, -54))
        self.assert_error([*args, "--out", "o.npy"], 1, "one tensor")
        self.assert_error([*args, "--out", "o.txt"], 2, "neither .npy nor .npz")

    def test_long_results_are_shortened(self):
        self.write("r.pbtxt", """
          node { name: "n" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
          node { name: "s" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
            attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
          node { name: "d" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
            attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } } }
          node { name: "r" op: "Range" input: "s" input: "n" input: "d" attr { key: "Tidx" value { type: DT_INT32 } } }""")
        out = self.run_program("run", "r.pbtxt", "--feed", "n=2000", "--fetch", "r").out
        self.assertEqual(out, "r: int32 [2000]\n[   0    1    2 ... 1997 1998 1999]\n")
        self.assertIn(" 1000 ", self.run_program("run", "r.pbtxt", "--feed", "n=2000", "--fetch", "r", "--all").out)
        self.assertIsNone(self.run_json("run", "r.pbtxt", "--feed", "n=2000", "--fetch", "r")["outputs"]["r"]["values"])
        whole = self.run_json("run", "r.pbtxt", "--feed", "n=2000", "--fetch", "r", "--all")["outputs"]["r"]["values"]
        self.assertEqual(whole, list(range(2000)))

    def test_strings_and_bytes_of_files(self):
        self.write("s.pbtxt", """
          node { name: "s" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
          node { name: "i" op: "Identity" input: "s" attr { key: "T" value { type: DT_STRING } } }""")
        self.write("bytes", b"\xff\x00")
        for feed, value in (("two words", "two words"), ("@bytes", {"b64": "/wA="}), ('["a", "b"]', ["a", "b"]), ("", "")):
            outputs = self.run_json("run", "s.pbtxt", "--feed", "s=" + feed, "--fetch", "i")["outputs"]
            self.assertEqual(outputs["i"]["values"], value)

    def test_mistakes_are_told(self):
        for feed, text in (("x=[[1,2],[3]]", "items in one list"), ("x=[1,[2]]", "depths"), ("x=[[1,a]]", "expected a number"),
                           ("x=[[1,2]", "missing"), ("x=none.npy", "none.npy"), ("nothing=1", "nothing"),
                           ('x=["a"]', "not a value of type float"), ("x=[[1,2,3]]", "size-incompatible: In[0]: [1,3]")):
            self.assert_error(["run", "m.pbtxt", "--feed", feed, "--fetch", "z"], 1, text)
        for feed in ("x", "=1", ""):
            self.assert_error(["run", "m.pbtxt", "--feed", feed, "--fetch", "z"], 2, "NAME=VALUE")
        # What TensorFlow writes below an error stands in a line of its own, too.
        wrong = self.run_program("run", "m.pbtxt", "--feed", "x=[[1,2,3]]", "--fetch", "z", code=1).err
        self.assertRegex(wrong, r"size-incompatible.*\n {4,}\[\[\{\{node layer/y\}\}\]\]\n$")
        self.assert_error(["run", "m.pbtxt", "--fetch", "layr/y"], 1, "did you mean 'layer/y'?")
        self.assert_error(["run", "m.pbtxt"], 1, "--fetch; perhaps z")
        self.assert_error(["run", "m.pbtxt", "--fetch", "zz"], 1, "zz")
        self.assert_error(["run", "m.pbtxt", "--fetch", "z", "--signature", "s"], 1, "no signature")
        self.assert_error(["run", "m.pbtxt", "--fetch", "z"], 1, "feed")
        self.assert_error(["run", "none.pb", "--fetch", "z"], 1, "none.pb")

    def test_sparse_inputs_of_a_signature(self):
        part = lambda name, dtype: f"""node {{ name: "{name}" op: "Placeholder"
            attr {{ key: "dtype" value {{ type: {dtype} }} }} }}"""
        info = """value { dtype: DT_FLOAT coo_sparse { values_tensor_name: "v:0" indices_tensor_name: "i:0"
            dense_shape_tensor_name: "s:0" } }"""
        self.write("sparse.pbtxt", "graph_def {" + part("i", "DT_INT64") + part("v", "DT_FLOAT") + part("s", "DT_INT64")
                   + """node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
            attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0 } } } }
          node { name: "dense" op: "SparseToDense" input: "i" input: "s" input: "v" input: "zero"
            attr { key: "T" value { type: DT_FLOAT } } attr { key: "Tindices" value { type: DT_INT64 } } } }
        signature_def { key: "serving_default" value { inputs { key: "x" """ + info + """ }
          outputs { key: "y" value { name: "dense:0" dtype: DT_FLOAT } } outputs { key: "same" """ + info + "} } }")
        run = lambda *args: self.run_json("run", "sparse.pbtxt", *args)["outputs"]
        outputs = run("--feed", "x=[[0, 5], [7, 0], [0, 0]]")
        self.assertEqual(outputs["y"]["values"], [[0, 5], [7, 0], [0, 0]])
        self.assertEqual(outputs["same.indices"]["values"], [[0, 1], [1, 0]])
        self.assertEqual(outputs["same.values"]["values"], [5, 7])
        self.assertEqual(outputs["same.dense_shape"]["values"], [3, 2])
        outputs = run("--feed", "x.indices=[[1, 1]]", "--feed", "x.values=[3]", "--feed", "x.dense_shape=[2, 2]",
                      "--fetch", "y", "--signature", "serving_default")
        self.assertEqual(outputs["y"]["values"], [[0, 0], [0, 3]])
        self.assert_error(["run", "sparse.pbtxt"], 1, '"x" is not fed')
        self.assert_error(["run", "sparse.pbtxt", "--feed", "x.values=[1]"], 1, '"x" is not fed')
        shown = self.run_json("show", "sparse.pbtxt")["signatures"]["serving_default"]["inputs"]["x"]
        self.assertEqual(shown, {"indices": "i:0", "values": "v:0", "dense_shape": "s:0", "dtype": "float",
                                 "shape": "[]"})
        self.assertIn("sparse: i:0, v:0, s:0", self.run_program("show", "sparse.pbtxt").out)
        self.write("nameless.pbtxt", "graph_def {" + part("v", "DT_FLOAT") + """}
        signature_def { key: "serving_default" value {
          inputs { key: "x" value { dtype: DT_FLOAT coo_sparse { values_tensor_name: "v:0" } } }
          outputs { key: "y" value { name: "v:0" dtype: DT_FLOAT } } } }""")
        self.assert_error(["run", "nameless.pbtxt", "--feed", "x.indices=[[0]]"], 1, 'no tensor for "x.indices"')

    def test_traces(self):
        self.run_program("run", "m.pbtxt", "--feed", "x=[[1,2]]", "--fetch", "z", "--trace", "t.pb")
        self.assertGreater(self.run_json("trace", "t.pb")["events_count"], 0)

    def test_files_that_are_no_models(self):
        for name, data in (("empty.pb", b""), ("junk.pb", b"\xff" * 100), ("cut.pbtxt", AFFINE[:200].encode()),
                           ("deep.pbtxt", b"node { " * 5000), ("text.pb", b"hello"), ("long.pb", field(1, b"\x12" * 99))):
            self.write(name, data)
            for command in ("run", "show", "bench"):
                self.run_program(command, name, code=1)
            self.run_program("graph", "svg", name, code=1)
        self.write("folder/x", b"")
        self.assert_error(["show", "folder"], 1, "saved_model.pb")


class VariableTest(ModelTest):
    def test_a_meta_graph_with_a_checkpoint(self):
        self.save_variable("ckpt", "[1.5, -2]")
        self.write("m.pbtxt", META)
        outputs = self.run_json("run", "m.pbtxt", "--checkpoint", "ckpt")["outputs"]
        self.assertEqual(outputs, {"negated": {"dtype": "float", "shape": [2], "values": [-1.5, 2]}})
        self.assert_error(["run", "m.pbtxt", "--checkpoint", "nothing"], 1, "nothing")
        self.assert_error(["run", "m.pbtxt"], 1, "ninitialized")

    def test_a_saved_model(self):
        self.save_variable("model/variables/variables", "[3, 4]")
        self.write("model/saved_model.pbtxt", "meta_graphs {" + META + "} meta_graphs {" +
                   META.replace('"serve"', '"train"') + "}")
        self.assertEqual(self.run_json("run", "model")["outputs"]["negated"]["values"], [-3, -4])
        self.assertEqual(self.run_json("run", "model", "--tag", "train", "--fetch", "read")["outputs"]["read"]["values"],
                         [3, 4])
        self.assert_error(["run", "model", "--tag", "gpu"], 1, "{serve}, {train}")
        show = self.run_json("show", "model")
        self.assertEqual((show["kind"], show["tag_sets"]), ("SavedModel", ["serve", "train"]))
        self.assertEqual(show["signatures"]["serving_default"]["outputs"]["negated"],
                         {"tensor": "y:0", "dtype": "float", "shape": "[2]"})
        self.assertEqual(show["variables"], {"count": 1, "elements": 2, "bytes": 8})
        self.assertIn("negated", self.run_program("show", "model").out)

    def test_freeze_then_optimize(self):
        self.save_variable("ckpt", "[1, 2]")
        self.write("m.pbtxt", META)
        self.run_program("freeze", "m.pbtxt", "--checkpoint", "ckpt", "-o", "frozen.pb")
        self.assertEqual(self.run_json("run", "frozen.pb", "--fetch", "y")["outputs"]["y"]["values"], [-1, -2])
        self.assertEqual(self.run_json("show", "frozen.pb")["variables"]["count"], 0)
        optimized = self.run_json("optimize", "frozen.pb", "--fetch", "y", "-o", "small.pbtxt")
        self.assertEqual(optimized["nodes"], 1)
        self.assertEqual(self.run_json("run", "small.pbtxt", "--fetch", "y")["outputs"]["y"]["values"], [-1, -2])
        self.write("g.pbtxt", VARIABLE)
        self.run_program("freeze", "g.pbtxt", "--checkpoint", "ckpt", "--fetch", "y", "-o", "g.pb")
        self.assertEqual(self.run_json("run", "g.pb", "--fetch", "y")["outputs"]["y"]["values"], [-1, -2])
        self.assert_error(["freeze", "g.pbtxt", "--checkpoint", "none", "--fetch", "y", "-o", "x.pb"], 1, "none")
        self.assert_error(["optimize", "frozen.pb", "--fetch", "none", "-o", "x.pb"], 1, "none")
        self.assert_error(["optimize", "frozen.pb", "-o", "x.pb"], 1, "--fetch")


    def test_mapped_constants(self):
        values = "".join(f" float_val: {i}" for i in range(3000))
        self.write("m.pbtxt", f"""
node {{ name: "c" op: "Const" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }}
  attr {{ key: "value" value {{ tensor {{ dtype: DT_FLOAT tensor_shape {{ dim {{ size: 3000 }} }} {values} }} }} }} }}
node {{ name: "y" op: "Neg" input: "c" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
versions {{ producer: 24 }}
""")
        expected = [-i for i in range(3000)]
        frozen = self.run_json("freeze", "m.pbtxt", "--fetch", "y", "-o", "mapped.pb", "--mmap", "model.mmap")
        self.assertEqual(frozen["package"], "model.mmap")
        self.assertLess(frozen["bytes"], 1000)
        for model in ("mapped.pb", "model.mmap"):
            self.assertEqual(self.run_json("run", model, "--fetch", "y", "--all")["outputs"]["y"]["values"], expected)
        show = self.run_json("show", "model.mmap")
        self.assertEqual(show["kind"], "GraphDef with mapped constants")
        self.assertEqual(show["constants"], {"count": 1, "bytes": 12000})
        # What was mapped comes back into the graph. The same again has the same bytes.
        self.run_program("freeze", "model.mmap", "--fetch", "y", "-o", "whole.pb")
        for _ in range(5):
            self.run_program("freeze", "model.mmap", "--fetch", "y", "-o", "again.pb")
            with open(self.path("whole.pb"), "rb") as whole, open(self.path("again.pb"), "rb") as again:
                self.assertEqual(whole.read(), again.read())
        with open(self.path("model.mmap"), "rb") as file:
            package = file.read()
        self.write("model.mmap", package[:9000])
        self.assert_error(["run", "model.mmap", "--fetch", "y"], 1, "model.mmap")
        self.assert_error(["run", "mapped.pb", "--fetch", "y"], 1, "Corrupted memmapped model file")
        self.assertEqual(self.run_json("run", "whole.pb", "--fetch", "y", "--all")["outputs"]["y"]["values"], expected)


class ShowTest(ModelTest):
    def test_counts(self):
        self.write("m.pbtxt", AFFINE)
        show = self.run_json("show", "m.pbtxt", "--batch", "3")
        self.assertEqual(show["ops"], {"Const": 1, "MatMul": 1, "Neg": 1, "Placeholder": 1})
        self.assertEqual(show["constants"], {"count": 1, "bytes": 16})
        self.assertEqual(show["flops"]["by_op"], {"MatMul": 3 * 2 * 2 * 2, "Neg": 6})
        self.assertEqual(show["placeholders"], [{"name": "x", "dtype": "float", "shape": "[?,2]"}])
        self.assertTrue(show["runs_here"])
        self.assertIn("All ops and kernels are available.", self.run_program("show", "m.pbtxt").out)

    def test_convolutions_count_their_weights(self):
        self.write("c.pbtxt", """
          node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value {
            shape { dim { size: -1 } dim { size: 8 } dim { size: 8 } dim { size: 3 } } } } }
          node { name: "w" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value {
            shape { dim { size: 5 } dim { size: 5 } dim { size: 3 } dim { size: 4 } } } } }
          node { name: "c" op: "Conv2D" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } }
            attr { key: "strides" value { list { i: 1 i: 2 i: 2 i: 1 } } } attr { key: "padding" value { s: "SAME" } } }""")
        self.assertEqual(self.run_json("show", "c.pbtxt")["flops"]["total"], 2 * 4 * 4 * 4 * 5 * 5 * 3)

    def test_fused_products_count_what_follows_them(self):
        fused = 'attr { key: "num_args" value { i: 1 } } attr { key: "fused_ops" value { list { s: "BiasAdd" s: "Relu" } } }'
        bias = """node { name: "b" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
          attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 } } } }"""
        self.write("m.pbtxt", AFFINE.replace('op: "MatMul" input: "x" input: "layer/w"',
                                             'op: "_FusedMatMul" input: "x" input: "layer/w" input: "b" ' + fused) + bias)
        by_op = self.run_json("show", "m.pbtxt", "--batch", "3")["flops"]["by_op"]
        self.assertEqual(by_op, {"_FusedMatMul": 3 * 2 * 2 * 2 + 2 * 6, "Neg": 6})
        self.assertEqual(self.run_json("run", "m.pbtxt", "--feed", "x=[[1, 1]]", "--fetch", "z")["outputs"]["z"]["values"],
                         [[-5, -7]])

    def test_what_is_missing_is_named(self):
        self.write("m.pbtxt", AFFINE + 'node { name: "o" op: "NoSuchOp" input: "z" }')
        show = self.run_json("show", "m.pbtxt", code=3)
        self.assertEqual((show["missing_ops"], show["runs_here"]), (["NoSuchOp"], False))
        self.assertIn("MISSING op NoSuchOp", self.run_program("show", "m.pbtxt", code=3).out)
        self.write("k.pbtxt", AFFINE.replace("DT_FLOAT", "DT_UINT32").replace("float_val", "uint32_val"))
        missing = self.run_program("show", "k.pbtxt", "--json", code=None)
        self.assertIn(missing.code, (0, 3))


class BenchTest(ModelTest):
    def test_measures(self):
        self.write("m.pbtxt", AFFINE)
        bench = self.run_json("bench", "m.pbtxt", "--fetch", "z", "--runs", "50", "--threads", "3", "--batch", "4")
        self.assertEqual((bench["runs"], bench["threads"]), (50, 3))
        latency = bench["latency_s"]
        self.assertLessEqual(latency["min"], latency["p50"])
        self.assertLessEqual(latency["p50"], latency["p99"])
        self.assertLessEqual(latency["p99"], latency["max"])
        out = self.run_program("bench", "m.pbtxt", "--fetch", "z", "--seconds", "0.05").out
        self.assertIn("feed x: float [1,2]", out)
        self.assertIn("runs a second", out)
        self.assert_error(["bench", "m.pbtxt", "--fetch", "q"], 1, "q")

    def test_a_placeholder_that_is_fed_may_be_waited_for(self):
        self.write("m.pbtxt", AFFINE.replace('"layer/w" op: "Const"', '"layer/w" op: "Const" input: "^x"'))
        self.run_json("bench", "m.pbtxt", "--feed", "x=[[1, 2]]", "--fetch", "z", "--runs", "1")

    def test_what_takes_long_tells_how_far_it_is(self):
        self.write("m.pbtxt", AFFINE)
        self.assertRegex(self.run_program("bench", "m.pbtxt", "--fetch", "z", "--seconds", "3").err,
                         r"(?m)^millrace: running: [0-9,]+ runs\n")


class GraphTest(ModelTest):
    def chain(self, count):
        nodes = ['node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }']
        for i in range(count):
            nodes.append(f'node {{ name: "scope_{i // 50}/op_{i}" op: "Neg" input: "{"x" if i == 0 else last}" '
                         'attr { key: "T" value { type: DT_FLOAT } } }')
            last = f"scope_{i // 50}/op_{i}"
        return "\n".join(nodes)

    def test_dot_svg_and_html(self):
        self.write("m.pbtxt", AFFINE)
        shown = self.run_program("graph", "dot", "m.pbtxt", "-o", "-").out
        self.assertIn('label="layer/y\\nMatMul"', shown)  # all that the scope shows
        self.assertEqual(shown.count("->"), 2)
        self.assertNotIn("Const", shown)
        dot = self.run_program("graph", "dot", "m.pbtxt", "--constants", "-o", "-").out
        self.assertIn("subgraph cluster_", dot)
        self.assertEqual(dot.count("->"), 3)
        self.assertEqual(dot.count("{"), dot.count("}"))
        self.assertEqual(self.run_json("graph", "svg", "m.pbtxt")["output"], "m.svg")
        root = xml.etree.ElementTree.fromstring(self.read("m.svg"))
        text = "".join(root.itertext())
        for name in ("layer", "MatMul", "Placeholder", "4 nodes, 3 edges"):
            self.assertIn(name, text)
        self.assertNotIn("Const", text)
        self.assertIn("Const", self.run_program("graph", "svg", "m.pbtxt", "--constants", "-o", "-").out)
        self.write("c.pbtxt", 'node { name: "c" op: "Const" }')
        alone = self.run_program("graph", "svg", "c.pbtxt", "-o", "-").out
        self.assertIn("1 node, 0 edges", alone)
        self.assertIn("Const", alone)  # where there is nothing else
        self.run_program("graph", "html", "m.pbtxt")
        page = self.read("m.html").decode()
        self.assertNotRegex(page, r'(src|href)="(?!data:)')
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))
        self.assertEqual(data["nodes"]["name"], ["x", "layer/w", "layer/y", "z"])
        self.assertEqual(len(data["edges"]), 3 * 4)
        self.assertEqual(data["items"]["label"], ["", "layer", "x", "z", "w", "y"])

    def boxes_of(self, *args):
        svg = self.run_program("graph", "svg", *args, "-o", "-").out
        root = xml.etree.ElementTree.fromstring(svg)
        return root.findall(".//{http://www.w3.org/2000/svg}rect")

    def test_big_graphs_are_folded(self):
        self.write("big.pbtxt", self.chain(5000))
        for limit in (10, 80, 300):
            self.assertLessEqual(len(self.boxes_of("big.pbtxt", "--boxes", str(limit))), 2 * limit)
        self.assertLess(len(self.run_program("graph", "dot", "big.pbtxt", "-o", "-").out), 40000)
        flat = "\n".join(f'node {{ name: "n{chr(97 + i % 26)}x{i}y" op: "NoOp" }}' for i in range(3000))
        self.write("flat.pbtxt", flat)
        self.assertLessEqual(len(self.boxes_of("flat.pbtxt")), 160)

    def test_boxes_do_not_overlap(self):
        self.write("big.pbtxt", self.chain(300))
        places = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height"))
                  for r in self.boxes_of("big.pbtxt", "--boxes", "120") if r.get("class") != "open"]
        for i, (ax, ay, aw, ah) in enumerate(places):
            for bx, by, bw, bh in places[:i]:
                self.assertTrue(ax + aw <= bx + 0.2 or bx + bw <= ax + 0.2 or ay + ah <= by + 0.2 or by + bh <= ay + 0.2)

    def test_loops_missing_inputs_and_hostile_names(self):
        self.write("m.pbtxt", """
          node { name: "a" op: "X" input: "b" } node { name: "b" op: "X" input: "a" input: "^a" input: "gone" }
          node { name: "a/b" op: "Y" input: "a" } node { name: "//" op: "<script>" input: "a:7" }
          node { name: "\\033[2J</script><!--" op: "Z" input: "//" } node { name: "a" op: "again" }""")
        for kind in ("dot", "svg", "html"):
            result = self.run_program("graph", kind, "m.pbtxt")
            self.assertIn("gone", result.err)
        xml.etree.ElementTree.fromstring(self.read("m.svg"))
        self.assertEqual(self.read("m.html").decode().count("</script>"), 2)
        self.write("deep.pbtxt", 'node { name: "%s" op: "X" }' % "/".join(["s"] * 3000))
        self.run_program("graph", "svg", "deep.pbtxt", "--depth", "100")
        self.assert_error(["graph", "svg", "m.pbtxt", "-o", "m.pbtxt"], 2, "replace")


class CheckpointTest(ModelTest):
    def setUp(self):
        super().setUp()
        self.save_variable("a", "[1, 2]")
        self.save_variable("b", "[1, 2.5]")

    def test_ls_and_cat(self):
        for name in ("a", "a.index", "a.data-00000-of-00001"):
            ls = self.run_json("checkpoint", "ls", name)
            self.assertEqual(ls["tensors"], [{"name": "v", "dtype": "float", "shape": [2], "bytes": 8}])
        self.assertIn("1 tensor, 2 elements, 8 B, format v2", self.run_program("checkpoint", "ls", "a").out)
        self.assertEqual(self.run_json("checkpoint", "ls", "a", "x*")["tensors"], [])
        self.assertIn("v: float [2], from 1 to 2, mean 1.5\n[1. 2.]", self.run_program("checkpoint", "cat", "a", "v").out)
        self.assertEqual(self.run_json("checkpoint", "cat", "b", "v")["tensors"]["v"]["values"], [1, 2.5])
        self.run_program("checkpoint", "cat", "b", "*", "--out", "v.npy")
        self.assertEqual(struct.unpack("<2f", self.read("v.npy")[-8:]), (1, 2.5))
        self.assert_error(["checkpoint", "cat", "a", "w"], 1, "Key w not found")
        self.assert_error(["checkpoint", "cat", "a", "v", "--out", "x.txt"], 2, "neither")

    def test_diff(self):
        self.assertTrue(self.run_json("checkpoint", "diff", "a", "a")["equal"])
        diff = self.run_json("checkpoint", "diff", "a", "b", code=3)
        self.assertEqual((diff["equal"], diff["differences"][0]["largest"]), (False, 0.5))
        self.assertIn("1 of 2 differ, by at most 0.5", self.run_program("checkpoint", "diff", "a", "b", code=3).out)
        self.run_program("checkpoint", "diff", "a", "b", "--atol", "0.5")
        self.run_program("checkpoint", "diff", "a", "b", "--rtol", "0.19", code=3)
        self.run_program("checkpoint", "diff", "a", "none", code=1)

    def test_convert_there_and_back(self):
        self.assertEqual(self.run_json("checkpoint", "convert", "b", "old", "--to", "v1")["tensors"], 1)
        self.assertEqual(self.run_json("checkpoint", "ls", "old")["format"], "v1")
        self.run_program("checkpoint", "diff", "old", "b")
        self.run_program("checkpoint", "convert", "old", "new")
        self.assertEqual(self.run_json("checkpoint", "cat", "new", "v")["tensors"]["v"]["values"], [1, 2.5])
        self.assert_error(["checkpoint", "convert", "a.index", "a"], 2, "replace")

    def test_broken_and_missing_checkpoints(self):
        index = self.read("a.index")
        for at in range(0, len(index), 7):
            broken = bytearray(index)
            broken[at] ^= 0xFF
            self.write("a.index", bytes(broken))
            self.assertIn(self.run_program("checkpoint", "cat", "a", "v", code=None).code, (0, 1))
        self.write("a.index", index)
        data = bytearray(self.read("a.data-00000-of-00001"))
        data[0] ^= 1
        self.write("a.data-00000-of-00001", bytes(data))
        self.assert_error(["checkpoint", "cat", "a", "v"], 1, "Data loss")
        self.assert_error(["checkpoint", "ls", "none"], 1, "none")
        self.write("empty/x", b"")
        self.assert_error(["checkpoint", "ls", "empty"], 1, "no checkpoint")


if __name__ == "__main__":
    unittest.main()
