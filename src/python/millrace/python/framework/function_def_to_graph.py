# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversion of functions to graphs."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import importer, op_def_registry, ops, tensor_shape, versions
from millrace.python.framework.func_graph import FuncGraph


def function_def_to_graph(fdef: Any, input_shapes: Any = None, copy_functions: bool = True) -> FuncGraph:
    """The body of a FunctionDef as a FuncGraph.

    Args:
      fdef: the FunctionDef.
      input_shapes: shapes of the arguments.
      copy_functions: whether the functions of the default graph are copied.

    Raises:
      ValueError: another number of shapes than of arguments.
    """
    del copy_functions  # a FuncGraph uses those of the outer graph
    graph = FuncGraph(fdef.signature.name)
    shapes = None
    if input_shapes is not None:
        shapes = [
            s if isinstance(s, tensor_shape.TensorShape) else tensor_shape.TensorShape(s)
            for s in input_shapes
        ]
    graph_def, names = function_def_to_graph_def(fdef, shapes)
    with graph.as_default():
        # A node may be colocated with a captured tensor, which is an argument here.
        importer.import_graph_def_for_function(graph_def, name="")
        graph.inputs = [graph.get_tensor_by_name(arg.name + ":0") for arg in fdef.signature.input_arg]
        graph.outputs = [
            graph.get_tensor_by_name(names[fdef.ret[arg.name]]) for arg in fdef.signature.output_arg
        ]
        graph.control_outputs = [
            graph.get_operation_by_name(fdef.control_ret[name]) for name in fdef.signature.control_output
        ]
    return graph


def _output_names(node: Any) -> list[tuple[str, int]]:
    """(name, number of tensors) of the outputs of a node."""
    op_def = op_def_registry.get(node.op)
    if op_def is None:
        function = ops.get_default_graph()._get_function(node.op)
        if function is None:
            raise ValueError("Op or function '%s' is not registered" % node.op)
        op_def = function.definition.signature
    outputs = []
    for arg in op_def.output_arg:
        count = 1
        if arg.number_attr:
            count = node.attr[arg.number_attr].i
        elif arg.type_list_attr:
            count = len(node.attr[arg.type_list_attr].list.type)
        outputs.append((arg.name, count))
    return outputs


def function_def_to_graph_def(
    fdef: Any, input_shapes: Any = None, copy_functions: bool = True
) -> tuple[Any, Any]:
    """The body of a FunctionDef as a GraphDef with placeholders for the arguments.

    Returns:
      The GraphDef, and a dict: names of tensors as the FunctionDef has them ("node:output:0") -> in the GraphDef.
    """
    from millrace.core.framework import attr_value_pb2, graph_pb2

    graph_def = graph_pb2.GraphDef()
    graph_def.versions.producer = versions.GRAPH_DEF_VERSION
    if input_shapes and len(input_shapes) != len(fdef.signature.input_arg):
        raise ValueError(
            "Length of input_shapes must match the number of input_args. len(input_shapes): {} len(input_arg): {}".format(
                len(input_shapes), len(fdef.signature.input_arg)
            )
        )
    if copy_functions:
        ops.get_default_graph()._copy_functions_to_graph_def(graph_def, 0)
    names: dict[str, str] = {}
    for i, arg in enumerate(fdef.signature.input_arg):
        node = graph_def.node.add(name=arg.name, op="Placeholder")
        node.attr["dtype"].type = arg.type
        shape = input_shapes[i] if input_shapes else tensor_shape.TensorShape(None)
        node.attr["shape"].CopyFrom(attr_value_pb2.AttrValue(shape=shape.as_proto()))
        names[arg.name] = "{}:{}".format(arg.name, 0)
    graph_def.node.extend(fdef.node_def)
    for node in fdef.node_def:
        index = 0
        for name, count in _output_names(node):
            for i in range(count):
                names["{}:{}:{}".format(node.name, name, i)] = "{}:{}".format(node.name, index)
                index += 1
    for node in graph_def.node:
        for i, name in enumerate(node.input):
            if not name.startswith("^"):
                node.input[i] = names[name]
    return graph_def, names
