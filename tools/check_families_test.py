# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""check_families.py must find ops that are in another family than their declaration."""

import os
import unittest

import check_families
import source_files

TREE = {
    "src/ops/math/math.cc": 'OpBuilder("Sum: The sum.").Attr("T: type"); Row{"Adam: One step."};',
    "src/ops/data/data_ops.def": 'R"ops(\nMapDataset: What a function makes of each element.\n  in a: variant\n',
    "src/ops/nn/nn.cc": 'WithSuffix("Pool: The mean.", version)',
    "src/gradients/math/sum.cc": '{"Sum", SumGrad}, {"Tout", x}',
    "src/kernels/cpu/nn/pool.cc": 'KernelDef("PoolV2")',
    "src/kernels/cpu/vector/loops.cc": 'KernelDef("Sum")',
    "tests/optest/math/sum.optest": "Sum(float[1] 1; int32[] 0) -> float[] 1\n",
}


class CheckFamiliesTest(unittest.TestCase):
    def with_file(self, path, text):
        return check_families.check({**TREE, path: text})

    def test_a_tree_that_agrees(self):
        self.assertEqual([], check_families.check(TREE))

    def test_declarations(self):
        self.assertEqual({"Sum": "math", "Adam": "math", "MapDataset": "data", "Pool": "nn"},
                         check_families.declarations(TREE))

    def test_a_gradient_elsewhere(self):
        self.assertEqual(["src/gradients/nn/sum.cc: Sum is declared in src/ops/math"],
                         self.with_file("src/gradients/nn/sum.cc", '{"Sum", SumGrad}'))

    def test_a_kernel_elsewhere_by_the_parts_of_its_name(self):
        self.assertEqual(["src/kernels/cpu/nn/adam.cc: ResourceSparseApplyAdam is declared in src/ops/math"],
                         self.with_file("src/kernels/cpu/nn/adam.cc", 'KernelDef("ResourceSparseApplyAdam")'))

    def test_rows_elsewhere(self):
        self.assertEqual(["tests/optest/math/pool.optest: Pool is declared in src/ops/nn"],
                         self.with_file("tests/optest/math/pool.optest", "Pool{ksize=2}(float[1] 1) -> float[1] 1\n"))

    def test_a_shape_test_elsewhere(self):
        self.assertEqual(["src/ops/math/shapes_test.cc: Pool is declared in src/ops/nn"],
                         self.with_file("src/ops/math/shapes_test.cc", 'Expect(Op("Pool"), "[1]", "[1]");'))

    def test_a_folder_that_is_no_family(self):
        self.assertEqual(["src/gradients/other: no family of src/ops has this name"],
                         self.with_file("src/gradients/other/x.cc", ""))

    def test_exceptions_are_still_needed(self):
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        texts = {path: source_files.read(root, path) for path in source_files.repository_files(root)
                 if path.startswith(("src/ops/", *check_families.NAMED))}
        declared = check_families.declarations(texts)
        for (top, folder), ops in check_families.ELSEWHERE.items():
            found = set()
            for _, family, text in check_families.sources(texts, top):
                if family == folder:
                    found.update(check_families.NAMED[top].findall(text))
            for op in ops:
                self.assertIn(op, found)
                self.assertNotEqual(folder, check_families.family_of(op, declared))


if __name__ == "__main__":
    unittest.main()
