# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""millrace data, as a program, on graphs of datasets."""

import os
import subprocess
import unittest

import program

INT64 = "attr { key: \"output_types\" value { list { type: DT_INT64 } } }"
SCALAR = INT64 + ' attr { key: "output_shapes" value { list { shape { } } } }'
VECTOR = INT64 + ' attr { key: "output_shapes" value { list { shape { dim { size: -1 } } } } }'


def number(name, value):
    return f"""node {{ name: "{name}" op: "Const" attr {{ key: "dtype" value {{ type: DT_INT64 }} }}
      attr {{ key: "value" value {{ tensor {{ dtype: DT_INT64 tensor_shape {{ }} int64_val: {value} }} }} }} }}\n"""


def node(name, op, inputs, attrs):
    return f'node {{ name: "{name}" op: "{op}" ' + " ".join(f'input: "{i}"' for i in inputs) + f" {attrs} }}\n"


NUMBERS = number("zero", 0) + number("one", 1) + number("two", 2) + number("ten", 10) + number("slowly", 5000)
DROP = """node { name: "drop" op: "Const" attr { key: "dtype" value { type: DT_BOOL } }
  attr { key: "value" value { tensor { dtype: DT_BOOL tensor_shape { } bool_val: false } } } }\n"""
VERSIONS = "versions { producer: 24 }\n"
# Ten numbers, slowly, in batches of two.
PIPELINE = (
    NUMBERS
    + DROP
    + node("range", "RangeDataset", ["zero", "ten", "one"], SCALAR)
    + node("slow", "SleepDataset", ["range", "slowly"], SCALAR)
    + node("ahead", "PrefetchDataset", ["slow", "two"], SCALAR)
    + node("batch", "BatchDatasetV2", ["ahead", "two", "drop"], VECTOR)
)
ITERATOR = (
    node("it", "IteratorV2", [], VECTOR + """ attr { key: "shared_name" value { s: "" } }
      attr { key: "container" value { s: "" } }""")
    + node("init", "MakeIterator", ["batch", "it"], "")
    + node("next", "IteratorGetNext", ["it"], VECTOR)
)
# The same two numbers from a one-shot iterator.
ONE_SHOT = (
    """library { function { signature { name: "Make" output_arg { name: "d" type: DT_VARIANT } is_stateful: true }
      ret { key: "d" value: "range:handle:0" }
      node_def { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT64 } } attr { key: "value" value {
        tensor { dtype: DT_INT64 tensor_shape { } int64_val: 0 } } } }
      node_def { name: "two" op: "Const" attr { key: "dtype" value { type: DT_INT64 } } attr { key: "value" value {
        tensor { dtype: DT_INT64 tensor_shape { } int64_val: 2 } } } }
      node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_INT64 } } attr { key: "value" value {
        tensor { dtype: DT_INT64 tensor_shape { } int64_val: 1 } } } }
      node_def { name: "range" op: "RangeDataset" input: "zero:output:0" input: "two:output:0" input: "one:output:0" """
    + SCALAR
    + "} } }\n"
    + node("it", "OneShotIterator", [], SCALAR + """ attr { key: "shared_name" value { s: "" } }
      attr { key: "container" value { s: "" } } attr { key: "dataset_factory" value { func { name: "Make" } } }""")
    + node("next", "IteratorGetNext", ["it"], SCALAR)
)


class DataTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("g.pbtxt", PIPELINE + VERSIONS)

    def stages(self, result):
        return [(s["kind"], s["node"], s["reader"], s["elements"]) for s in result["stages"]]

    def test_shows_elements_and_names_the_slow_stage(self):
        out = self.run_program("data", "g.pbtxt", "--show", "2").out
        lines = out.splitlines()
        self.assertEqual(lines[:7], ["batch: int64 [?]; 5 elements", "element 0", "int64 [2]", "[0 1]", "element 1",
                                     "int64 [2]", "[2 3]"])
        self.assertRegex(lines[7], r"^5 elements in .* a second; the end was reached$")
        self.assertEqual(lines[8].split(), ["stage", "elements", "a", "second", "own", "wait", "buffer", "delay"])
        self.assertEqual([line.split()[:3] for line in lines[9:13]],
                         [["Batch", "batch", "5"], ["Prefetch", "ahead", "10"], ["Sleep", "slow", "10"],
                          ["Range", "range", "10"]])
        self.assertEqual([len(line) - len(line.lstrip()) for line in lines[9:13]], [0, 2, 4, 6])
        self.assertEqual(lines[13:], ["bottleneck: Sleep slow"])

    def test_measures_each_stage(self):
        result = self.run_json("data", "g.pbtxt", "--show", "1")
        self.assertEqual(result["node"], "batch")
        self.assertEqual(result["components"], [{"dtype": "int64", "shape": "[?]"}])
        self.assertEqual(result["cardinality"], 5)
        self.assertEqual(result["shown"], [[{"dtype": "int64", "shape": [2], "values": [0, 1]}]])
        self.assertEqual((result["elements"], result["ended"]), (5, True))
        self.assertEqual(self.stages(result), [("Batch", "batch", -1, 5), ("Prefetch", "ahead", 0, 10),
                                               ("Sleep", "slow", 1, 10), ("Range", "range", 2, 10)])
        self.assertEqual(result["bottleneck"], 2)
        batch, ahead, slow, _ = result["stages"]
        self.assertGreater(slow["own_s"], batch["own_s"])
        self.assertEqual(ahead["buffer"]["size"], 2)
        self.assertLessEqual(ahead["buffer"]["mean"], 2)
        self.assertNotIn("buffer", batch)
        self.assertGreater(ahead["wait_s"], 0)
        self.assertGreaterEqual(result["seconds"], result["first_s"])

    def test_reads_no_more_than_is_asked_for(self):
        self.assertEqual(self.run_json("data", "g.pbtxt", "--elements", "3")["elements"], 3)
        result = self.run_json("data", "g.pbtxt", "--elements=0")
        self.assertEqual((result["elements"], result["shown"], result["ended"]), (0, [], False))
        self.assertEqual(self.run_json("data", "g.pbtxt", "--seconds=0")["elements"], 1)

    def test_any_dataset_of_the_graph(self):
        result = self.run_json("data", "g.pbtxt", "--node", "range", "--show=10")
        self.assertEqual([e[0]["values"] for e in result["shown"]], list(range(10)))
        self.assertEqual(self.stages(result), [("Range", "range", -1, 10)])

    def test_what_starts_or_reads_an_iterator_names_its_dataset(self):
        self.write("it.pbtxt", PIPELINE + ITERATOR + VERSIONS)
        for name in ["", "it", "init", "next", "next:0", "batch:0"]:
            self.assertEqual(self.run_json("data", "it.pbtxt", "--node", name, "--elements=1")["node"], "batch")
        self.write("two.pbtxt", PIPELINE + ITERATOR + node("other", "MakeIterator", ["range", "it"], "") + VERSIONS)
        self.assert_error(["data", "two.pbtxt", "--node=next"], 1, "several datasets", '"batch", "range"')

    def test_one_shot_iterators(self):
        self.write("once.pbtxt", ONE_SHOT + VERSIONS)
        for name in ["", "it", "next"]:
            result = self.run_json("data", "once.pbtxt", "--node", name)
            self.assertEqual(self.stages(result), [("Range", "range", -1, 2)])
            self.assertEqual([e[0]["values"] for e in result["shown"]], [0, 1])

    def test_saved_models_binary_graphs_and_standard_input(self):
        self.write("model/saved_model.pbtxt",
                   'meta_graphs { meta_info_def { tags: "serve" } graph_def {' + PIPELINE + VERSIONS + "} }")
        self.assertEqual(self.run_json("data", "model")["elements"], 5)
        # All elements: of a single one the times say little.
        process = subprocess.run([program.PROGRAM, "data", "-"], input=(PIPELINE + VERSIONS).encode(),
                                 capture_output=True, timeout=60, check=True)
        self.assertRegex(process.stdout, rb"\n +Sleep slow +10 ")
        self.assertIn(b"bottleneck: Sleep slow", process.stdout)

    def test_placeholders_are_fed(self):
        fed = PIPELINE.replace(number("ten", 10), """node { name: "ten" op: "Placeholder"
          attr { key: "dtype" value { type: DT_INT64 } } }\n""")
        self.write("fed.pbtxt", fed + VERSIONS)
        self.assertEqual(self.run_json("data", "fed.pbtxt", "--feed", "ten=4")["elements"], 2)
        self.assert_error(["data", "fed.pbtxt"], 1, "ten")

    def test_files_are_read(self):
        text = """node { name: "files" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value"
          value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "%s" } } } }
          node { name: "none" op: "Const" attr { key: "dtype" value { type: DT_STRING } } attr { key: "value" value {
          tensor { dtype: DT_STRING tensor_shape { } string_val: "" } } } }
          """ % self.path("lines.txt")
        self.write("lines.pbtxt", text + number("zero", 0)
                   + node("lines", "TextLineDataset", ["files", "none", "zero"], "") + VERSIONS)
        self.write("lines.txt", "a\nb\n")
        result = self.run_json("data", "lines.pbtxt")
        self.assertEqual([e[0]["values"] for e in result["shown"]], ["a", "b"])
        os.remove(self.path("lines.txt"))
        self.assert_error(["data", "lines.pbtxt"], 1, "lines.txt", "after 0 elements")

    def test_what_is_no_pipeline(self):
        self.write("none.pbtxt", NUMBERS + VERSIONS)
        self.assert_error(["data", "none.pbtxt"], 1, "there is no dataset in the graph")
        self.assert_error(["data", "g.pbtxt", "--node=two"], 1, '"two" is not a dataset')
        self.assert_error(["data", "g.pbtxt", "--node=bach"], 1, 'there is no node "bach"', 'datasets are "batch"')
        self.write("two.pbtxt", PIPELINE + node("more", "RangeDataset", ["zero", "ten", "one"], SCALAR) + VERSIONS)
        self.assert_error(["data", "two.pbtxt"], 1, "there are 2 datasets", '"batch", "more"')
        self.write("it.pbtxt", PIPELINE + ITERATOR.replace('"MakeIterator"', '"NoOp"').replace(
            'input: "batch" input: "it"', "") + VERSIONS)
        self.assert_error(["data", "it.pbtxt", "--node=it"], 1, "no MakeIterator starts")

    def test_wrong_command_lines(self):
        self.assert_error(["dta", "g.pbtxt"], 2, "did you mean 'data'?")
        self.assert_error(["data", "g.pbtxt", "--element=3"], 2, "did you mean '--elements'?")
        self.assert_error(["data", "g.pbtxt", "--elements=-1"], 2, "'-1' is not a number from 0 on")
        self.assert_error(["data", "g.pbtxt", "--seconds=x"], 2, "'x' is not a number")

    def test_a_stage_that_hangs_is_given_up(self):
        hangs = PIPELINE.replace(number("slowly", 5000), number("slowly", 3600000000))
        self.write("hangs.pbtxt", hangs + VERSIONS)
        self.assert_error(["data", "hangs.pbtxt", "--timeout=0.2"], 1, "Deadline exceeded")


if __name__ == "__main__":
    unittest.main()
