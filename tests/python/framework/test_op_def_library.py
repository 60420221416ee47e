# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""apply_op: conversion of arguments, attributes inferred from inputs, and the texts of errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import millrace as tf
from millrace.core.framework import tensor_shape_pb2
from millrace.python.framework import dtypes, op_def_library, ops, test_ops

apply_op = op_def_library.apply_op
assert test_ops.OP_LIST.op


def tensor(dtype: Any, name: str) -> tf.Tensor:
    return tf.placeholder(dtype, name=name)


def check(op: Any, text: str) -> None:
    """Compares an operation with the text of its NodeDef."""
    from millrace.core.framework import node_def_pb2

    op = op if isinstance(op, ops.Operation) else (op[0] if isinstance(op, (list, tuple)) else op).op
    assert op.node_def == text_format.Parse(text, node_def_pb2.NodeDef())


def test_single_inputs() -> None:
    out = apply_op("Simple", a=3)
    assert out.dtype == tf.float32
    check(out, "name: 'Simple' op: 'Simple' input: 'Simple/a'")
    check(apply_op("Simple", a=4), "name: 'Simple_1' op: 'Simple' input: 'Simple_1/a'")
    check(apply_op("Simple", a=5, name="named"), "name: 'named' op: 'Simple' input: 'named/a'")
    check(
        apply_op("Simple", a=[[1, 2, 3], [4, 5, 6]], name="two_d"),
        "name: 'two_d' op: 'Simple' input: 'two_d/a'",
    )


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"a": "Bad string"}, "Expected int32, got 'Bad string' of type 'str' instead."),
        ({"a": [1.0]}, "Expected int32 passed to parameter 'a' of op 'Simple', got \\[1.0\\] of type 'list' instead."),
        ({"a": [1, 2, "x"]}, "Expected int32, got 'x' of type 'str' instead."),
        ({}, "No argument for input a"),
        ({"a": 6, "extra": "bogus"}, "apply_op\\(\\) got unexpected keyword arguments: extra"),
        ({"a": 6, "extra1": 1, "extra2": 2}, "apply_op\\(\\) got unexpected keyword arguments: extra1, extra2"),
    ],
)  # fmt: skip
def test_wrong_single_inputs(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        apply_op("Simple", **arguments)


def test_tensors_of_another_type() -> None:
    with pytest.raises(
        TypeError,
        match="Input 'a' of 'Simple' Op has type float32 that does not match expected type of int32.",
    ):
        apply_op("Simple", a=tensor(tf.float32, "t"))
    with pytest.raises(RuntimeError, match="Unrecognized Op name NoSuchOp"):
        apply_op("NoSuchOp")
    check(apply_op("ReservedInput", input_=7, name="x"), "name: 'x' op: 'ReservedInput' input: 'x/input'")


def test_types_are_told_by_inputs() -> None:
    out = apply_op("Polymorphic", a=7, name="p")
    assert out.dtype == tf.int32
    check(out, "name: 'p' op: 'Polymorphic' input: 'p/a' attr { key: 'T' value { type: DT_INT32 } }")
    assert apply_op("Polymorphic", a="s").dtype == tf.string
    assert apply_op("Polymorphic", a=["s", "t", "u"]).dtype == tf.string
    with pytest.raises(TypeError, match="Should not specify value for inferred attr 'T'."):
        apply_op("Polymorphic", T=dtypes.int32, a=8)
    with pytest.raises(TypeError, match="Should not specify value for inferred attr 'T'."):
        apply_op("Polymorphic", a="s", T=dtypes.int32)
    assert (
        apply_op("Binary", a=8, b=9).dtype == tf.int32 and apply_op("Binary", a="l", b="r").dtype == tf.string
    )
    with pytest.raises(TypeError):
        apply_op("Binary", a="left", b=12)
    with pytest.raises(
        TypeError,
        match="Input 'b' of 'Binary' Op has type float32 that does not match type string of argument 'a'.",
    ):
        apply_op("Binary", a="left", b=tensor(tf.float32, "f"))
    assert apply_op("Restrict", a="foo").dtype == tf.string and apply_op("Restrict", a=True).dtype == tf.bool
    with pytest.raises(
        TypeError,
        match="Value passed to parameter 'a' has DataType int32 not in list of allowed values: string, bool",
    ):
        apply_op("Restrict", a=17)


def test_types_are_arguments_where_only_outputs_have_them() -> None:
    assert apply_op("PolymorphicOut", T=dtypes.bool).dtype == tf.bool
    with pytest.raises(TypeError, match="No argument for attr T|Expected|missing"):
        apply_op("PolymorphicOut")
    assert apply_op("PolymorphicDefaultOut").dtype == tf.string
    assert (
        apply_op("PolymorphicDefaultOut", T=dtypes.bool).dtype == tf.bool
        and apply_op("PolymorphicOut", T="int64").dtype == tf.int64
    )
    with pytest.raises(TypeError, match="Expected DataType for argument 'T' not 'fish'."):
        apply_op("PolymorphicOut", T="fish")


def test_lists_of_types() -> None:
    check(apply_op("TypeList", a=["foo"], name="z"),
          "name: 'z' op: 'TypeList' input: 'z/a_0' attr { key: 'T' value { list { type: DT_STRING } } }")  # fmt: skip
    check(apply_op("TypeList", a=[True, 12], name="y"),
          "name: 'y' op: 'TypeList' input: 'y/a_0' input: 'y/a_1' attr { key: 'T' value { list { type: DT_BOOL type: DT_INT32 } } }")  # fmt: skip
    check(
        apply_op("TypeList", a=[], name="empty"),
        "name: 'empty' op: 'TypeList' attr { key: 'T' value { list { } } }",
    )
    with pytest.raises(TypeError, match="Expected list for 'a' argument to 'TypeList' Op, not "):
        apply_op("TypeList", a=17)
    with pytest.raises(TypeError, match="that are invalid. Tensors: "):
        apply_op("TypeList", a=[object()])
    check(apply_op("TypeListTwice", a=["foo", True], b=["bar", False], name="v"),
          "name: 'v' op: 'TypeListTwice' input: 'v/a_0' input: 'v/a_1' input: 'v/b_0' input: 'v/b_1' "
          "attr { key: 'T' value { list { type: DT_STRING type: DT_BOOL } } }")  # fmt: skip
    with pytest.raises(TypeError, match="Input 'b' of 'TypeListTwice' Op has type list of string, int32 that does not match type list "
                                        "string, bool of argument 'a'."):  # fmt: skip
        apply_op("TypeListTwice", a=["foo", True], b=["bar", 6])
    assert [t.dtype for t in apply_op("OutTypeList", T=[dtypes.float32, "bool"])] == [tf.float32, tf.bool]
    assert apply_op("OutTypeList", T=[]) == [] or isinstance(apply_op("OutTypeList", T=[]), ops.Operation)
    with pytest.raises(TypeError, match="Expected list for attr T"):
        apply_op("OutTypeList", T=dtypes.int32)
    with pytest.raises(
        TypeError,
        match="Value passed to parameter 'a' has DataType int32 not in list of allowed values: string, bool",
    ):
        apply_op("TypeListRestrict", a=[True, 12])
    with pytest.raises(
        TypeError,
        match="Value passed to parameter 't' has DataType float32 not in list of allowed values: string, bool",
    ):
        apply_op("OutTypeListRestrict", t=[dtypes.string, dtypes.float32])


@pytest.mark.parametrize(
    "op, value, text",
    [
        ("Attr", 12, "i: 12"), ("Attr", np.int64(3), "i: 3"), ("AttrFloat", 1.25, "f: 1.25"), ("AttrFloat", 12, "f: 12"),
        ("AttrFloatList", [], "list { }"), ("AttrBool", True, "b: true"), ("AttrBoolList", [True, False], "list { b: true b: false }"),
        ("AttrMin", 12, "i: 12"), ("AttrListMin", [1, 2], "list { i: 1 i: 2 }"), ("AttrEnum", "oranges", "s: 'oranges'"),
        ("AttrEnumList", ["oranges", "apples"], "list { s: 'oranges' s: 'apples' }"), ("AttrDefault", "kiwi", "s: 'kiwi'"),
        ("AttrShape", [5], "shape { dim { size: 5 } }"), ("AttrShape", (4, 3, 2), "shape { dim { size: 4 } dim { size: 3 } dim { size: 2 } }"),
        ("AttrShape", tf.TensorShape([None]), "shape { dim { size: -1 } }"), ("AttrShape", None, "shape { unknown_rank: true }"),
        ("AttrShape", tensor_shape_pb2.TensorShapeProto(dim=[{"size": 6}]), "shape { dim { size: 6 } }"),
        ("AttrShapeList", [[3, 2], []], "list { shape { dim { size: 3 } dim { size: 2 } } shape { } }"),
        ("AttrPartialShape", [5, -1], "shape { dim { size: 5 } dim { size: -1 } }"),
        ("AttrListDefault", [1], "list { i: 1 }"),
    ],
)  # fmt: skip
def test_attributes(op: str, value: Any, text: str) -> None:
    check(apply_op(op, a=value, name="t"), "name: 't' op: '%s' attr { key: 'a' value { %s } }" % (op, text))


@pytest.mark.parametrize(
    "op, value, error, text",
    [
        ("Attr", "bad", TypeError, "Expected int for argument 'a' not 'bad'."),
        ("Attr", [12], TypeError, "Expected int for argument 'a' not \\[12\\]."),
        ("Attr", None, TypeError, "Expected int for argument 'a' not None."),
        ("AttrFloat", "bad", TypeError, "Expected float for argument 'a' not 'bad'."),
        ("AttrBool", 0, TypeError, "Expected bool for argument 'a' not 0."), ("AttrBool", "x", TypeError, "Expected bool for argument 'a' not 'x'."),
        ("AttrBool", [], TypeError, "Expected bool for argument 'a' not \\[\\]."),
        ("AttrMin", 2, ValueError, "Attr 'a' of 'AttrMin' Op passed 2 less than minimum 5."),
        ("AttrListMin", [1], ValueError, "Attr 'a' of 'AttrListMin' Op passed list of length 1 less than minimum 2."),
        ("AttrEnum", "invalid", ValueError, "Attr 'a' of 'AttrEnum' Op passed string 'invalid' not in: \"apples\", \"oranges\"."),
        ("AttrEnumList", ["apples", "invalid"], ValueError, "Attr 'a' of 'AttrEnumList' Op passed string 'invalid' not in: \"apples\", \"oranges\"."),
        ("AttrShape", 5.5, ValueError, "Error converting 5.5"), ("AttrShape", "bad", TypeError, "Error converting 'bad'"),
        ("AttrDefault", 3, TypeError, "Expected string for argument 'a' not 3."),
    ],
)  # fmt: skip
def test_wrong_attributes(op: str, value: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        apply_op(op, a=value)


def test_defaults() -> None:
    assert apply_op("AttrDefault").get_attr("a") == b"banana" and apply_op("AttrListDefault").get_attr(
        "a"
    ) == [5, 15]
    assert (
        apply_op("AttrEmptyListDefault").get_attr("a") == []
        and apply_op("AttrDefault", a=None).get_attr("a") == b"banana"
    )
    check(
        apply_op("ReservedAttr", range_=7, name="x"),
        "name: 'x' op: 'ReservedAttr' attr { key: 'range' value { i: 7 } }",
    )
    assert apply_op("AttrTypeDefault", a=[]).node_def.attr["T"].type == dtypes.int32.as_datatype_enum
    assert apply_op("AttrTypeDefault", a=[], name="u").inputs[0].dtype == tf.int32
    assert apply_op("AttrTypeDefault", a=tf.constant([], tf.float32)).inputs[0].dtype == tf.float32
    op = apply_op("DefaultAttrs")
    assert op.get_attr("int_list_val") == [1, 2, 3] and op.get_attr("type_list_val") == [tf.int32, tf.float32]
    assert op.get_attr("string_list_val") == [b"abc", b""] and op.get_attr("tensor_val").int_val == [1]
    assert [d.size for d in op.get_attr("shape_val").dim] == [2, 1] and op.get_attr("bool_list_val") == [
        True,
        False,
    ]


def test_lists_of_one_type() -> None:
    check(apply_op("NIntsIn", a=[1, 2], name="n"),
          "name: 'n' op: 'NIntsIn' input: 'n/a_0' input: 'n/a_1' attr { key: 'N' value { i: 2 } }")  # fmt: skip
    for wrong, text in ((["foo", "bar"], "Tensors in list passed to 'a' of 'NIntsIn' Op have types \\[string, string\\] that do not match expected type int32."),
                        ([tensor(tf.string, "s")] * 2, "have types \\[string, string\\] that do not match expected type int32."),
                        (1, "Expected list for 'a' argument to 'NIntsIn' Op, not 1.")):  # fmt: skip
        with pytest.raises(TypeError, match=text):
            apply_op("NIntsIn", a=wrong)
    with pytest.raises(
        ValueError, match="List argument 'a' to 'NIntsIn' Op with length 1 shorter than minimum length 2."
    ):
        apply_op("NIntsIn", a=[99])
    check(apply_op("NPolymorphicIn", a=["foo", "bar", "baz"], name="p"),
          "name: 'p' op: 'NPolymorphicIn' input: 'p/a_0' input: 'p/a_1' input: 'p/a_2' "
          "attr { key: 'N' value { i: 3 } } attr { key: 'T' value { type: DT_STRING } }")  # fmt: skip
    with pytest.raises(
        TypeError,
        match="Tensors in list passed to 'a' of 'NPolymorphicIn' Op have types \\[int32, string\\] that don't all match.",
    ):
        apply_op("NPolymorphicIn", a=[1, tensor(tf.string, "t")])
    with pytest.raises(
        ValueError,
        match="List argument 'b' to 'NInTwice' Op with length 1 must match length 2 of argument 'a'.",
    ):
        apply_op("NInTwice", a=[1, 2], b=["one"])
    check(
        apply_op("NInTwice", a=[], b=[], name="e"),
        "name: 'e' op: 'NInTwice' attr { key: 'N' value { i: 0 } }",
    )
    with pytest.raises(TypeError, match="Tensors in list passed to 'b' of 'NInPolymorphicTwice' Op have types \\[string, string\\] that do not "
                                        "match type int32 inferred from earlier arguments."):  # fmt: skip
        apply_op("NInPolymorphicTwice", a=[1, 2], b=["one", "two"])
    check(apply_op("NInTwoTypeVariables", a=[1, 2], b=[True, False], name="v"),
          "name: 'v' op: 'NInTwoTypeVariables' input: 'v/a_0' input: 'v/a_1' input: 'v/b_0' input: 'v/b_1' attr { key: 'N' value { i: 2 } } "
          "attr { key: 'S' value { type: DT_INT32 } } attr { key: 'T' value { type: DT_BOOL } }")  # fmt: skip
    op = apply_op("InPolymorphicTwice", a=[], b=[3, 4])
    assert (op.get_attr("N"), op.get_attr("M"), op.get_attr("T")) == (0, 2, tf.int32)
    assert apply_op("InPolymorphicTwice", a=[], b=[]).get_attr("T") == tf.int32


def test_lists_of_results() -> None:
    out = apply_op("NIntsOut", N=3)
    assert (
        [t.dtype for t in out] == [tf.int32] * 3
        and len(apply_op("NIntsOutDefault")) == 3
        and len(apply_op("NIntsOutDefault", N=2)) == 2
    )
    with pytest.raises(ValueError, match="Attr 'N' of 'NIntsOut' Op passed 1 less than minimum 2."):
        apply_op("NIntsOut", N=1)
    with pytest.raises(TypeError, match="Expected int for argument 'N' not \\[3\\]."):
        apply_op("NIntsOut", N=[3])
    assert [t.dtype for t in apply_op("NPolymorphicOut", N=2, T=dtypes.string)] == [tf.string] * 2
    assert [t.dtype for t in apply_op("NPolymorphicOutDefault")] == [tf.bool] * 2
    with pytest.raises(
        TypeError,
        match="Value passed to parameter 'T' has DataType int32 not in list of allowed values: string, bool",
    ):
        apply_op("NPolymorphicRestrictOut", N=2, T=dtypes.int32)
    single = apply_op("SimpleStruct", n_a=2)
    assert [t.name for t in single] == ["SimpleStruct:0", "SimpleStruct:1"]
    mixed = apply_op("MixedStruct", n_a=2)
    assert [t.dtype for t in mixed[0]] == [tf.int32] * 2 and mixed[1].dtype == tf.float32
    a, b, c = apply_op("ComplexStruct", n_a=1, n_b=2, t_c=[dtypes.bool, dtypes.string])
    assert (
        len(a) == 1
        and [t.dtype for t in b] == [tf.int64] * 2
        and [t.dtype for t in c] == [tf.bool, tf.string]
    )
    assert apply_op("MixedStruct", n_a=0)[0] == []


def test_references() -> None:
    out = apply_op("RefOut", T=dtypes.bool)
    assert out.dtype == dtypes.bool._as_ref
    check(apply_op("RefIn", a=out, name="r"), "name: 'r' op: 'RefIn' input: 'RefOut' attr { key: 'T' value { type: DT_BOOL } } "
          "attr { key: '_class' value { list { s: 'loc:@RefOut' } } }" if apply_op("RefIn", a=out).node_def.attr["_class"].list.s
          else "name: 'r' op: 'RefIn' input: 'RefOut' attr { key: 'T' value { type: DT_BOOL } }")  # fmt: skip
    assert (
        apply_op("Binary", a=out, b=out).dtype == tf.bool
        and apply_op("TwoRefsIn", a=out, b=out).type == "TwoRefsIn"
    )
    with pytest.raises(
        TypeError, match="'RefIn' Op requires that input 'a' be a mutable tensor \\(e.g.: a tf.Variable\\)"
    ):
        apply_op("RefIn", a=tensor(tf.bool, "plain"))
    other = apply_op("RefOut", T=dtypes.int32)
    with pytest.raises(
        TypeError,
        match="Input 'b' of 'TwoRefsIn' Op has type int32_ref that does not match type bool of argument 'a'.",
    ):
        apply_op("TwoRefsIn", a=out, b=other)


def test_devices_and_graphs() -> None:
    with tf.device("/job:ADevice"):
        op = apply_op("Simple", a=3).op
    assert op.device == "/job:ADevice"
    graph = tf.Graph()
    with graph.as_default():
        inside = tensor(tf.int32, "g")
    assert apply_op("Simple", a=inside).graph is graph
    with pytest.raises(ValueError, match="must be from the same graph as"):
        apply_op("Binary", a=inside, b=tensor(tf.int32, "h"))


def test_generated_functions_check_as_apply_op_does() -> None:
    assert test_ops.float_output().dtype == tf.float32 and test_ops.none().type == "None"
    a, b = test_ops.two_int_outputs()
    assert (a.op, a.dtype, b.value_index) == (b.op, tf.int32, 1)
    with pytest.raises(TypeError):
        test_ops.int_input("text")
    with pytest.raises(
        ValueError, match="Shape must be rank|Dimensions must be equal|are not compatible|must be"
    ):
        tf.matmul(tf.zeros([2, 3]), tf.zeros([4, 5]))


def test_kernels_of_test_ops_are_chosen_by_label() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        plain = test_ops.kernel_label()
        with graph._kernel_label_map({"KernelLabel": "overload_1"}):
            first = test_ops.kernel_label()
        assert sess.run([plain, first]) == [b"My label is: default", b"My label is: overload_1"]
        with pytest.raises(tf.errors.InvalidArgumentError, match="No OpKernel was registered"):
            sess.run(test_ops.kernel_label_required(1))


def test_stub_resources_are_made_once() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        handle = test_ops.stub_resource_handle_op(container="a", shared_name="b")
        there, create = test_ops.resource_initialized_op(handle), test_ops.resource_create_op(handle)
        with pytest.raises(tf.errors.NotFoundError):
            sess.run(test_ops.resource_using_op(handle))
        assert not sess.run(there)
        sess.run(create)
        assert sess.run(there)
        sess.run(test_ops.resource_using_op(handle))
        with pytest.raises(tf.errors.AlreadyExistsError):
            sess.run(create)
