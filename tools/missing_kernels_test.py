# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The table of ops without kernels."""

import json
import unittest

import missing_kernels

OLD = "Abs\n  in   x: T\nQuantizedAdd\n  in   x: T1\n"
NEW = OLD + "ConfigureDistributedTPU\n  out  topology: string\nTileGrad\n  in   input: T\n_Internal\n"


def listing(**kernels):
    return json.dumps({"ops": [{"name": name, "kernels": found} for name, found in kernels.items()]})


class MissingKernelsTest(unittest.TestCase):
    def test_names_of_a_list(self):
        self.assertEqual(["Abs", "QuantizedAdd", "ConfigureDistributedTPU", "TileGrad"], missing_kernels.listed(NEW))

    def test_an_op_without_kernels_is_missing(self):
        self.assertEqual({"Abs"}, missing_kernels.with_kernels(listing(Abs=[{"device": "CPU"}], TileGrad=[])))

    def test_rows_by_purpose(self):
        lines = missing_kernels.table(missing_kernels.listed(NEW), {"Abs", "QuantizedAdd"}, {"Abs"})
        self.assertEqual(["| for | number | ops |", "|---|---|---|", "| TPUs | 1 | ConfigureDistributedTPU |",
                          "| quantised arithmetic | 1 | **QuantizedAdd** |", "| others | 1 | TileGrad |", ""], lines[:-1])
        self.assertIn("With a kernel: 1 of 4. Of the other 3, 1 are for TPUs", lines[-1])

    def test_the_table_goes_between_its_marks(self):
        text = f"a\n{missing_kernels.BEGIN}\nold\n{missing_kernels.END}\nb\n"
        new = missing_kernels.replaced(text, ["new"])
        self.assertEqual(f"a\n{missing_kernels.BEGIN}\n\nnew\n\n{missing_kernels.END}\nb\n", new)
        self.assertEqual(new, missing_kernels.replaced(new, ["new"]))

    def test_a_file_without_marks_is_refused(self):
        with self.assertRaises(ValueError):
            missing_kernels.replaced("a\n", ["new"])


if __name__ == "__main__":
    unittest.main()
