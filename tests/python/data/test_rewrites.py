# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Options of datasets that rewrite pipelines."""
import threading

import pytest
import tensorflow as tf

from millrace.python.data.experimental.ops import optimization


def rows(dataset):
    """All numbers of a dataset of batches."""
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    numbers = []
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        try:
            while True:
                numbers += list(sess.run(following))
        except tf.errors.OutOfRangeError:
            return numbers


def pipeline(stages, **options):
    """Numbers that the named stages read, mapped and batched."""
    dataset = tf.data.Dataset.range(5).apply(optimization.assert_next(stages))
    dataset = dataset.map(lambda x: x * 2).batch(2)
    wanted = tf.data.Options()
    for name, value in options.items():
        setattr(wanted.experimental_optimization, name, value)
    return dataset.with_options(wanted)


def test_a_map_and_a_batch_become_one_by_default():
    assert rows(pipeline(["MapAndBatch"])) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("name", ["apply_default_optimizations", "map_and_batch_fusion"])
def test_the_fusion_can_be_switched_off(name):
    assert rows(pipeline(["Map", "Batch"], **{name: False})) == [0, 2, 4, 6, 8]


def test_maps_of_batches():
    wanted = optimization_options(enabled=True)
    assert rows(pipeline(["Batch", "Map"], map_vectorization=wanted)) == [0, 2, 4, 6, 8]


def test_both_ways_to_map_batches_are_tried():
    wanted = optimization_options(enabled=True)
    wanted.use_choose_fastest = True
    assert rows(pipeline(["ChooseFastestBranch"], map_vectorization=wanted)) == [0, 2, 4, 6, 8]


def optimization_options(enabled):
    options = tf.data.experimental.MapVectorizationOptions()
    options.enabled = enabled
    return options


def test_defaults():
    by_default = ["map_and_batch_fusion", "noop_elimination", "shuffle_and_repeat_fusion"]
    assert tf.data.Options().experimental_optimization._static_optimizations() == by_default
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    assert options.experimental_optimization._static_optimizations() == []


def test_a_map_with_a_random_number_becomes_one_without_state():
    def elements(**options):
        dataset = tf.data.Dataset.range(50)
        if options:
            dataset = dataset.apply(optimization.assert_next(["Zip", "Map"]))
        dataset = dataset.map(lambda x: tf.random.uniform([], seed=3))
        wanted = tf.data.Options()
        for name, value in options.items():
            setattr(wanted.experimental_optimization, name, value)
        return rows(dataset.batch(7).with_options(wanted))

    for numbers in (elements(), elements(hoist_random_uniform=True, map_and_batch_fusion=False)):
        assert len(set(numbers)) == 50 and min(numbers) >= 0 and max(numbers) < 1
        assert 0.3 < sum(numbers) / 50 < 0.7


def test_a_filter_by_chance_becomes_a_sample():
    dataset = tf.data.Dataset.range(1000).apply(optimization.assert_next(["Sampling"]))
    dataset = dataset.filter(lambda x: tf.random.uniform([], seed=3) < 0.25).batch(10)
    wanted = tf.data.Options()
    wanted.experimental_optimization.filter_with_random_uniform_fusion = True
    assert 180 < len(rows(dataset.with_options(wanted))) < 320


def test_elements_may_come_in_another_order():
    taken = threading.Event()

    def call(x):
        if x == 0:
            taken.wait(30)
        return x

    # The option is set behind the map, where programs set it.
    dataset = tf.data.Dataset.range(2).map(lambda x: tf.py_func(call, [x], tf.int64), num_parallel_calls=2)
    options = tf.data.Options()
    options.experimental_deterministic = False
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset.with_options(options))
    following = iterator.get_next()
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        first = sess.run(following)
        taken.set()
        assert [first, sess.run(following)] == [1, 0]


def test_the_last_prefetch_has_slack():
    options = tf.data.Options()
    options.experimental_slack = True
    assert options._static_optimization_configs() == ["slack:slack_period:1"]
    options.experimental_distribute.num_devices = 4
    assert options._static_optimization_configs() == ["slack:slack_period:4"]
    dataset = tf.data.Dataset.range(20).batch(3).prefetch(2).take(5).with_options(options)
    assert rows(dataset) == list(range(15))


def test_large_elements_are_copied_by_several_threads():
    dataset = tf.data.Dataset.range(6).map(lambda x: tf.fill([100000], x)).batch(4)
    wanted = tf.data.Options()
    wanted.experimental_optimization.parallel_batch = True
    wanted.experimental_optimization.map_and_batch_fusion = False
    batches = rows(dataset.with_options(wanted))
    assert [sorted(set(row)) for row in batches] == [[i] for i in range(6)]


def test_one_shot_iterators_are_rewritten_too():
    following = pipeline(["MapAndBatch"]).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert list(sess.run(following)) == [0, 2]


@pytest.mark.parametrize("autotune", [None, True, False])
def test_parallelism_by_measured_costs(autotune):
    dataset = tf.data.Dataset.range(200).map(
        lambda x: x + 1, num_parallel_calls=tf.data.experimental.AUTOTUNE
    )
    options = tf.data.Options()
    if autotune is not None:
        options.experimental_optimization.autotune = autotune
        options.experimental_optimization.autotune_cpu_budget = 2
    assert rows(dataset.batch(7).with_options(options)) == list(range(1, 201))
