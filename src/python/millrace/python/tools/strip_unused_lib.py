# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Removes the nodes of a graph that given outputs do not need."""
from __future__ import annotations

import copy
from typing import Any

from millrace.core.framework import attr_value_pb2, graph_pb2, node_def_pb2
from millrace.python.framework import graph_util
from millrace.python.platform import gfile


def strip_unused(
    input_graph_def: Any, input_node_names: Any, output_node_names: Any, placeholder_type_enum: Any
) -> Any:
    """A GraphDef with placeholders for the inputs and the other nodes that the outputs need.

    Args:
      input_graph_def: the GraphDef.
      input_node_names: names of nodes that become placeholders.
      output_node_names: names of nodes that stay.
      placeholder_type_enum: type of the placeholders, or a list with one for each.

    Raises:
      ValueError: an input is no node of the graph, or is named with ':'.
    """
    for name in input_node_names:
        if ":" in name:
            raise ValueError("Name '%s' appears to refer to a Tensor, not a Operation." % name)
    not_found = set(input_node_names)
    inputs_replaced = graph_pb2.GraphDef()
    for node in input_graph_def.node:
        if node.name not in input_node_names:
            inputs_replaced.node.add().CopyFrom(copy.deepcopy(node))
            continue
        not_found.remove(node.name)
        placeholder = node_def_pb2.NodeDef(op="Placeholder", name=node.name)
        number = placeholder_type_enum
        if isinstance(number, list):
            number = number[list(input_node_names).index(node.name)]
        placeholder.attr["dtype"].CopyFrom(attr_value_pb2.AttrValue(type=number))
        if "_output_shapes" in node.attr:
            placeholder.attr["_output_shapes"].CopyFrom(node.attr["_output_shapes"])
        if "shape" in node.attr:
            placeholder.attr["shape"].CopyFrom(node.attr["shape"])
        inputs_replaced.node.extend([placeholder])
    if not_found:
        raise KeyError("The following input nodes were not found: %s" % not_found)
    return graph_util.extract_sub_graph(inputs_replaced, output_node_names)


def strip_unused_from_files(
    input_graph: str, input_binary: bool, output_graph: str, output_binary: bool, input_node_names: str,
    output_node_names: str, placeholder_type_enum: Any,
) -> Any:  # fmt: skip
    """`strip_unused` with files; names are separated by commas. -1 where a file or argument is missing."""
    from google.protobuf import text_format

    if not gfile.Exists(input_graph):
        print("Input graph file '" + input_graph + "' does not exist!")
        return -1
    if not output_node_names:
        print("You need to supply the name of a node to --output_node_names.")
        return -1
    input_graph_def = graph_pb2.GraphDef()
    with gfile.GFile(input_graph, "rb" if input_binary else "r") as f:
        if input_binary:
            input_graph_def.ParseFromString(f.read())
        else:
            text_format.Merge(f.read(), input_graph_def)
    made = strip_unused(
        input_graph_def, input_node_names.split(","), output_node_names.split(","), placeholder_type_enum
    )
    with gfile.GFile(output_graph, "wb" if output_binary else "w") as f:
        f.write(made.SerializeToString() if output_binary else text_format.MessageToString(made))
    print("%d ops in the final graph." % len(made.node))
    return made
