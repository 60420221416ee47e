#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
import os
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import man_page  # noqa: E402

PROGRAM = r"""#!/bin/sh
case "$*" in
  --version) echo "tool 1.2" ;;
  --help) printf 'Does things.\nUsage: tool SUBCOMMAND\n\nSubcommands:\n  cut                         Cut a file\n' ;;
  "cut --help")
    printf 'Cut a file\nUsage: tool cut [OPTIONS] path\n\nPositionals:\n  path PATH REQUIRED          What\n'
    printf '\nOptions:\n  -h,--help                   Print this\n  --at-byte INT:INT in [0 - 9]\n'
    printf '                              Where, a\n                              number\n'
    ;;
esac
"""


class ManPageTest(unittest.TestCase):
    def test_page(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "tool")
            with open(program, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            os.chmod(program, stat.S_IRWXU)
            lines = man_page.page(program, "tool 1.2").splitlines()
        self.assertEqual(lines[0], '.TH MILLRACE 1 "" "tool 1.2" "User Commands"')
        self.assertIn("millrace \\- Does things", lines)
        at = lines.index(".SS millrace cut")
        self.assertEqual(lines[at + 1 : at + 8], [
            "Cut a file", ".TP", ".B path PATH REQUIRED", "What", ".TP", ".B \\-\\-at\\-byte INT:INT in [0 \\- 9]",
            "Where, a number"])


if __name__ == "__main__":
    unittest.main()
