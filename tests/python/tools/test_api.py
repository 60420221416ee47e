# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The public API is TensorFlow 1.15's: names, arguments, their order and defaults.

api_v1.15.txt has them, without the parts that docs/python.md leaves out.
"""
from __future__ import annotations

import importlib.util
import os

_HERE = os.path.dirname(os.path.abspath(__file__))
# Wrappers of cells take the state by position, as TensorFlow's do under the decorator that its list shows.
_DIFFERENT = {
    "tensorflow.nn.rnn_cell.%s.call" % name for name in ("DeviceWrapper", "DropoutWrapper", "ResidualWrapper")
}


def test_every_public_name_is_there_with_its_arguments() -> None:
    path = os.path.join(_HERE, "..", "..", "..", "src", "python", "tools", "compare_api.py")
    spec = importlib.util.spec_from_file_location("compare_api", path)
    assert spec and spec.loader
    compare_api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare_api)
    found = list(compare_api.compare(os.path.join(_HERE, "api_v1.15.txt")))
    assert len(found) > 6000
    wrong = {name: what for _, name, what in found if what not in ("present", "left out")}
    assert set(wrong) <= _DIFFERENT, wrong
    assert "missing" not in wrong.values(), wrong
