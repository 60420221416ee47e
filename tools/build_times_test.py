# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
import unittest

import build_times

LOG = """# ninja log v5
0\t9000\t1\tsrc/base/CMakeFiles/mr_base.dir/env.cc.o\tab
0\t3000\t2\tsrc/base/CMakeFiles/mr_base.dir/env.cc.o\tab
0\t500\t2\tsrc/base/CMakeFiles/base_test.dir/env_test.cc.o\tac
0\t1000\t2\tsrc/cc/CMakeFiles/mr_cc.dir/__/__/generated/cc/group_0.cc.o\tad
0\t500\t2\tCMakeFiles/mr_test_headers.dir/cmake_pch.hxx.gch\tae
0\t5000\t2\tbench/exec/CMakeFiles/bench_exec.dir/bench_exec.cc.o\taf
0\t10\t2\tlib/libmr_base.a\tag
"""


class BuildTimesTest(unittest.TestCase):
    def test_the_last_job_of_an_output_counts(self) -> None:
        self.assertEqual(build_times.read_log(LOG)["src/base/CMakeFiles/mr_base.dir/env.cc.o"], 3.0)

    def test_jobs_are_sorted_by_kind_and_folder(self) -> None:
        lines = build_times.table(build_times.read_log(LOG))
        self.assertEqual(lines[2], "| **benchmarks** | 1 | 5 | 50 |")
        self.assertEqual(lines[3:5], ["| **product** | 1 | 3 | 30 |", "| src/base | 1 | 3 | 30 |"])
        self.assertEqual(lines[5:7], ["| **generated sources** | 1 | 1 | 10 |", "| src/cc | 1 | 1 | 10 |"])
        self.assertIn("| src/base | 1 | 0 | 5 |", lines)
        self.assertIn("| **precompiled headers** | 1 | 0 | 5 |", lines)
        self.assertEqual(lines[-1], "| **linking and generating** | 1 | 0 | 0 |")

    def test_an_empty_log_is_a_table_without_rows(self) -> None:
        self.assertEqual(len(build_times.table(build_times.read_log("# ninja log v5\n"))), 2)


if __name__ == "__main__":
    unittest.main()
