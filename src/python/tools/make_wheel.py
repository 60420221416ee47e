# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the wheels of a build folder, without network.

    make_wheel.py --tree build/release/python --library build/release/lib/libmillrace_c.so --names src/python/tensorflow_name
                  --version 0.2.0 --out build/release/dist

Two wheels: `millrace`, with the engine's library inside, and `millrace-tensorflow`, which only makes Millrace importable under the name
`tensorflow` and is installed where programs are not started with `python -m millrace`.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap

SETUP = """\
from setuptools import Distribution, find_packages, setup


class Binary(Distribution):
    def has_ext_modules(self):
        return {binary}


setup(
    name="{name}",
    version="{version}",
    description="{description}",
    license="Apache-2.0",
    python_requires=">=3.9",
    install_requires={requires},
    packages=find_packages(),
    package_data={{"millrace": ["include/**/*.h", "include/third_party/**/*"], "": ["*.so", "*.so.*", "*.txt", "*.html", "*.css", "*.js", "*.pyi", "py.typed"]}},
    distclass=Binary,
    zip_safe=False,
)
"""


def build(
    stage: str, out: str, name: str, version: str, description: str, requires: list[str], binary: bool
) -> str:
    """Runs setuptools in `stage`; returns the path of the wheel."""
    with open(os.path.join(stage, "setup.py"), "w", encoding="utf-8") as file:
        file.write(
            SETUP.format(
                name=name, version=version, description=description, requires=repr(requires), binary=binary
            )
        )
    run = subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", os.path.abspath(out)],
        cwd=stage,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        sys.exit(
            f"make_wheel: setuptools failed for {name}:\n{textwrap.indent(run.stdout + run.stderr, '  ')}"
        )
    prefix = f"{name.replace('-', '_')}-{version}-"
    made = [entry for entry in os.listdir(out) if entry.startswith(prefix)]
    return os.path.join(out, made[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tree", required=True, help="the importable tree of the build folder")
    parser.add_argument("--library", required=True, help="the engine's library with the C API")
    parser.add_argument("--names", required=True, help="the folder that holds the package `tensorflow`")
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    for entry in os.listdir(options.out):
        if entry.endswith(".whl"):
            os.remove(os.path.join(options.out, entry))
    with tempfile.TemporaryDirectory() as stage:
        package = os.path.join(stage, "millrace")
        # Follows the links of the tree to the sources.
        shutil.copytree(
            os.path.join(options.tree, "millrace"),
            package,
            ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
        )
        # The path where the extension, in the folder python, looks for the library first.
        os.makedirs(os.path.join(package, "lib"))
        shutil.copyfile(options.library, os.path.join(package, "lib", "libtensorflow.so.1"))
        open(os.path.join(package, "lib", "__init__.py"), "w", encoding="utf-8").close()
        description = "Graphs of TensorFlow 1.x, built and run in Python"
        made = build(
            stage, options.out, "millrace", options.version, description, ["numpy", "protobuf"], True
        )
        print(f"make_wheel: {made} ({os.path.getsize(made) / 1e6:.1f} MB)")
    with tempfile.TemporaryDirectory() as stage:
        shutil.copytree(
            os.path.join(options.names, "tensorflow"),
            os.path.join(stage, "tensorflow"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        requires = [f"millrace=={options.version}"]
        description = "The name tensorflow for Millrace"
        made = build(stage, options.out, "millrace-tensorflow", options.version, description, requires, False)
        print(f"make_wheel: {made}")


if __name__ == "__main__":
    main()
