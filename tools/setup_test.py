# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""setup.sh with a dpkg-query with one package, an apt-get that only logs, a sudo that refuses and an id with a set user."""

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

    def run_setup(self, packages, uid, *options, dpkg=True, dev=""):
        shutil.copy(os.path.join(TOOLS, "setup.sh"), self.root)
        self.write("packages.txt", packages)
        self.write("packages-dev.txt", dev)
        if dpkg:
            self.write("bin/dpkg-query", '#!/bin/sh\n[ "$4" = here ] && echo "install ok installed"\n')
        self.write("bin/sudo", "#!/bin/sh\nexit 1\n")
        self.write("bin/id", f"#!/bin/sh\necho {uid}\n")
        self.write("bin/apt-get", '#!/bin/sh\necho "$@" >>"$(dirname "$0")/log"\n')
        path = os.path.join(self.root, "bin") + ":" + os.environ["PATH"]
        if not dpkg:
            for tool in ("dirname", "sed", "tr", "awk"):
                os.symlink(shutil.which(tool), os.path.join(self.root, "bin", tool))
            path = os.path.join(self.root, "bin")
        environment = dict(os.environ, PATH=path)
        return subprocess.run([shutil.which("bash"), os.path.join(self.root, "setup.sh"), *options],
                              capture_output=True, text=True, check=False, env=environment)

    def test_nothing_is_done_when_all_is_there(self):
        result = self.run_setup("# a comment\nhere   # why\n\n", uid=1000)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("all 1 packages are installed", result.stdout)

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

    def test_what_only_developing_needs(self):
        result = self.run_setup("here\n", 1000, dev="# more\ngone\n")
        self.assertEqual(0, result.returncode, result.stderr)
        result = self.run_setup("here\n", 1000, "--dev", dev="# more\ngone\n")
        self.assertEqual(1, result.returncode)
        self.assertIn("sudo apt-get " + self.LINE, result.stderr)

    NAMED = "here  # fedora here-devel; arch there; opensuse here: 3.2\ngone  # fedora here-devel; arch gone; opensuse gone\n"

    def test_other_systems_get_their_names(self):
        result = self.run_setup(self.NAMED, 1000, dpkg=False)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("dnf install here-devel\n", result.stdout)
        self.assertIn("pacman -S --needed there gone\n", result.stdout)
        self.assertIn("zypper install here gone\n", result.stdout)
        self.assertEqual("there\ngone\n", self.run_setup(self.NAMED, 1000, "--list", "arch").stdout)

    def test_wrong_options_are_named(self):
        for options in (("--prod",), ("--list", "beos"), ("--list",)):
            result = self.run_setup("here\n", 1000, *options)
            self.assertEqual(2, result.returncode)
            self.assertIn(options[0], result.stderr)

    def test_every_package_has_its_names(self):
        for name in ("packages.txt", "packages-dev.txt"):
            with open(os.path.join(TOOLS, name), encoding="utf-8") as file:
                for line in file:
                    if line.strip() and not line.startswith("#"):
                        self.assertRegex(line, r"# fedora [^;]+; arch [^;]+; opensuse .+")


if __name__ == "__main__":
    unittest.main()
