# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v2: each name leads somewhere, and functions have the arguments of version 2."""
from __future__ import annotations

import inspect

import numpy as np
import pytest

import millrace as tf
from millrace import _namespace


def _modules(module):
    yield module
    for name, home in sorted((_namespace._names_of(module) or {}).items()):
        if home is None:
            yield from _modules(module + "." + name)


def test_all_names_lead_somewhere():
    missing = []
    for module in _modules("compat.v2"):
        for name in _namespace._names_of(module) or {}:
            try:
                _namespace.resolve(module, name)
            except AttributeError as e:
                missing.append((module, name, str(e)))
    assert not missing


def test_signatures_of_version_2():
    v2 = tf.compat.v2
    assert "keepdims" in inspect.signature(v2.reduce_sum).parameters
    assert list(inspect.signature(v2.nn.dropout).parameters)[:2] == ["x", "rate"]
    assert list(inspect.signature(v2.argmax).parameters)[:2] == ["input", "axis"]
    assert v2.data.Dataset is not tf.data.Dataset and v2.nn.relu is tf.nn.relu
    assert v2.math.add is tf.math.add and v2.io.gfile.exists is tf.io.gfile.exists
    assert not hasattr(v2, "placeholder") and not hasattr(v2, "get_variable")
    with pytest.raises(AttributeError, match="Millrace does not implement tf.keras"):
        v2.keras
    import millrace.compat.v2.nn as nn
    import millrace.compat.v2 as both

    assert nn is both.nn


def test_functions_compute():
    v2 = tf.compat.v2
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        assert sess.run(v2.reduce_sum(x, 1, keepdims=True)).tolist() == [[3.0], [7.0]]
        assert sess.run(v2.where([True, False], [1, 2], 5)).tolist() == [1, 5]
        assert sess.run(v2.initializers.Ones()([2])).tolist() == [1.0, 1.0]
        np.testing.assert_allclose(sess.run(v2.norm(x, axis=0)), np.sqrt([10.0, 20.0]), rtol=1e-6)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x == y did not hold"):
            sess.run(v2.debugging.assert_equal(x, x + 1))
