# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Random ops: seeds give TensorFlow's numbers, and numbers have the distributions they are named after."""
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


def test_seeds_repeat() -> None:
    def draw(graph_seed: Any, op_seed: Any) -> Any:
        with tf.Graph().as_default():
            tf.set_random_seed(graph_seed)
            return run(tf.random_uniform([4], seed=op_seed))

    assert draw(1, 2).tolist() == draw(1, 2).tolist() != draw(1, 3).tolist()
    assert draw(1, None).tolist() == draw(1, None).tolist() != draw(2, None).tolist()


def seeds_of(t: Any) -> tuple[int, int]:
    (op,) = [
        op for op in t.graph.get_operations() if op.type == "RandomUniform" and op.name.startswith(t.op.name)
    ]
    return op.get_attr("seed"), op.get_attr("seed2")


def test_ops_have_seeds_of_their_own() -> None:
    tf.set_random_seed(5)
    a, b = tf.random_uniform([3], name="a"), tf.random_uniform([3], name="b")
    assert seeds_of(a)[0] == 5 and seeds_of(a)[1] != seeds_of(b)[1]
    with tf.Graph().as_default():
        assert seeds_of(tf.random_uniform([3])) == (0, 0)
    with tf.Graph().as_default():
        assert seeds_of(tf.random_uniform([3], seed=7)) == (87654321, 7)


DISTRIBUTIONS = [
    ("random_normal", dict(mean=1.0, stddev=2.0), 1.0, 2.0),
    ("random_uniform", dict(minval=-1.0, maxval=3.0), 1.0, 4 / 12**0.5),
    ("truncated_normal", dict(mean=1.0, stddev=1.0), 1.0, 0.8796),
]


@pytest.mark.parametrize("name, args, mean, std", DISTRIBUTIONS, ids=[d[0] for d in DISTRIBUTIONS])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_moments(name: str, args: Any, mean: float, std: float, dtype: Any) -> None:
    x = getattr(tf, name)([20000], dtype=dtype, seed=3, **args)
    assert x.dtype == dtype and x.shape == [20000]
    values = run(x).astype(np.float64)
    assert abs(values.mean() - mean) < 0.05 and abs(values.std() - std) < 0.05
    if name == "truncated_normal":
        assert np.abs(values - 1).max() <= 2.01


def test_integers() -> None:
    values = run(tf.random_uniform([1000], 3, 7, tf.int32, seed=1))
    assert sorted(set(values)) == [3, 4, 5, 6] and values.dtype == np.int32
    with pytest.raises(ValueError, match="Must specify maxval for integer dtype"):
        tf.random_uniform([2], dtype=tf.int32)


def test_shuffle_crop_and_draws() -> None:
    x = np.arange(10)
    shuffled = run(tf.random_shuffle(x, seed=1))
    assert sorted(shuffled) == x.tolist() and shuffled.tolist() != x.tolist()
    image = RNG.rand(5, 6, 3)
    crop = run(tf.random_crop(image, [2, 3, 3], seed=1))
    assert any((image[i : i + 2, j : j + 3] == crop).all() for i in range(4) for j in range(4))
    draws = run(tf.multinomial(np.log([[0.5, 0.5, 1e-9]]), 1000, seed=1))
    assert draws.shape == (1, 1000) and set(draws[0]) == {0, 1} and abs(draws.mean() - 0.5) < 0.1
    assert run(tf.random.categorical([[0.0, 0.0]], 5, dtype=tf.int32)).dtype == np.int32
    gamma = run(tf.random_gamma([20000], 3.0, 2.0, seed=1))
    assert abs(gamma.mean() - 1.5) < 0.05
    poisson = run(tf.random_poisson([2.0, 5.0], [20000], seed=1))
    np.testing.assert_allclose(poisson.mean(0), [2, 5], atol=0.1)


def test_stateless_numbers() -> None:
    a, b = (run(tf.random.stateless_uniform([3], [1, 2])) for _ in range(2))
    assert a.tolist() == b.tolist() != run(tf.random.stateless_uniform([3], [1, 3])).tolist()
    values = run(tf.random.stateless_normal([20000], [1, 2], mean=1.0, stddev=2.0))
    assert abs(values.mean() - 1) < 0.1 and abs(values.std() - 2) < 0.1
    assert np.abs(run(tf.random.stateless_truncated_normal([1000], [1, 2]))).max() <= 2
    assert set(run(tf.random.stateless_uniform([100], [1, 2], 0, 3, tf.int32))) == {0, 1, 2}
    assert run(tf.random.stateless_categorical([[0.0, 0.0]], 7, [1, 2])).shape == (1, 7)


def test_generators() -> None:
    g = tf.random.experimental.Generator.from_seed(1234)
    with tf.Session() as session:
        session.run(g.state.initializer)
        assert session.run(tf.random.experimental.create_rng_state(1234, "philox")).tolist() == [1234, 0, 0]
        x = g.normal([3])
        assert session.run(x).tolist() != session.run(x).tolist()
        session.run(g.reset_from_seed(1234))
        first = session.run(x)
        session.run(g.reset_from_seed(1234))
        assert session.run(x).tolist() == first.tolist()
        assert set(session.run(g.uniform([100], 0, 3, tf.int32))) == {0, 1, 2}
        assert session.run(g.make_seeds(2)).shape == (2, 2)


def test_candidate_samplers() -> None:
    ids, true_count, sampled_count = run(tf.nn.uniform_candidate_sampler([[0]], 1, 3, True, 5, seed=1))
    assert len(set(ids)) == 3 and max(ids) < 5 and true_count.shape == (1, 1) and sampled_count.shape == (3,)
    ids, _, _ = run(tf.nn.all_candidate_sampler([[0]], 1, 5, True))
    assert sorted(ids) == list(range(5))
    assert run(tf.nn.log_uniform_candidate_sampler([[0]], 1, 3, True, 50, seed=1))[0].max() < 50
    assert run(tf.nn.learned_unigram_candidate_sampler([[0]], 1, 3, True, 50, seed=1))[0].max() < 50
    ids, _, _ = run(
        tf.nn.fixed_unigram_candidate_sampler([[0]], 1, 2, True, 3, unigrams=[1.0, 2.0, 3.0], seed=1)
    )
    assert len(set(ids)) == 2
    indices, rows, weights = run(tf.nn.compute_accidental_hits([[1], [2]], np.array([2, 7]), 1))
    assert indices.tolist() == [1] and rows.tolist() == [0] and weights[0] < -1e30


def test_generators_that_are_split_in_a_graph() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        first = tf.random.experimental.Generator.from_key_counter(key=5, counter=[1, 2], alg="philox")
        parts = first.split(2)
        session.run(first.state.initializer)
        session.run([part.state.initializer for part in parts])
        a, b = session.run([part.uniform_full_int([4], tf.uint64) for part in parts])
        assert a.shape == (4,) and (a != b).all()
