# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""setup.sh with a dpkg-query that knows one package, an apt-get that only notes, and a sudo that refuses."""

import os
import shutil
import subprocess
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        os.chmod(self.root, 0o755)
        self.addCleanup(shutil.rmtree, self.root)
        os.mkdir(os.path.join(self.root, "bin"))

    def write(self, name, text):
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_setup(self, packages, **options):
        shutil.copy(os.path.join(TOOLS, "setup.sh"), self.root)
        self.write("packages.txt", packages)
        self.write("bin/dpkg-query", '#!/bin/sh\n[ "$4" = here ] && echo "install ok installed"\n')
        self.write("bin/sudo", "#!/bin/sh\nexit 1\n")
        # Run as root the script would install; as nobody it must give the line.
        self.write("bin/apt-get", '#!/bin/sh\necho "$@" >>"$(dirname "$0")/log"\n')
        environment = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":" + os.environ["PATH"])
        return subprocess.run(["bash", os.path.join(self.root, "setup.sh")],
                              capture_output=True, text=True, check=False, env=environment, **options)

    def test_nothing_is_done_when_all_is_there(self):
        result = self.run_setup("# a comment\nhere   # why\n\n")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("all 1 packages are there", result.stdout)

    LINE = "install -y --no-install-recommends gone"

    @unittest.skipUnless(os.geteuid() == 0, "only root may install")
    def test_root_installs_what_is_missing(self):
        result = self.run_setup("here\ngone\n")
        self.assertEqual(0, result.returncode, result.stderr)
        with open(os.path.join(self.root, "bin", "log"), encoding="utf-8") as log:
            self.assertIn(self.LINE, log.read())

    def test_others_get_the_line_to_run(self):
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        result = self.run_setup("here\ngone\n", **user)
        self.assertEqual(1, result.returncode)
        self.assertIn("sudo apt-get " + self.LINE, result.stderr)


if __name__ == "__main__":
    unittest.main()
