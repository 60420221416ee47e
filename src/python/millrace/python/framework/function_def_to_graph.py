# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs of FunctionDefs."""
from __future__ import annotations

from typing import Any

from millrace.core.framework import graph_pb2
from millrace.python.framework import ops, tensor_shape


def function_def_to_graph_def(fdef: Any, input_shapes: Any = None) -> tuple[Any, dict[str, str]]:
    """A GraphDef with the body of a function, and the tensors of it by their names in the function.

    Args:
      fdef: the FunctionDef.
      input_shapes: shapes of the arguments, or None.

    Raises:
      ValueError: if there is no shape for an argument, or an op is not known.
    """
    graph_def = graph_pb2.GraphDef()
    default_graph = ops.get_default_graph()
    if input_shapes and len(input_shapes) != len(fdef.signature.input_arg):
        raise ValueError(
            "Length of input_shapes must match the number of input_args. len(input_shapes): {} len(input_arg): {}".format(
                len(input_shapes), len(fdef.signature.input_arg)
            )
        )
    names: dict[str, str] = {}
    for i, arg in enumerate(fdef.signature.input_arg):
        node = graph_def.node.add(name=arg.name, op="Placeholder")
        node.attr["dtype"].type = arg.type
        if input_shapes and input_shapes[i] is not None:
            shape = input_shapes[i]
            node.attr["shape"].shape.CopyFrom(tensor_shape.as_shape(shape).as_proto())
        names[arg.name] = "%s:0" % arg.name
    graph_def.node.extend(fdef.node_def)
    for node in fdef.node_def:
        op_def = default_graph._get_op_def(node.op)
        at = 0
        for arg in op_def.output_arg:
            count = _count(node, arg)
            for i in range(count):
                names["%s:%s:%d" % (node.name, arg.name, i)] = "%s:%d" % (node.name, at)
                at += 1
        names["^" + node.name] = "^" + node.name
    for function in default_graph._functions.values():
        graph_def.library.function.add().CopyFrom(function.definition)
    for node in graph_def.node[len(fdef.signature.input_arg) :]:
        for i, name in enumerate(node.input):
            node.input[i] = name if name.startswith("^") else names[name]
    return graph_def, names


def _count(node: Any, arg: Any) -> int:
    if arg.number_attr:
        return int(node.attr[arg.number_attr].i)
    if arg.type_list_attr:
        return len(node.attr[arg.type_list_attr].list.type)
    return 1


def function_def_to_graph(fdef: Any, input_shapes: Any = None) -> Any:
    """A FuncGraph of a FunctionDef."""
    from millrace.python.framework import func_graph, importer

    graph = func_graph.FuncGraph(fdef.signature.name)
    if input_shapes is None:
        input_shapes = [None] * len(fdef.signature.input_arg)
    graph_def, names = function_def_to_graph_def(fdef, input_shapes)
    with graph.as_default():
        importer.import_graph_def(graph_def, name="")
        graph.inputs = [graph.get_tensor_by_name(arg.name + ":0") for arg in fdef.signature.input_arg]
        graph.outputs = [graph.get_tensor_by_name(names[fdef.ret[arg.name]]) for arg in fdef.signature.output_arg]
    return graph


def is_function(fname: str) -> bool:
    """Whether the default graph has a function with this name."""
    return ops.get_default_graph()._is_function(fname)


