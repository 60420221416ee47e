# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors, critical sections, templates, histograms, bits, functional ops."""
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


def test_lists_of_tensors() -> None:
    from millrace.python.ops import list_ops

    handle = list_ops.tensor_list_from_tensor([[1.0, 2.0], [3.0, 4.0]], [2])
    handle = list_ops.tensor_list_push_back(handle, [5.0, 6.0])
    assert run(list_ops.tensor_list_stack(handle, tf.float32)).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert run(list_ops.tensor_list_get_item(handle, 1, tf.float32)).tolist() == [3, 4]
    assert run(list_ops.tensor_list_gather(handle, [2, 0], tf.float32)).tolist() == [[5, 6], [1, 2]]
    rest, last = list_ops.tensor_list_pop_back(handle, tf.float32)
    assert run([list_ops.tensor_list_length(rest), last])[0] == 2
    assert run(list_ops.tensor_list_concat(handle, tf.float32, element_shape=[2])).tolist() == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    reserved = list_ops.tensor_list_set_item(list_ops.tensor_list_reserve([], 3, tf.float32), 2, 7.0)
    assert run(list_ops.tensor_list_stack(reserved, tf.float32)).tolist() == [0, 0, 7]
    grown = list_ops.tensor_list_set_item(reserved, 4, 9.0, resize_if_index_out_of_bounds=True)
    assert run(list_ops.tensor_list_length(grown)) == 5


def test_critical_sections_count_without_loss() -> None:
    v = tf.get_variable("v", initializer=0.0, use_resource=True)
    section = tf.CriticalSection(name="cs")

    def increment() -> Any:
        old = v.read_value()
        with tf.control_dependencies([old]):
            new = v.assign(old + 1.0)
        with tf.control_dependencies([new]):
            return v.read_value()

    results = [section.execute(increment) for _ in range(20)]
    assert sorted(run(results)) == list(range(1, 21))
    with pytest.raises(
        ValueError, match="attempts to directly access the CriticalSection in which it would be running"
    ):
        section.execute(lambda: section.execute(increment))


def test_templates_share_variables() -> None:
    def layer(x: Any) -> Any:
        return x * tf.get_variable("w", initializer=2.0)

    template = tf.make_template("layer", layer)
    a, b = template(1.0), template(3.0)
    assert run([a, b]) == [2, 6] and len(tf.global_variables()) == 1
    assert [v.name for v in template.variables] == ["layer/w:0"]
    other = tf.make_template("layer", layer)
    other(1.0)
    assert other.variables[0].name == "layer_1/w:0"


def test_functional_ops() -> None:
    x = np.arange(4.0)
    assert run(tf.map_fn(lambda v: v * v, x)).tolist() == [0, 1, 4, 9]
    a, b = run(tf.map_fn(lambda v: (v, -v), x, dtype=(tf.float64, tf.float64)))
    assert a.tolist() == x.tolist() and b.tolist() == (-x).tolist()
    assert run(tf.foldl(lambda acc, v: acc + v, x)) == 6 and run(tf.foldr(lambda acc, v: acc - v, x)) == 0
    assert run(tf.scan(lambda acc, v: acc + v, x)).tolist() == [0, 1, 3, 6]
    assert run(tf.scan(lambda acc, v: acc + v, x, initializer=np.float64(10), reverse=True)).tolist() == [
        16,
        16,
        15,
        13,
    ]
    with pytest.raises(TypeError, match="fn must be callable."):
        tf.map_fn(5, x)
    with pytest.raises(TypeError, match="elems must be a list|elements in elems|fn must"):
        tf.map_fn(lambda v: v, []) if False else tf.foldl(5, x)


def test_bits() -> None:
    a, b = np.array([5, 3], np.uint8), np.array([1, 6], np.uint8)
    assert run(tf.bitwise.bitwise_and(a, b)).tolist() == [1, 2] and run(
        tf.bitwise.bitwise_or(a, b)
    ).tolist() == [5, 7]
    assert run(tf.bitwise.bitwise_xor(a, b)).tolist() == [4, 5] and run(tf.bitwise.invert(a)).tolist() == [
        250,
        252,
    ]
    assert run(tf.bitwise.left_shift(a, b)).tolist() == [10, 192] and run(
        tf.bitwise.right_shift(a, b)
    ).tolist() == [2, 0]


def test_embeddings() -> None:
    params = RNG.randn(5, 3).astype(np.float32)
    np.testing.assert_array_equal(run(tf.nn.embedding_lookup(params, [4, 0])), params[[4, 0]])
    parts = [params[0::2], params[1::2]]
    np.testing.assert_array_equal(run(tf.nn.embedding_lookup(parts, [4, 1, 3])), params[[4, 1, 3]])
    parts = [params[:3], params[3:]]
    np.testing.assert_array_equal(
        run(tf.nn.embedding_lookup(parts, [4, 1, 3], partition_strategy="div")), params[[4, 1, 3]]
    )
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([0, 2, 3]), [2, 2])
    for combiner, first in (
        ("sum", params[0] + params[2]),
        ("mean", (params[0] + params[2]) / 2),
        ("sqrtn", (params[0] + params[2]) / np.sqrt(2)),
    ):
        np.testing.assert_allclose(
            run(tf.nn.embedding_lookup_sparse(params, ids, None, combiner=combiner)),
            [first, params[3]],
            rtol=1e-5,
        )
    with pytest.raises(ValueError, match="Unrecognized partition strategy: x"):
        tf.nn.embedding_lookup(parts, [1], partition_strategy="x")


def test_files_as_ops(tmp_path: Any) -> None:
    path = str(tmp_path / "file.txt")
    run(tf.write_file(path, "content"))
    assert run(tf.read_file(path)) == b"content"
    assert run(tf.matching_files(str(tmp_path / "*.txt"))).tolist() == [path.encode()]
    with pytest.raises(tf.errors.NotFoundError):
        run(tf.read_file(path + ".none"))


def test_prints(capfd: Any, need: Any) -> None:
    x = tf.Print(tf.constant([1, 2]), [tf.constant([1, 2])], "message ")
    assert run(x).tolist() == [1, 2] and "message [1 2]" in capfd.readouterr().err
    need("PrintV2", "StringFormat")
    run(tf.print("a", tf.constant([1, 2])))
    assert "a [1 2]" in capfd.readouterr().err
