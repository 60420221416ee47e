# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each rule of check_docs.py must fire on a small repository that breaks it."""

import os
import tempfile
import unittest

import check_docs

GOOD = {
    "README.md": "[docs](docs/a.md), [web](https://example.org), `src/base/a.h`, `base/a.h`, `a.h`, `/job:x/cpu:0`, `src/`\n\n"
                 "<!-- the text of examples/q.cc -->\n```cpp\nint main() {}\n```\n",
    "docs/a.md": "[up](../README.md)\n\n```sh\n[not](a-link)\n```\n",
    "examples/q.cc": "int main() {}\n",
    "src/base/a.h": "",
    "src/base/README.md": "# base\n",
}


class CheckDocsTest(unittest.TestCase):
    def problems(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**GOOD, **files}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check_docs.check(root)[0]

    def test_a_repository_that_says_what_is_there(self):
        self.assertEqual([], self.problems({}))

    def test_a_link_that_leads_nowhere(self):
        self.assertEqual(["docs/a.md: the link to b.md leads nowhere"], self.problems({"docs/a.md": "[b](b.md)"}))

    def test_a_path_that_is_gone(self):
        self.assertEqual(["docs/a.md: `src/base/b.h` does not exist"], self.problems({"docs/a.md": "`src/base/b.h`"}))
        self.assertEqual(["docs/a.md: `gone.h` does not exist"], self.problems({"docs/a.md": "`gone.h`"}))

    def test_a_block_that_is_not_its_file_any_more(self):
        self.assertEqual(["README.md: the block is not the text of examples/q.cc any more"],
                         self.problems({"examples/q.cc": "int main() { return 1; }\n"}))

    def test_a_block_that_is_no_part_of_its_file_any_more(self):
        def show(block, source="examples/q.cc"):
            return {"docs/a.md": f"<!-- a part of {source} -->\n```cpp\n{block}```\n", "examples/q.cc": "int a;\nint b;\nint c;\n"}

        self.assertEqual([], self.problems({**show("int b;\nint c;\n"), "README.md": ""}))
        for block in ("int a;\nint c;\n", "nt b;\n", "int b\n"):
            self.assertEqual(["docs/a.md: the block is no part of examples/q.cc any more"],
                             self.problems({**show(block), "README.md": ""}))
        self.assertEqual(["docs/a.md: shows a part of examples/r.cc, which does not exist"],
                         self.problems({**show("", "examples/r.cc"), "README.md": ""}))
        self.assertEqual(["docs/a.md: names a file of which no block follows"],
                         self.problems({"docs/a.md": "<!-- a part of examples/q.cc -->\n\ntext\n"}))

    def test_the_number_of_ops(self):
        table = {"tests/data/ops_signatures.txt": "# ops\nAbs\n  in   x: T\nAdd\n  in   x: T\n_Arg\n"}
        self.assertEqual([], self.problems({"docs/a.md": "2 ops of TensorFlow", **table}))
        self.assertEqual(["docs/a.md: names 3 ops, tests/data/ops_signatures.txt has 2"],
                         self.problems({"docs/a.md": "3 ops of TensorFlow", **table}))

    def test_a_folder_without_a_readme_or_with_a_long_one(self):
        self.assertEqual(["src/op/README.md: missing"], self.problems({"src/op/b.h": ""}))
        self.assertEqual(["src/base/README.md: more than 15 lines"], self.problems({"src/base/README.md": "x\n" * 16}))


if __name__ == "__main__":
    unittest.main()
