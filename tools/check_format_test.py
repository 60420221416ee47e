# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""check_format.sh on small repositories made for each test."""

import os
import shutil
import subprocess
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
LICENCE = "SPDX-FileCopyrightText: The Millrace Authors\n{0} SPDX-License-Identifier: Apache-2.0\n"


class CheckFormatTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        shutil.copy(os.path.join(TOOLS, "..", ".clang-format"), self.root)

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, *options):
        return subprocess.run([os.path.join(TOOLS, "check_format.sh"), *options, self.root],
                              capture_output=True, text=True, check=False)

    def test_a_clean_file_passes(self):
        self.write("a.cc", "// " + LICENCE.format("//") + "int Sum(int a, int b) { return a + b; }\n")
        result = self.check()
        self.assertEqual(0, result.returncode, result.stdout + result.stderr)
        self.assertIn("1 C++ files, 1 sources, 0 problems", result.stdout)

    def test_an_unformatted_file_is_named_and_fix_mends_it(self):
        self.write("folder/a b.h", "// " + LICENCE.format("//") + "int  Sum( int a );\n")
        result = self.check()
        self.assertEqual(1, result.returncode)
        self.assertIn("folder/a b.h: not formatted", result.stdout)
        self.assertEqual(0, self.check("--fix").returncode)

    def test_a_file_without_licence_is_named(self):
        self.write("a.py", "# SPDX-FileCopyrightText: The Millrace Authors\n")
        result = self.check()
        self.assertEqual(1, result.returncode)
        self.assertIn("a.py: no licence header", result.stdout)

    def test_ignored_files_are_left_alone(self):
        self.write(".gitignore", "/build/\n")
        self.write("build/a.cc", "int  x;\n")
        self.assertEqual(0, self.check().returncode)


if __name__ == "__main__":
    unittest.main()
