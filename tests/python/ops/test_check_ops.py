# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions raise at once where values are known, else when they run."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        return session.run(fetches, feed)


PAIRS = [
    ("assert_equal", [1, 2], [1, 3]),
    ("assert_less", [1, 2], [2, 2]),
    ("assert_less_equal", [1, 2], [1, 1]),
    ("assert_greater", [1, 2], [0, 2]),
    ("assert_greater_equal", [1, 2], [1, 3]),
    ("assert_none_equal", [1, 2], [3, 2]),
]
GOOD = {
    "assert_equal": [1, 2],
    "assert_less": [2, 3],
    "assert_less_equal": [1, 2],
    "assert_greater": [0, 1],
    "assert_greater_equal": [1, 2],
    "assert_none_equal": [3, 4],
}


@pytest.mark.parametrize("name, x, bad", PAIRS, ids=[p[0] for p in PAIRS])
def test_comparisons(name: str, x: Any, bad: Any) -> None:
    fn = getattr(tf, name)
    p = tf.placeholder(tf.int32, [2])
    op = fn(x, p, message="my message", name="check")
    with tf.control_dependencies([op]):
        y = tf.identity(p)
    assert run(y, {p: GOOD[name]}).tolist() == GOOD[name]
    with pytest.raises(tf.errors.InvalidArgumentError, match="my message"):
        run(y, {p: bad})
    run(fn(x, GOOD[name]))
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        run(fn(x, bad))


@pytest.mark.parametrize(
    "name, good, bad",
    [("positive", 1, 0), ("negative", -1, 0), ("non_negative", 0, -1), ("non_positive", 0, 1)],
)
def test_signs(name: str, good: int, bad: int) -> None:
    fn = getattr(tf, "assert_" + name)
    p = tf.placeholder(tf.int32)
    run(fn(p), {p: [good, good]})
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(fn(p), {p: [good, bad]})


def test_ranks_and_types() -> None:
    with pytest.raises(ValueError, match="must have rank 1.  Received rank 0"):
        tf.assert_rank(1.0, 1)
    with pytest.raises(ValueError, match="must have rank at least 2"):
        tf.assert_rank_at_least([1.0], 2)
    with pytest.raises(ValueError, match="must have rank in"):
        tf.assert_rank_in([1.0], [2, 3])
    p = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have rank 1|rank"):
        run(tf.assert_rank(p, 1), {p: 3.0})
    run(tf.assert_rank(p, 1), {p: [3.0]})
    with pytest.raises(TypeError, match="must be of type <dtype: 'int32'>|must be of type"):
        tf.assert_type([1.0], tf.int32)
    with pytest.raises(TypeError, match="Expected integer type|integer"):
        tf.assert_integer([1.0])
    with pytest.raises(ValueError, match="Expected scalar shape|scalar"):
        tf.assert_scalar([1.0])
    assert tf.is_numeric_tensor(tf.constant(1)) and not tf.is_numeric_tensor(tf.constant("a"))
    assert tf.assert_same_float_dtype([tf.constant(1.0)]) == tf.float32
    with pytest.raises(ValueError, match="Expected floating point type|float"):
        tf.assert_same_float_dtype([tf.constant(1)])


def test_orders() -> None:
    assert run(
        [
            tf.is_non_decreasing([1, 1, 2]),
            tf.is_strictly_increasing([1, 1, 2]),
            tf.is_strictly_increasing([1, 2]),
        ]
    ) == [True, False, True]


def test_proper_iterable_and_near() -> None:
    with pytest.raises(TypeError, match="Expected argument to be a .*iterable|Expected"):
        tf.assert_proper_iterable(tf.constant([1]))
    tf.assert_proper_iterable([tf.constant(1)])
    run(tf.debugging.assert_near([1.0], [1.0 + 1e-8]))
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        run(tf.debugging.assert_near([1.0], [1.1]))


def test_shapes_by_name() -> None:
    x, y = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3, None])
    run(
        tf.debugging.assert_shapes([(x, ("N", "D")), (y, ("D", 4))]),
        {x: np.zeros([2, 3]), y: np.zeros([3, 4])},
    )
    with pytest.raises(ValueError):
        tf.debugging.assert_shapes([(x, ("N", "N"))])
    a, b = tf.ones([3, 2], name="a"), tf.ones([4, 2], name="b")
    text = "m.  Specified by tensor a.*:0 dimension 0.  Tensor b.*:0 dimension 0 must have size 3.  Received size 4, shape "
    with pytest.raises(ValueError, match=text):
        tf.debugging.assert_shapes([(a, ("N", "Q")), (b, ("N", "D"))], message="m")
    with pytest.raises(ValueError, match="Specified explicitly.  Tensor a.*:0 dimension 1 must have size 5"):
        tf.debugging.assert_shapes([(a, ("N", 5))])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"(?s)Specified by tensor .* dimension 1.*must have size.*3"
    ):
        run(
            tf.debugging.assert_shapes([(x, ("N", "D")), (y, ("X", "D"))]),
            {x: np.zeros([2, 3]), y: np.zeros([3, 4])},
        )


def test_assert_and_variables() -> None:
    p = tf.placeholder(tf.bool)
    run(tf.Assert(p, ["text"]), {p: True})
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed: \\[text\\]"):
        run(tf.Assert(p, ["text"]), {p: False})
    v = tf.Variable(1.0, name="v")
    with tf.Session() as session:
        assert session.run(tf.report_uninitialized_variables()).tolist() == [b"v"]
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(v)
        session.run(v.initializer)
        assert session.run(tf.report_uninitialized_variables()).tolist() == []
    tf.ensure_shape(tf.zeros([2]), [None])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        run(tf.ensure_shape(tf.placeholder_with_default([1.0], None), [2]))


def test_clips() -> None:
    x = np.array([-5.0, 0.5, 5.0])
    assert run(tf.clip_by_value(x, -1.0, 1.0)).tolist() == [-1, 0.5, 1]
    np.testing.assert_allclose(run(tf.clip_by_norm([3.0, 4.0], 1.0)), [0.6, 0.8])
    np.testing.assert_allclose(run(tf.clip_by_norm([0.3, 0.4], 1.0)), [0.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(
        run(tf.clip_by_norm([[3.0, 4.0], [0.3, 0.4]], 1.0, axes=[1])), [[0.6, 0.8], [0.3, 0.4]]
    )
    np.testing.assert_allclose(run(tf.clip_by_average_norm([3.0, 4.0], 1.0)), np.array([3, 4]) / 2.5)
    clipped, norm = run(tf.clip_by_global_norm([tf.constant([3.0]), tf.constant([4.0]), None][:2], 2.5))
    np.testing.assert_allclose(norm, 5)
    np.testing.assert_allclose(np.concatenate(clipped), [1.5, 2])
    np.testing.assert_allclose(run(tf.global_norm([tf.constant([3.0]), tf.constant([4.0])])), 5)
    slices = tf.clip_by_value(tf.IndexedSlices(tf.constant([[5.0]]), tf.constant([0])), 0.0, 1.0)
    assert isinstance(slices, tf.IndexedSlices)
    with pytest.raises(TypeError, match="t_list should be a sequence"):
        tf.clip_by_global_norm(tf.constant(1.0), 1.0)


def test_confusion_matrix() -> None:
    assert run(tf.confusion_matrix([1, 2, 4], [2, 2, 4])).tolist() == [
        [0] * 5,
        [0, 0, 1, 0, 0],
        [0, 0, 1, 0, 0],
        [0] * 5,
        [0, 0, 0, 0, 1],
    ]
    weighted = run(tf.confusion_matrix([0, 1], [1, 1], num_classes=2, dtype=tf.float32, weights=[0.5, 2.0]))
    assert weighted.tolist() == [[0, 0.5], [0, 2]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="`labels` contains negative values|negative"):
        run(tf.confusion_matrix([-1], [1]))
