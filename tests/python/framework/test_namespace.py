# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The public names, the name `tensorflow`, and the speed of the import."""
from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import millrace
from millrace import _namespace


def test_each_name_of_the_table_is_there() -> None:
    missing = []
    for module, table in list(_namespace._modules.items()):
        for name, home in table.items():
            if home is None or module.startswith("contrib"):
                continue
            try:
                _namespace.resolve(module, name)
            except (AttributeError, ImportError) as error:
                missing.append("%s.%s: %s" % (module, name, error))
    assert not missing


def test_tensorflow_is_millrace() -> None:
    tensorflow = importlib.import_module("tensorflow")
    assert (
        tensorflow.__version__ == "1.15.5"
        and tensorflow.VERSION == "1.15.5"
        and millrace.__version__ != "1.15.5"
    )
    assert tensorflow.nn is millrace.nn and tensorflow.constant is millrace.constant
    for name in (
        "python.framework.ops",
        "python.ops.array_ops",
        "core.framework.graph_pb2",
        "nn",
        "train",
        "python",
    ):
        assert importlib.import_module("tensorflow." + name) is importlib.import_module("millrace." + name)
    assert importlib.import_module("tensorflow.compat.v1").Session is millrace.Session
    assert millrace.compat.v1.nn.relu is millrace.nn.relu and millrace.compat.as_bytes("a") == b"a"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow.python.nothing")
    from tensorflow.python.framework import ops  # type: ignore[import]

    assert ops.Tensor is millrace.Tensor


@pytest.mark.parametrize("name", ["keras", "estimator", "feature_column", "distribute", "lite", "autograph"])
def test_missing_modules_name_alternatives(name: str) -> None:
    assert not hasattr(millrace, name)
    with pytest.raises(AttributeError, match="Millrace does not implement tf.%s. Use tf\\." % name):
        getattr(millrace, name)


def test_contrib() -> None:
    assert millrace.contrib.rnn.GRUCell is millrace.nn.rnn_cell.GRUCell
    assert millrace.contrib.framework.nest.flatten([1, [2]]) == [1, 2]
    assert millrace.contrib.framework.get_or_create_global_step is millrace.train.get_or_create_global_step
    with pytest.raises(AttributeError, match="'tensorflow.contrib' has no attribute 'nothing'"):
        millrace.contrib.nothing
    with pytest.raises(AttributeError, match="Similar names in core: tf.layers.conv2d"):
        millrace.contrib.rnn.conv2d


def test_raw_ops() -> None:
    total = millrace.raw_ops.AddV2(x=1, y=2)
    with millrace.Session() as session:
        assert session.run(total) == 3
    with pytest.raises(TypeError):
        millrace.raw_ops.AddV2(1, 2)
    with pytest.raises(AttributeError):
        millrace.raw_ops.NoSuchOp
    assert "MatMul" in dir(millrace.raw_ops)


def test_completion_and_stars() -> None:
    names = dir(millrace)
    assert {"constant", "nn", "train", "Session", "GraphKeys"} <= set(names) and names == sorted(names)
    scope: dict[str, object] = {}
    exec("from millrace.nn import *", scope)
    assert scope["relu"] is millrace.nn.relu
    with pytest.raises(AttributeError, match="module 'tensorflow.nn' has no attribute 'nothing'"):
        millrace.nn.nothing


def test_programs_run_under_the_name(tmp_path: object) -> None:
    path = "%s/program.py" % tmp_path
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "import sys\nimport tensorflow as tf\nprint(tf.Session().run(tf.constant(int(sys.argv[1])) * 2), __name__)\n"
        )
    done = subprocess.run(
        [sys.executable, "-m", "millrace", path, "21"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout == "42 __main__\n", done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "millrace", "/nonexistent.py"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0


def test_the_import_is_lazy() -> None:
    code = "import millrace, sys; print(sum(m.startswith('millrace.python.ops') for m in sys.modules), 'google.protobuf' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "0 False\n"
