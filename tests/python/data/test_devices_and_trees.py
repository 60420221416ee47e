# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Iterators for several devices, functions of slices, datasets of workers, and resources of boosted trees."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.python.data.experimental.ops import distribute, map_defun
from millrace.python.data.ops import multi_device_iterator_ops
from millrace.python.eager import function, remote
from millrace.python.ops import boosted_trees_ops, resources
from millrace.python.training import distribution_strategy_context


def test_devices_take_elements_in_turn() -> None:
    with tf.Graph().as_default():
        devices = ["/cpu:0", "/cpu:1"]
        iterator = multi_device_iterator_ops.MultiDeviceIterator(tf.data.Dataset.range(6), devices)
        first, second = iterator.get_next()
        assert iterator.get_next("/cpu:1").dtype == tf.int64
        with pytest.raises(ValueError, match="not in `devices`"):
            iterator.get_next("/cpu:2")
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
            for _ in range(2):
                session.run(iterator.initializer)
                for i in range(0, 6, 2):
                    assert session.run([first, second]) == [i, i + 1]
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(first)


def test_map_defun_calls_the_function_for_each_slice() -> None:
    with tf.Graph().as_default():

        @function.defun(input_signature=[tf.TensorSpec([2], tf.int32)])
        def affine(x: Any) -> Any:
            return x * 2 + 3

        elems = tf.constant([[1, 2], [3, 4], [5, 6]])
        result = map_defun.map_defun(affine, [elems], [tf.int32], [[2]])[0]
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run(result), [[5, 7], [9, 11], [13, 15]])
        with pytest.raises(ValueError, match="`elems` must be a list"):
            map_defun.map_defun(affine, elems, [tf.int32], [[2]])


def test_datasets_of_workers_and_replicas() -> None:
    with tf.Graph().as_default():
        shard = distribute._AutoShardDataset(tf.data.Dataset.range(10), 3, 1)
        element = tf.data.make_one_shot_iterator(shard).get_next()
        batches = distribute._RebatchDataset(tf.data.Dataset.range(8).batch(4), 2)
        batch = tf.data.make_one_shot_iterator(batches).get_next()
        with tf.Session() as session:
            assert [session.run(element) for _ in range(3)] == [1, 4, 7]
            assert [list(session.run(batch)) for _ in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_checkpoints_keep_trees_and_quantiles(tmp_path: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        trees = boosted_trees_ops.TreeEnsemble("trees", stamp_token=4)
        quantiles = boosted_trees_ops.QuantileAccumulator(0.01, 2, 3, name="quantiles")
        session.run(resources.initialize_resources(resources.shared_resources()))
        columns = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
        session.run(quantiles.add_summaries(columns, [1.0] * 4))
        session.run(quantiles.flush())
        boundaries = session.run(quantiles.get_bucket_boundaries())
        np.testing.assert_array_equal(boundaries, [[1, 3, 4], [5, 7, 8]])
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        with tf.Session() as other:
            tf.train.Saver().restore(other, path)
            np.testing.assert_array_equal(other.run(quantiles.get_bucket_boundaries()), boundaries)
            assert other.run(trees.get_stamp_token()) == 4
    with pytest.raises(ValueError, match="must be one of: none, post, pre"):
        boosted_trees_ops.PruningMode.from_str("late")


def test_parts_that_are_not_implemented_raise() -> None:
    assert not distribution_strategy_context.has_strategy()
    with pytest.raises(ValueError, match="at least one remote_host"):
        remote.connect_to_remote_host()
    with pytest.raises(NotImplementedError, match="is not implemented.* Use tf.Session"):
        remote.connect_to_remote_host("localhost:1")
    with pytest.raises(NotImplementedError, match="Use tf.train.replica_device_setter"):
        distribution_strategy_context.get_strategy()
