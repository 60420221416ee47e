# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each rule of check_c_api.py must fire."""

import unittest

import check_c_api

HEADER = """/* TF_CAPI_EXPORT extern void TF_Hidden(void); */
TF_CAPI_EXPORT extern TF_Status* TF_NewStatus(void);
TF_CAPI_EXPORT extern void TF_Set(TF_Status*, void (*fn)(int),
                                  int);
"""
FUNCTIONS = {"TF_NewStatus", "TF_Set"}
TESTS = ["s = TF_NewStatus(); TF_Set(s, 0, 1);"]


class CheckCApiTest(unittest.TestCase):
    def problems(self, exports=frozenset(FUNCTIONS), soname=check_c_api.SONAME, tests=TESTS):
        return check_c_api.problems(set(exports), FUNCTIONS, soname, tests)

    def test_declarations_are_found_and_comments_are_not(self):
        self.assertEqual(FUNCTIONS, check_c_api.declared([HEADER]))

    def test_a_library_that_exports_its_headers_passes(self):
        self.assertEqual([], self.problems())

    def test_a_symbol_beyond_the_headers(self):
        self.assertEqual(["exported but not declared: TF_More"], self.problems(FUNCTIONS | {"TF_More"}))

    def test_a_function_that_is_missing(self):
        self.assertEqual(["declared but not exported: TF_Set"], self.problems({"TF_NewStatus"}))

    def test_another_soname(self):
        self.assertEqual(["the SONAME is libmillrace_c.so, not libtensorflow.so.1"],
                         self.problems(soname="libmillrace_c.so"))

    def test_a_function_without_a_test(self):
        self.assertEqual(["no test calls TF_Set"], self.problems(tests=["TF_NewStatus(); /* TF_Set */"]))


if __name__ == "__main__":
    unittest.main()
