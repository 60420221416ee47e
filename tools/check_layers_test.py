# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each rule of check_layers.py must fire on a small repository that breaks it."""

import os
import tempfile
import unittest

import check_layers

DOCUMENT = """
```include-table
base:   -
proto:  -
tensor: base proto
kernels: tensor base   # a comment
rpc:    base
```
```public-headers
status.h: base
tensor.h: tensor
```
"""


class CheckLayersTest(unittest.TestCase):
    def problems(self, files):
        """The problems of a repository that holds the document, the public headers and the given files."""
        everything = {"docs/architecture.md": DOCUMENT, "include/millrace/status.h": "",
                      "include/millrace/tensor.h": '#include "millrace/status.h"\n'}
        everything.update(files)
        with tempfile.TemporaryDirectory() as root:
            for path, text in everything.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check_layers.check(root)[0]

    def assert_one(self, files, expected):
        problems = self.problems(files)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(expected, problems[0])

    def test_allowed_includes_pass(self):
        self.assertEqual([], self.problems({
            "src/base/a.cc": '#include "base/a.h"\n#include <vector>\n#include "millrace/status.h"\n',
            "src/tensor/b.cc": '#include "base/a.h"\n#include "tensorflow/core/x.pb.h"\n',
            "src/tensor/b_codec.h": '#include "tensorflow/core/x.pb.h"\n',
            "src/base/a_test.cc": '#include "tensor/b.h"\n',
            "src/kernels/cpu/k.cc": '#include <Eigen/Core>\n#include <dnnl.hpp>\n',
            "bench/kernels/baseline.cc": '#include <dnnl.hpp>\n',
            "src/kernels/CMakeLists.txt": "mr_library(kernels SOURCES a.cc DEPS kernels_loops tensor base LINK x)\n",
            "src/kernels/cpu/loops/CMakeLists.txt": "mr_library(kernels_loops SOURCES a.cc DEPS base)\n",
            "tests/t/helper.h": '#include "tensorflow/core/x.pb.h"\n',
            "examples/e/e.cc": '#include "millrace/tensor.h"\n#include "e.h"\n'}))

    def test_an_include_upwards_is_named_with_its_line(self):
        self.assert_one({"src/base/a.cc": '\n#include "tensor/b.h"\n'},
                        'src/base/a.cc:2: base may not include tensor: #include "tensor/b.h"')

    def test_a_public_header_counts_as_its_folder(self):
        self.assert_one({"src/base/a.cc": '#include "millrace/tensor.h"\n'}, "base may not include tensor")

    def test_a_public_header_includes_only_public_headers(self):
        self.assert_one({"include/millrace/status.h": '#include "base/a.h"\n'}, "public headers include only each other")

    def test_a_header_for_c_includes_only_those_of_the_c_api(self):
        document = DOCUMENT.replace("status.h: base", "status.h: base\nc/a.h: base")
        files = {"docs/architecture.md": document, "include/millrace/c/a.h": '#include "tensorflow/c/c_api.h"\n'}
        self.assertEqual([], self.problems(files))
        files["include/millrace/c/a.h"] = '#include "millrace/status.h"\n'
        self.assert_one(files, "headers for C include only each other and those of the C API")

    def test_every_public_header_is_listed(self):
        self.assert_one({"include/millrace/new.h": ""}, "include/millrace/new.h: not in the public-headers block")

    def test_a_listed_header_exists(self):
        self.assert_one({"docs/architecture.md": DOCUMENT.replace("status.h: base", "status.h: base\ngone.h: base")},
                        "gone.h is listed but does not exist")

    def test_too_many_public_headers(self):
        most = check_layers.MOST_PUBLIC_HEADERS
        names = [f"h{i}.h" for i in range(most - 1)]
        listed = DOCUMENT.replace("status.h: base", "\n".join(["status.h: base"] + [n + ": base" for n in names]))
        files = {"include/millrace/" + name: "" for name in names}
        self.assert_one({"docs/architecture.md": listed, **files}, f"{most + 1} public headers, at most {most}")

    def test_an_unknown_folder(self):
        self.assert_one({"src/misc/a.cc": ""}, "folder 'misc' is not in the include table")
        self.assert_one({"src/base/a.cc": '#include "misc/a.h"\n'}, "no folder 'misc'")

    def test_an_include_without_its_folder(self):
        self.assert_one({"src/base/a.cc": '#include "a.h"\n'}, 'include project headers as "folder/file.h"')

    def test_no_way_up_the_tree(self):
        self.assert_one({"src/base/a.cc": '#include "../tensor/b.h"\n'}, "no ../ in includes")

    def test_third_party_code_stays_at_home(self):
        self.assert_one({"src/tensor/a.cc": "#include <Eigen/Core>\n"}, "src/kernels/cpu/*.cc and linalg/ only")
        self.assert_one({"src/kernels/cpu/a.h": "#include <Eigen/Core>\n"}, "src/kernels/cpu/*.cc and linalg/ only")
        self.assert_one({"src/kernels/a.cc": "#include <oneapi/dnnl/dnnl.hpp>\n"}, "src/kernels/cpu and bench only")
        self.assert_one({"src/base/a.cc": "#include <grpcpp/grpcpp.h>\n"}, "src/rpc and bench only")

    def test_a_message_in_an_ordinary_header(self):
        self.assert_one({"src/tensor/a.h": '#include "tensorflow/core/x.pb.h"\n'}, "in a header that is not a codec")

    def test_examples_see_public_headers_only(self):
        self.assert_one({"examples/e/e.cc": '#include "base/a.h"\n'}, "examples include public headers")

    def test_link_edges_follow_the_table(self):
        self.assert_one({"src/base/CMakeLists.txt": "mr_library(base\n  SOURCES a.cc\n  DEPS proto tensor)\n"
                                                    .replace("proto ", "")}, "mr_library(base) may not link tensor")

    def test_a_library_within_a_folder_counts_as_the_folder(self):
        loops = "mr_library(kernels_loops SOURCES a.cc DEPS rpc)\n"
        self.assert_one({"src/kernels/cpu/loops/CMakeLists.txt": loops}, "mr_library(kernels_loops) may not link rpc")
        self.assert_one({"src/kernels/cpu/loops/CMakeLists.txt": "mr_library(kernels_loops SOURCES a.cc)\n",
                         "src/base/CMakeLists.txt": "mr_library(base SOURCES a.cc DEPS kernels_loops)\n"},
                        "mr_library(base) may not link kernels_loops")

    def test_a_library_that_nobody_makes(self):
        self.assert_one({"src/tensor/CMakeLists.txt": "mr_library(tensor SOURCES a.cc DEPS bass)\n"},
                        "mr_library(tensor) links bass, which no mr_library makes")

    def test_the_table_has_no_cycle(self):
        self.assert_one({"docs/architecture.md": DOCUMENT.replace("base:   -", "base:   rpc")},
                        "base names rpc, which is not above it")

    def test_a_missing_table_is_a_problem(self):
        self.assert_one({"docs/architecture.md": "# nothing\n"}, "no block ```include-table")


if __name__ == "__main__":
    unittest.main()
