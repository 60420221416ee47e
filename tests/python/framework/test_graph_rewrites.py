# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs that are optimised, frozen and shown."""
from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

import millrace as tf
from millrace.python.framework import graph_util_impl
from millrace.python.grappler import cluster, item, tf_optimizer


def _meta_graph(fetch: Any) -> Any:
    tf.get_collection_ref("train_op").append(fetch)
    return tf.train.export_meta_graph()


def test_constants_are_computed_and_others_left_out() -> None:
    a, b = tf.constant(10, name="a"), tf.constant(20, name="b")
    tf.constant(5, name="unused")
    graph_def = tf_optimizer.OptimizeGraph(tf.ConfigProto(), _meta_graph(tf.add(a, b, name="c")))
    assert [(node.name, node.op) for node in graph_def.node] == [("c", "Const")]
    assert tf.make_ndarray(graph_def.node[0].attr["value"].tensor) == 30


def test_what_depends_on_feeds_variables_loops_and_random_numbers_is_kept() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    v = tf.Variable(1.0, name="v")
    r = tf.random_uniform([], name="r")
    loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")
    out = tf.add_n([x * 2.0, v + 1.0, r, tf.cast(loop, tf.float32)], name="out")
    graph_def = tf_optimizer.OptimizeGraph(tf.ConfigProto(), _meta_graph(out))
    types = {node.op for node in graph_def.node}
    assert {"Placeholder", "VariableV2", "RandomUniform", "Enter", "Exit", "AddN"} <= types
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        assert session.run("loop/Exit:0") == 3


def test_wrong_arguments_of_the_optimizer() -> None:
    with pytest.raises(TypeError, match="Expected config_proto to be a ConfigProto"):
        tf_optimizer.OptimizeGraph(None, tf.MetaGraphDef())
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf_optimizer.OptimizeGraph(tf.ConfigProto(), tf.train.export_meta_graph())


def test_item_and_cluster() -> None:
    x = tf.random_uniform([2, 3], name="x")
    with tf.colocate_with(x.op):
        y = tf.identity(x, name="y")
    made = item.Item(_meta_graph(y))
    assert made.IdentifyImportantOps(sort_topologically=True)[-2:] == ["x", "y"]
    assert made.GetOpProperties()["y"][0].dtype == tf.float32.as_datatype_enum
    assert made.GetColocationGroups() == [["x", "y"]]
    with cluster.Provision() as devices:
        assert "CPU" in {d.properties.type for d in devices.ListDevices()}
        assert devices.GetSupportedDevices(made)["y"] == ["/job:localhost/replica:0/task:0/device:CPU:0"]
        costs, seconds, stats = devices.MeasureCosts(made)
        assert (costs, len(stats.dev_stats)) == ([], 0) and seconds > 0
    with cluster.Provision(disable_detailed_stats=False, disable_timeline=False) as devices:
        costs, _, stats = devices.MeasureCosts(made)
        assert len(costs) > 0 and len(stats.dev_stats) > 0
    first = made.tf_item
    assert made.tf_item is first
    made.metagraph.graph_def.node[0].device = "/cpu:0"
    assert made.tf_item is not first


def test_nodes_of_collections_stay() -> None:
    with tf.Graph().as_default() as graph:
        v = tf.Variable(1.0, name="v", use_resource=False)
        graph.add_to_collection("mine", tf.zeros([2], name="mine"))
        with graph._attr_scope({"_grappler_do_not_remove": tf.AttrValue(b=True)}):
            tf.zeros([3], name="marked")
        tf.zeros([4], name="nobodys")
        graph.add_to_collection("train_op", tf.matmul(tf.ones([1, 2]), tf.ones([2, 1]), name="product"))
        left = tf_optimizer.OptimizeGraph(tf.ConfigProto(), tf.train.export_meta_graph())
    names = {node.name: node.op for node in left.node}
    assert set(names) == {"v", "v/initial_value", "v/Assign", "mine", "marked", "product"}
    assert names["product"] == "Const" and v.op.name in names


def test_a_chain_of_checks_is_removed() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    y = x
    for _ in range(50):
        y = tf.check_numerics(y, "bad")
    tf.negative(y, name="out")
    graph_def = graph_util_impl.remove_training_nodes(tf.get_default_graph().as_graph_def())
    assert [(n.name, list(n.input)) for n in graph_def.node] == [("x", []), ("out", ["x"])]


def _page_data(graph: Any) -> Any:
    text = html.unescape(re.search('srcdoc="([^"]*)"', graph._repr_html_()).group(1))  # type: ignore[union-attr]
    return json.loads(re.search('id="data">(.*)</script>', text).group(1))  # type: ignore[union-attr]


def test_a_graph_shows_itself_in_a_notebook() -> None:
    with tf.name_scope("layer"):
        x = tf.constant([1.0, 2.0], name="x")
        with tf.control_dependencies([tf.no_op(name="first")]):
            tf.negative(x, name="y")
    data = _page_data(tf.get_default_graph())
    assert data["title"] == "Graph of 3 operations"
    assert data["items"] == {
        "label": ["", "layer", "x", "first", "y"],
        "parent": [-1, 0, 1, 1, 1],
        "node": [-1, -1, 0, 1, 2],
    }
    assert data["edges"] == [0, 2, 0, 0, 1, 2, -1, 1]
    assert "value: float [2] [1. 2.]" in data["attributes"]


def test_many_nodes_of_a_scope_stand_in_groups() -> None:
    for number in range(2000):
        tf.no_op(name="n%d" % number)
    items = _page_data(tf.get_default_graph())["items"]
    children = [items["parent"].count(number) for number in range(len(items["label"]))]
    assert max(children) <= 40
    assert sorted(n for n in items["node"] if n >= 0) == list(range(2000))
    assert all(parent < number for number, parent in enumerate(items["parent"]))


def test_an_empty_graph_in_a_notebook() -> None:
    assert tf.Graph()._repr_html_() == "<p>Graph of 0 operations</p>"
