# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""import_graph_def, with the errors of TensorFlow."""
from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

import millrace as tf
from millrace.core.framework import graph_pb2
from millrace.python.framework import function, importer


def graph_of(text: str) -> graph_pb2.GraphDef:
    graph_def = text_format.Parse(text, graph_pb2.GraphDef())
    graph_def.versions.producer = tf.GRAPH_DEF_VERSION
    return graph_def


def const(name: str, value: float = 1.0) -> str:
    return (
        "node { name: '%s' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } "
        "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: %s } } } }"
        % (name, value)
    )


MATMUL = "node { name: 'c' op: 'Mul' input: 'a' input: 'b' attr { key: 'T' value { type: DT_FLOAT } } }"


def test_operations_come_under_a_scope() -> None:
    a, c_op = tf.import_graph_def(
        graph_of(const("a", 3) + const("b", 4) + MATMUL), return_elements=["a:0", "c"]
    )
    assert a.name == "import/a:0" and c_op.name == "import/c" and c_op.type == "Mul"
    assert list(c_op.inputs)[0] is a and c_op.outputs[0].shape.as_list() == []
    assert tf.import_graph_def(graph_of(const("a"))) is None
    assert tf.get_default_graph().get_operation_by_name("import_1/a").type == "Const"
    tf.import_graph_def(graph_of(const("q")), name="")
    assert tf.get_default_graph().get_operation_by_name("q") is not None
    (again,) = tf.import_graph_def(graph_of(const("a")), name="scope/", return_elements=["a"])
    assert again.name == "scope/a"
    with tf.Session() as session:
        assert session.run(c_op.outputs[0]) == 12.0


def test_inputs_are_replaced() -> None:
    feed = tf.placeholder(tf.float32, [2], name="feed")
    (c,) = tf.import_graph_def(
        graph_of(const("a") + const("b", 5) + MATMUL),
        input_map={"a:0": feed, b"b": 7.0},
        return_elements=["c:0"],
    )
    with tf.Session() as session:
        assert session.run(c, {feed: [1.0, 2.0]}).tolist() == [7.0, 14.0]
    assert c.shape.as_list() == [2]
    with pytest.raises(
        ValueError, match="Attempted to map inputs that were not found in graph_def: \\[nothing:0\\]"
    ):
        tf.import_graph_def(graph_of(const("a")), input_map={"nothing:0": feed})
    with pytest.raises(
        ValueError, match="requires a non-empty `name` if `input_map` contains non-Tensor values"
    ):
        tf.import_graph_def(graph_of(const("a") + const("b") + MATMUL), input_map={"a": 5.0}, name="")
    with pytest.raises(TypeError, match="input_map must be a dictionary mapping strings to Tensor objects."):
        tf.import_graph_def(graph_of(const("a")), input_map=[feed])
    with pytest.raises(ValueError, match="Cannot convert 'a:b:c' to a tensor name."):
        tf.import_graph_def(graph_of(const("a")), input_map={"a:b:c": feed})


def test_control_inputs_can_be_mapped() -> None:
    graph_def = graph_of(const("a") + const("b") + "node { name: 'd' op: 'NoOp' input: '^a' }")
    new = tf.constant(1.0, name="new")
    (d,) = tf.import_graph_def(graph_def, input_map={"^a": new.op}, return_elements=["d"])
    assert [op.name for op in d.control_inputs] == ["new"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("node { name: 'a' op: 'NoSuchOp' }", "NoSuchOp"),
        (const("a") + const("a"), "a"),
        ("node { name: 'c' op: 'Identity' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }", "a"),
        (
            const("a")
            + "node { name: 'c' op: 'Identity' input: 'a:1' attr { key: 'T' value { type: DT_FLOAT } } }",
            "Node 'c': Connecting to invalid output 1",
        ),
        (
            const("a")
            + "node { name: 'c' op: 'Identity' input: 'a' attr { key: 'T' value { type: DT_INT32 } } }",
            "float",
        ),
        (const("a") + "node { name: 'c' op: 'Identity' input: 'a' }", "T"),
        (
            const("a")
            + "node { name: 'c' op: 'Identity' input: 'a' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }",
            "Identity",
        ),
        (
            "node { name: 'x' op: 'NoOp' input: '^y' } node { name: 'y' op: 'NoOp' input: '^x' }",
            "cycle|not found|x",
        ),
        ("node { name: '_' op: 'NoOp' }", "Node '_': Node name contains invalid characters"),
        ("node { name: '_a' op: 'NoOp' }", "Node '_a': Node name contains invalid characters"),
        ("node { name: 'a b' op: 'NoOp' }", "Node 'a b': Node name contains invalid characters"),
    ],
)
def test_wrong_graphs_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.import_graph_def(graph_of(text))


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="graph_def must be a GraphDef proto."):
        tf.import_graph_def("hello")
    with pytest.raises(TypeError, match="return_elements must be a list of strings."):
        tf.import_graph_def(graph_of(const("a")), return_elements=[7])
    with pytest.raises(ValueError):
        tf.import_graph_def(graph_of(const("a")), return_elements=["nothing"])
    with pytest.raises(ValueError):
        tf.import_graph_def(graph_of(const("a")), return_elements=["a:7"])


def test_scopes_of_the_program_apply() -> None:
    before = tf.constant(1.0, name="before")
    with tf.device("/device:CPU:0"), tf.control_dependencies([before]):
        (a,) = tf.import_graph_def(graph_of(const("a")), return_elements=["a"])
    assert a.device == "/device:CPU:0" and a.control_inputs == [before.op]
    with tf.name_scope("outer"):
        (a,) = tf.import_graph_def(graph_of(const("a")), return_elements=["a"], name="inner")
    assert a.name == "outer/inner/a"


def test_colocation_gets_the_scope() -> None:
    text = const("a") + const("b")[:-2] + " attr { key: '_class' value { list { s: 'loc:@a' } } } }"
    (b,) = tf.import_graph_def(graph_of(text), return_elements=["b"], name="imp")
    assert b.colocation_groups() == [b"loc:@imp/a"] and b.name == "imp/b"


def test_loops_and_variables_survive() -> None:
    with tf.Graph().as_default() as graph:
        i, total = tf.while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t + tf.to_float(i)), [0, 0.0])
        tf.identity(total, name="total")
        chosen = tf.cond(tf.placeholder_with_default(True, [], name="p"), lambda: total * 2.0, lambda: total)
        tf.identity(chosen, name="chosen")
        graph_def = graph.as_graph_def()
    total, chosen = tf.import_graph_def(graph_def, return_elements=["total:0", "chosen:0"], name="x")
    with tf.Session() as session:
        assert session.run([total, chosen]) == [10.0, 20.0] and session.run(chosen, {"x/p:0": False}) == 10.0


def test_functions_come_with_the_graph() -> None:
    @function.Defun(tf.float32, func_name="AddTwo")
    def add_two(x: tf.Tensor) -> tf.Tensor:
        return x + 2.0

    with tf.Graph().as_default() as graph:
        tf.identity(add_two(tf.constant(1.0)), name="y")
        graph_def = graph.as_graph_def()
    assert [f.signature.name for f in graph_def.library.function] == ["AddTwo"]
    (y,) = tf.import_graph_def(graph_def, return_elements=["y:0"], name="")
    assert tf.get_default_graph()._is_function("AddTwo")
    with tf.Session() as session:
        assert session.run(y) == 3.0


def test_producers_with_newer_attributes() -> None:
    graph_def = graph_of(const("a"))
    graph_def.node[0].attr["brand_new"].i = 3
    from millrace.core.framework import op_def_pb2
    from millrace.python.framework import op_def_registry

    producers = op_def_pb2.OpList()
    producers.op.add().CopyFrom(op_def_registry.get("Const"))
    new = producers.op[0].attr.add(name="brand_new", type="int")
    new.default_value.i = 3
    (a,) = importer.import_graph_def(graph_def, return_elements=["a"], producer_op_list=producers)
    with pytest.raises(ValueError):
        a.get_attr("brand_new")


def test_versions() -> None:
    graph_def = graph_of(const("a"))
    graph_def.versions.min_consumer = tf.GRAPH_DEF_VERSION + 1000
    with pytest.raises(ValueError, match="GraphDef min consumer version"):
        tf.import_graph_def(graph_def)
    graph_def.versions.min_consumer = 0
    graph_def.versions.producer = 5
    tf.import_graph_def(graph_def)
    assert tf.get_default_graph().graph_def_versions.producer == 5


def test_large_constants() -> None:
    value = np.arange(100000, dtype=np.float32)
    with tf.Graph().as_default() as graph:
        tf.constant(value, name="big")
        graph_def = graph.as_graph_def()
    (big,) = tf.import_graph_def(graph_def, return_elements=["big:0"])
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(big), value)


def test_colocation_with_a_node_that_is_not_there_is_refused() -> None:
    text = const("a")[:-2] + " attr { key: '_class' value { list { s: 'loc:@nix' } } } }"
    with pytest.raises(ValueError, match="Node 'a' expects to be colocated with unknown node 'nix'"):
        tf.import_graph_def(graph_of(text), name="")
