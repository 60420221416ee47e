# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Examples, CSV and raw bytes are parsed as TensorFlow parses them."""
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
        session.run(tf.tables_initializer())
        return session.run(fetches, feed)


def example(**features: Any) -> bytes:
    message = tf.train.Example()
    for name, values in features.items():
        feature = message.features.feature[name]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            feature.float_list.value.extend(values)
    return message.SerializeToString()


A = example(x=[1.0, 2.0], s=[b"q"], v=[1, 2, 3], i=[3, 5], w=[1.5, 2.5])
B = example(x=[3.0, 4.0], v=[9], i=[1], w=[3.5])
FEATURES = {
    "x": tf.FixedLenFeature([2], tf.float32),
    "s": tf.FixedLenFeature([], tf.string, "default"),
    "v": tf.VarLenFeature(tf.int64),
    "seq": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-1),
    "sp": tf.SparseFeature("i", "w", tf.float32, 10),
}


def test_batches_of_examples() -> None:
    features = dict(FEATURES, v2=tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True))
    parsed = tf.parse_example([A, B, example(x=[5.0, 6.0], v2=[7])], features)
    assert parsed["x"].shape == [3, 2] and parsed["s"].shape == [3]
    values = run(parsed)
    assert values["x"].tolist() == [[1, 2], [3, 4], [5, 6]] and values["s"].tolist() == [
        b"q",
        b"default",
        b"default",
    ]
    assert values["v"].values.tolist() == [1, 2, 3, 9] and values["v"].dense_shape.tolist() == [3, 3]
    assert values["sp"].indices.tolist() == [[0, 3], [0, 5], [1, 1]] and values["sp"].values.tolist() == [
        1.5,
        2.5,
        3.5,
    ]
    assert values["sp"].dense_shape.tolist() == [3, 10]
    assert values["seq"].shape == (3, 0) and values["v2"].tolist() == [[0], [0], [7]]


def test_single_examples() -> None:
    serialized = tf.placeholder(tf.string, [])
    values = run(tf.parse_single_example(serialized, FEATURES), {serialized: A})
    assert (
        values["x"].tolist() == [1, 2]
        and values["s"] == b"q"
        and values["v"].indices.tolist() == [[0], [1], [2]]
    )
    assert values["sp"].dense_shape.tolist() == [10]
    with pytest.raises(ValueError, match="Input serialized must be a scalar"):
        tf.parse_single_example([A], FEATURES)


def test_padding_of_sequences() -> None:
    parsed = tf.parse_example(
        [A, B], {"v": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-1)}
    )
    assert run(parsed["v"]).tolist() == [[1, 2, 3], [9, -1, -1]]
    assert parsed["v"].shape.as_list() == [2, None]


def test_errors_of_features() -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Feature: y \\(data type: float\\) is required but could not be found.",
    ):
        run(tf.parse_example([A], {"y": tf.FixedLenFeature([], tf.float32)}))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse example input"):
        run(tf.parse_example([b"\x01 garbage"], FEATURES))
    for features, text in (
        ({}, "Missing: features was {}."),
        (
            {"a": tf.FixedLenFeature([None], tf.float32)},
            "First dimension of shape for feature a unknown. Consider using FixedLenSequenceFeature.",
        ),
        (
            {"a": tf.FixedLenFeature([2, None], tf.float32)},
            "All dimensions of shape for feature a need to be known",
        ),
        ({"a": tf.FixedLenFeature(None, tf.float32)}, "Missing shape for feature a."),
        ({"a": tf.VarLenFeature(None)}, "Missing type for feature a."),
        ({"a": 5}, "Invalid feature a:5."),
        (
            {"a": tf.FixedLenSequenceFeature([], tf.int64)},
            "FixedLenSequenceFeature requires allow_missing to be True.",
        ),
        ({"a": tf.SparseFeature(None, "w", tf.float32, 1)}, "Missing index_key for SparseFeature"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.parse_example([A], features)


def test_sequence_examples() -> None:
    message = tf.train.SequenceExample()
    message.context.feature["c"].int64_list.value.append(4)
    for k in range(3):
        message.feature_lists.feature_list["l"].feature.add().float_list.value.extend([k, k + 1])
    serialized = message.SerializeToString()
    context = {"c": tf.FixedLenFeature([], tf.int64), "d": tf.VarLenFeature(tf.string)}
    sequence = {"l": tf.FixedLenSequenceFeature([2], tf.float32)}
    c, s = run(tf.parse_single_sequence_example(serialized, context, sequence))
    assert c["c"] == 4 and c["d"].values.size == 0 and s["l"].tolist() == [[0, 1], [1, 2], [2, 3]]
    c, s, lengths = run(tf.io.parse_sequence_example([serialized, serialized], context, sequence))
    assert c["c"].tolist() == [4, 4] and s["l"].shape == (2, 3, 2) and lengths["l"].tolist() == [3, 3]
    missing = {"m": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True)}
    _, s = run(tf.parse_single_sequence_example(serialized, sequence_features=missing))
    assert s["m"].shape == (0,)
    with pytest.raises(ValueError, match="Missing features."):
        tf.parse_single_sequence_example(serialized)


def test_csv() -> None:
    columns = run(tf.decode_csv(["1,2.5,a", '3,,"b,c"'], [[0], [7.0], [""]]))
    assert (
        columns[0].tolist() == [1, 3]
        and columns[1].tolist() == [2.5, 7.0]
        and columns[2].tolist() == [b"a", b"b,c"]
    )
    assert run(tf.decode_csv("1|NA|3", [[0], [9], [0]], field_delim="|", na_value="NA")) == [1, 9, 3]
    assert run(tf.decode_csv("1,2,3", [[0], [0]], select_cols=[0, 2])) == [1, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 0 is required but missing in record 0!"):
        run(tf.decode_csv([",2"], [tf.constant([], tf.int32), [0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expect 2 fields but have 3 in record 0"):
        run(tf.decode_csv(["1,2,3"], [[0], [0]]))
    with pytest.raises(ValueError, match="select_cols is not strictly increasing."):
        tf.decode_csv("1,2,3", [[0], [0]], select_cols=[2, 0])
    with pytest.raises(ValueError, match="Length of select_cols and record_defaults do not match."):
        tf.decode_csv("1,2,3", [[0]], select_cols=[0, 2])


def test_raw_bytes_and_tensors() -> None:
    assert run(tf.decode_raw([b"\x01\x00\x02\x00"], tf.int16)).tolist() == [[1, 2]]
    assert run(tf.decode_raw(bytes=[b"\x00\x01"], out_type=tf.int16, little_endian=False)).tolist() == [[1]]
    with pytest.raises(ValueError, match="missing 1 positional argument: 'out_type'"):
        tf.decode_raw([b""])
    x = np.arange(6.0).reshape(2, 3)
    assert run(tf.parse_tensor(tf.serialize_tensor(x), tf.float64)).tolist() == x.tolist()
    json = '{"features": {"feature": {"a": {"int64List": {"value": ["5"]}}}}}'
    assert tf.train.Example.FromString(run(tf.decode_json_example(json))).features.feature[
        "a"
    ].int64_list.value == [5]
