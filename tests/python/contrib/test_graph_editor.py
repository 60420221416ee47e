# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.graph_editor: selections, views, changes and copies."""
import numpy as np
import pytest

import millrace as tf

ge = tf.contrib.graph_editor


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def names(items):
    return [item.name for item in items]


def small():
    """a and b give c; c and d give e, in a scope; f uses e."""
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    with tf.name_scope("foo"):
        c = tf.add(a, b, name="c")
        d = tf.constant(4.0, name="d")
        e = tf.multiply(c, d, name="e")
    f = tf.negative(e, name="f")
    return a, b, c, d, e, f


def test_selections(graph):
    a, b, c, d, e, f = small()
    assert names(ge.select_ops("^foo/", graph=graph)) == ["foo/c", "foo/d", "foo/e"]
    assert names(ge.select_ts("(?#ts)e:0$", graph=graph)) == ["foo/e:0"]
    assert names(ge.get_name_scope_ops(graph, "foo/")) == ["foo/c", "foo/d", "foo/e"]
    assert set(names(ge.get_forward_walk_ops([c.op]))) == {"foo/c", "foo/e", "f"}
    assert set(names(ge.get_forward_walk_ops([c], inclusive=False))) == {"f"}
    assert set(names(ge.get_backward_walk_ops([e.op], inclusive=False))) == {"a", "b", "foo/c", "foo/d"}
    assert set(names(ge.get_backward_walk_ops(e.op, stop_at_ts=[c]))) == {"foo/d", "foo/e"}
    assert names(ge.get_walks_intersection_ops([a.op], [e.op])) == ["a", "foo/c", "foo/e"]
    assert set(names(ge.get_walks_union_ops([e.op], [c.op]))) == {"foo/e", "f", "foo/c", "a", "b"}
    within = ge.get_within_boundary_ops(graph, [c.op], boundary_ops=[f.op], inclusive=False)
    assert set(names(within)) == {"a", "b", "foo/c", "foo/d", "foo/e"}
    inputs, outputs, inside = ge.compute_boundary_ts([c.op, e.op])
    assert (names(inputs), names(outputs), names(inside)) == (
        ["a:0", "b:0", "foo/d:0"],
        ["foo/e:0"],
        ["foo/c:0"],
    )
    with pytest.raises(ValueError, match="keyword argument 'graph'"):
        ge.select_ops("^foo/")
    with tf.control_dependencies([f.op]):
        g = tf.constant(0.0, name="g")
    assert g.op in ge.get_forward_walk_ops([c.op], control_outputs=ge.ControlOutputs(graph))


def test_views(graph):
    a, b, c, d, e, _ = small()
    view = ge.sgv("^foo/", graph=graph)
    assert names(view.ops) == ["foo/c", "foo/d", "foo/e"]
    assert names(view.inputs) == ["a:0", "b:0"] and names(view.outputs) == ["foo/e:0"]
    assert view.input_index(b) == 1 and view.find_op_by_name("foo/c") is c.op
    assert names(view.remap_inputs([1, 0]).inputs) == ["b:0", "a:0"]
    assert names(view.consumers()) == ["f"]
    assert names(ge.make_view_from_scope("foo", graph).ops) == names(view.ops)
    assert names(ge.make_view(a, c.op).passthroughs) == []
    assert names(ge.make_view(d, c.op).passthroughs) == ["foo/d:0"]
    with pytest.raises(ValueError, match="Out of bounds"):
        view.remap_inputs([2])
    with pytest.raises(ValueError, match="not found in subgraph"):
        view.find_op_by_name("a")


def test_changes_of_connections():
    a0, b0 = tf.constant(1.0, name="a0"), tf.constant(2.0, name="b0")
    c0 = tf.add(a0, b0, name="c0")
    a1, b1 = tf.constant(3.0, name="a1"), tf.constant(4.0, name="b1")
    c1 = tf.add(a1, b1, name="c1")
    assert ge.swap_ts([a0, b0], [a1, b1]) == 4
    assert names(c0.op.inputs) == ["a1:0", "b1:0"] and names(c1.op.inputs) == ["a0:0", "b0:0"]
    assert ge.reroute_ts([a0, b0], [a1, b1]) == 2
    assert names(c0.op.inputs) == ["a0:0", "b0:0"] and names(c1.op.inputs) == ["a0:0", "b0:0"]
    assert ge.reroute_ts([a1], [a0], can_modify=[c1.op]) == 1
    assert names(c0.op.inputs) == ["a0:0", "b0:0"] and names(c1.op.inputs) == ["a1:0", "b0:0"]
    with tf.Session() as session:
        assert session.run([c0, c1]) == [3.0, 5.0]
    with pytest.raises(ValueError):
        ge.swap_ts([a0], [a1, b1])


def test_detached_bypassed_and_connected():
    a, b, c, d, e, f = small()
    view, placeholders = ge.detach_inputs(ge.make_view(c.op, e.op))
    assert names(placeholders) == ["geph__a_0:0", "geph__b_0:0", "foo/geph__d_0:0"]
    with tf.Session() as session:
        assert session.run(f, dict(zip(placeholders, [1.0, 1.0, 3.0]))) == -6.0
    sqrt = tf.sqrt(tf.constant(16.0, name="sixteen"), name="sqrt")
    ge.connect(ge.make_view(sqrt.op).remap_outputs([0]), ge.make_view(f.op))
    assert names(f.op.inputs) == ["sqrt:0"]
    ge.bypass(ge.make_view(sqrt.op))
    assert names(f.op.inputs) == ["sixteen:0"] and sqrt.op.inputs[0].op.type == "Placeholder"
    detached, outputs = ge.detach_outputs(ge.make_view(f.op.inputs[0].op))
    assert names(detached.outputs) == ["sixteen:0"] and names(outputs) == ["geph__sixteen_0_1:0"]


def test_control_edges(graph):
    a, b, c, d, e, f = small()
    ge.add_control_inputs(a.op, d.op)
    assert a.op.control_inputs == [d.op]
    with pytest.raises(ValueError, match="already a control_input"):
        ge.add_control_inputs(a.op, d.op)
    ge.detach_control_outputs(ge.make_view(d.op), ge.ControlOutputs(graph))
    assert a.op.control_inputs == []
    with pytest.raises(ValueError, match="is not a control_input"):
        ge.remove_control_inputs(a.op, d.op)


def test_copies(graph):
    a, b, c, d, e, f = small()
    graph.add_to_collection("mine", c)
    copied, info = ge.copy(ge.make_view("^foo/", graph=graph), dst_scope="bar", src_scope="foo")
    assert names(copied.ops) == ["bar/c", "bar/d", "bar/e"]
    assert names(copied.inputs) == ["a:0", "b:0"]
    assert info.transformed(c).name == "bar/c:0" and info.original(info.transformed(c.op)) is c.op
    assert info.transformed(f) is None
    _, info = ge.copy([c.op, e.op], dst_scope="bar")
    assert info.transformed(e.op).name == "bar_1/foo/e"
    other = tf.Graph()
    copied, info = ge.copy(graph, dst_graph=other)
    assert len(other.get_operations()) == len(graph.get_operations())
    with tf.Session(graph=other) as session:
        assert session.run("f:0") == -12.0
    replaced, info = ge.copy_with_input_replacements([c.op, e.op], {a: tf.constant(10.0)}, dst_scope="new")
    with tf.Session() as session:
        assert session.run(info.transformed(e)) == 48.0


def test_replacements():
    x = tf.constant([1.0, 2.0], name="x")
    y = tf.reduce_sum(tf.square(x), name="y")
    z = tf.identity(y + 1.0, name="z")
    new_y, new_z = ge.graph_replace([y, z], {x: tf.constant([3.0, 4.0])}, dst_scope="again")
    with tf.Session() as session:
        assert session.run([y, z, new_y, new_z]) == [5.0, 6.0, 25.0, 26.0]
    assert new_y.name == "again/y:0"
    with pytest.raises(ValueError, match="Targets and replacements are not connected!"):
        ge.graph_replace(y, {z: tf.constant(0.0)})


def test_a_loop_is_replaced_as_a_whole():
    x = tf.constant(2.0, name="x")
    out = tf.identity(tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * x), [0, x])[1], name="out")
    new = ge.graph_replace(out, {x: tf.constant(3.0)})
    with tf.Session() as session:
        assert session.run([out, new]) == [16.0, 81.0]


def test_random_weights_are_replaced_by_their_means():
    # As in TensorFlow's example: a network with samples in place of weights.
    means = tf.Variable(np.ones([3, 1], np.float32))
    samples = tf.add(means, tf.random_normal([3, 1]), name="samples")
    features = tf.constant([[1.0, 2.0, 3.0]])
    out = tf.matmul(features, samples)
    mean_out = ge.graph_replace(out, {samples: tf.convert_to_tensor(means)})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(mean_out), [[6.0]])
