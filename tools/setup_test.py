# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""setup.sh with a dpkg-query that knows one package, an apt-get that only notes, a sudo that refuses and an id that says who asks."""

import os
import shutil
import subprocess
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        os.mkdir(os.path.join(self.root, "bin"))

    def write(self, name, text):
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_setup(self, packages, uid):
        shutil.copy(os.path.join(TOOLS, "setup.sh"), self.root)
        self.write("packages.txt", packages)
        self.write("bin/dpkg-query", '#!/bin/sh\n[ "$4" = here ] && echo "install ok installed"\n')
        self.write("bin/sudo", "#!/bin/sh\nexit 1\n")
        self.write("bin/id", f"#!/bin/sh\necho {uid}\n")
        self.write("bin/apt-get", '#!/bin/sh\necho "$@" >>"$(dirname "$0")/log"\n')
        environment = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":" + os.environ["PATH"])
        return subprocess.run(["bash", os.path.join(self.root, "setup.sh")],
                              capture_output=True, text=True, check=False, env=environment)

    def test_nothing_is_done_when_all_is_there(self):
        result = self.run_setup("# a comment\nhere   # why\n\n", uid=1000)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("all 1 packages are there", result.stdout)

    LINE = "install -y --no-install-recommends gone"

    def test_root_installs_what_is_missing(self):
        result = self.run_setup("here\ngone\n", uid=0)
        self.assertEqual(0, result.returncode, result.stderr)
        with open(os.path.join(self.root, "bin", "log"), encoding="utf-8") as log:
            self.assertIn(self.LINE, log.read())

    def test_others_get_the_line_to_run(self):
        result = self.run_setup("here\ngone\n", uid=1000)
        self.assertEqual(1, result.returncode)
        self.assertFalse(os.path.exists(os.path.join(self.root, "bin", "log")))
        self.assertIn("sudo apt-get " + self.LINE, result.stderr)


if __name__ == "__main__":
    unittest.main()
