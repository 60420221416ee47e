# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Collections of graphs."""
from __future__ import annotations

import pytest

import millrace as tf
from millrace.python.framework import ops


def test_values_are_kept_in_order() -> None:
    graph = tf.Graph()
    graph.add_to_collection("key", 12)
    graph.add_to_collection("key", "blob")
    graph.add_to_collection("key", 12)
    assert graph.get_collection("key") == [12, "blob", 12] and graph.get_collection("nothing") == []
    graph.get_collection("key").append(5)
    assert graph.get_collection("key") == [12, "blob", 12]
    graph.get_collection_ref("key").append(5)
    assert graph.get_collection("key")[-1] == 5 and graph.get_collection_ref("fresh") == []
    assert "fresh" in graph.get_all_collection_keys() and set(graph.collections) == {"key", "fresh"}
    graph.clear_collection("key")
    assert graph.get_collection("key") == []


def test_several_collections_at_once() -> None:
    graph = tf.Graph()
    graph.add_to_collections(["a", "b", "a"], 3)
    graph.add_to_collections(("c",), 4)
    graph.add_to_collections("d", 5)
    assert [graph.get_collection(k) for k in "abcd"] == [[3], [3], [4], [5]]
    graph.add_to_collection(("no", "string"), 1)
    assert set(graph.get_all_collection_keys()) == set("abcd") and graph.get_collection(("no", "string")) == [
        1
    ]


def test_scopes_filter_by_name() -> None:
    with tf.name_scope("one"):
        a = tf.Variable(1, name="a")
        b = tf.Variable(1, name="b")
    with tf.name_scope("onetwo"):
        c = tf.Variable(1, name="c")
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) == [a, b, c]
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="one") == [a, b, c]
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="one/") == [a, b]
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope=".*two") == [c]
    tf.add_to_collection("x", 3)
    assert tf.get_collection("x", scope="x") == [] and tf.get_collection_ref("x") == [3]


def test_keys() -> None:
    keys = tf.GraphKeys
    assert (keys.GLOBAL_VARIABLES, keys.LOCAL_VARIABLES, keys.TRAINABLE_VARIABLES) == (
        "variables", "local_variables", "trainable_variables",
    )  # fmt: skip
    assert (keys.SUMMARIES, keys.QUEUE_RUNNERS, keys.TABLE_INITIALIZERS) == (
        "summaries",
        "queue_runners",
        "table_initializer",
    )
    assert (keys.REGULARIZATION_LOSSES, keys.UPDATE_OPS, keys.LOSSES) == (
        "regularization_losses",
        "update_ops",
        "losses",
    )
    assert keys.VARIABLES == "variables" and keys.GLOBAL_STEP == "global_step" and keys.SAVERS == "savers"


def test_functions_for_messages() -> None:
    def to_proto(value: object, export_scope: str | None = None) -> str:
        return "proto"

    ops.register_proto_function("millrace_test", proto_type=str, to_proto=to_proto)
    assert (
        ops.get_to_proto_function("millrace_test") is to_proto
        and ops.get_from_proto_function("millrace_test") is None
    )
    assert (
        ops.get_collection_proto_type("millrace_test") is str and ops.get_to_proto_function("nobody") is None
    )
    with pytest.raises(TypeError, match="to_proto must be callable."):
        ops.register_proto_function("other", to_proto="x")
