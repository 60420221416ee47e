# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Seeds of graphs and operations, and the numbers that they give."""
from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.python.framework import random_seed


@pytest.mark.parametrize(
    "graph_seed, op_seed, wanted",
    [
        (None, None, (None, None)), (None, 1, (random_seed.DEFAULT_GRAPH_SEED, 1)), (1, 1, (1, 1)), (0, 0, (0, 2**31 - 1)),
        (2**31 - 1, 0, (0, 2**31 - 1)), (0, 2**31 - 1, (0, 2**31 - 1)), (1, None, (1, 0)), (5, 2**31 + 4, (5, 5)),
    ],
)  # fmt: skip
def test_pairs(graph_seed: int | None, op_seed: int | None, wanted: tuple[int | None, int | None]) -> None:
    if graph_seed is not None:
        tf.set_random_seed(graph_seed)
    assert random_seed.get_seed(op_seed) == wanted


def seeds_of(tensor: tf.Tensor) -> tuple[int, int]:
    op = next(
        op
        for op in tensor.graph.get_operations()
        if op.type == "RandomUniform" and op.name.startswith(tensor.op.name)
    )
    return op.get_attr("seed"), op.get_attr("seed2")


def test_the_second_seed_is_the_number_of_operations() -> None:
    tf.set_random_seed(87654321)
    a = tf.random_uniform([1])
    assert seeds_of(a) == (87654321, 3)  # after the shape and the limits
    count = len(tf.get_default_graph().get_operations())
    b = tf.random_uniform([1])
    assert seeds_of(b) == (87654321, count + 3)


def test_numbers_are_those_of_tensorflow() -> None:
    first = [0.812696457, 0.0785746574, 0.891685486, 0.169255137, 0.0631135702, 0.545310736, 0.503731608]
    second = [0.281535149, 0.480014443, 0.461370468, 0.0800073147, 0.962076426, 0.482178688, 0.806819081]
    tf.set_random_seed(1)
    uniform = tf.random_uniform([7], seed=0)
    for _ in range(2):
        with tf.Session() as session:
            np.testing.assert_allclose(session.run(uniform), first, rtol=1e-6)
            np.testing.assert_allclose(session.run(uniform), second, rtol=1e-6)


def test_graphs_without_seeds_differ() -> None:
    uniform = tf.random_uniform([8])
    with tf.Session() as one, tf.Session() as two:
        assert (one.run(uniform) != two.run(uniform)).any()
