# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""./run reports wrong options before it sets up or builds anything: here setting up ends with 77."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class RunTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copy(os.path.join(ROOT, "run"), self.root)
        os.mkdir(os.path.join(self.root, "tools"))
        os.mkdir(os.path.join(self.root, "there"))
        with open(os.path.join(self.root, "tools", "setup.sh"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 77\n")
        os.chmod(file.name, 0o755)

    def run_it(self, line):
        return subprocess.run(["bash", os.path.join(self.root, "run"), *line.split()], capture_output=True, text=True, check=False)

    def test_wrong_words(self):
        for line, text in (
            ("--stesp=3", "there is no option '--stesp' (did you mean '--steps'?)"),
            ("--steps=abc", "--steps takes a number from 1 on, not 'abc'"),
            ("--steps 0", "--steps takes a number from 1 on, not '0'"),
            ("--steps=" + "9" * 300, "--steps takes a number from 1 on"),
            ("--batch", "--batch needs a value"),
            ("word", "there is no command 'word'"),
            ("--model=con", "there is no model 'con'"),
            ("--report=/nix/x.html", "there is no folder '/nix'"),
            ("--report there", "'there' is a folder"),
            ("--export=build/nix/x", "there is no folder 'build/nix'"),
            ("--data_dir=nix", "there is no folder 'nix'"),
            ("pyhton", "there is no command 'pyhton' (did you mean 'python'?)"),
            ("bench exce", "there is no benchmark 'exce' (did you mean 'exec'?)"),
            ("build asna", "there is no preset 'asna' (did you mean 'asan'?)"),
            ("cluster --sync=1", "--sync takes no value"),
            ("python --workers=2", "there is no option '--workers'"),
        ):
            result = self.run_it(line)
            self.assertEqual(result.returncode, 2, line)
            self.assertIn(text, result.stderr)

    def test_good_words_go_on(self):
        for line in ("", "--steps 5 --model=conv --report there/r.html --export=build/m", "python --log_dir=there/log",
                     "cluster --chaos --sync --ps=2 --seconds=1.5", "bench exec --benchmark_filter=x", "build tsan"):
            result = self.run_it(line)
            self.assertEqual(result.returncode, 77, line + result.stderr)
        self.assertEqual(self.run_it("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
