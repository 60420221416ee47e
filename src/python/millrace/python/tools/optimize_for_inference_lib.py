# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizes graphs for inference: removes nodes of training, folds batch norms into convolutions."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.core.framework import attr_value_pb2, graph_pb2, node_def_pb2
from millrace.python.framework import dtypes, graph_util, tensor_util
from millrace.python.platform import tf_logging
from millrace.python.tools import strip_unused_lib

# The parameter of each input, by op.
INPUT_ORDER = {
    "BatchNormWithGlobalNormalization": ["conv_op", "mean_op", "var_op", "beta_op", "gamma_op"],
    "FusedBatchNorm": ["conv_op", "gamma_op", "beta_op", "mean_op", "var_op"],
    "FusedBatchNormV3": ["conv_op", "gamma_op", "beta_op", "mean_op", "var_op"],
}
EPSILON_ATTR = {
    "BatchNormWithGlobalNormalization": "variance_epsilon",
    "FusedBatchNorm": "epsilon",
    "FusedBatchNormV3": "epsilon",
}


def optimize_for_inference(
    input_graph_def: Any, input_node_names: Any, output_node_names: Any, placeholder_type_enum: Any,
    toco_compatible: bool = False,
) -> Any:  # fmt: skip
    """Returns a smaller GraphDef that computes the same outputs.

    Args:
      input_graph_def: the GraphDef of a trained model whose variables are constants.
      input_node_names: names of nodes that become placeholders.
      output_node_names: names of nodes that stay.
      placeholder_type_enum: type of the placeholders, or a list with one for each.
      toco_compatible: ignored, since resizing and padding are never fused.
    """
    del toco_compatible
    ensure_graph_is_valid(input_graph_def)
    made = strip_unused_lib.strip_unused(
        input_graph_def, input_node_names, output_node_names, placeholder_type_enum
    )
    made = graph_util.remove_training_nodes(made, output_node_names)
    made = fold_batch_norms(made)
    ensure_graph_is_valid(made)
    return made


def ensure_graph_is_valid(graph_def: Any) -> None:
    """Raises ValueError if a name occurs twice, or an input is missing."""
    names = {}
    for node in graph_def.node:
        if node.name in names:
            raise ValueError("Duplicate node names detected for ", node.name)
        names[node.name] = node
    for node in graph_def.node:
        for input_name in node.input:
            if node_name_from_input(input_name) not in names:
                raise ValueError("Input for ", node.name, " not found: ", node_name_from_input(input_name))


def node_name_from_input(node_name: str) -> str:
    """The name of the node of an input: without '^' and ':1'."""
    if node_name.startswith("^"):
        node_name = node_name[1:]
    base, colon, index = node_name.rpartition(":")
    return base if colon and index.isdigit() else node_name


def node_from_map(node_map: dict[str, Any], name: str) -> Any:
    """The node of an input; ValueError if there is none."""
    stripped = node_name_from_input(name)
    if stripped not in node_map:
        raise ValueError("No node named '%s' found in map." % name)
    return node_map[stripped]


def values_from_const(node_def: Any) -> Any:
    """The array of a Const; ValueError for another node."""
    if node_def.op != "Const":
        raise ValueError("Node named '%s' should be a Const op for values_from_const." % node_def.name)
    return tensor_util.MakeNdarray(node_def.attr["value"].tensor)


def scale_after_normalization(node: Any) -> bool:
    """Whether a batch norm multiplies by gamma."""
    return node.attr["scale_after_normalization"].b if node.op == "BatchNormWithGlobalNormalization" else True


def _const(name: str, values: Any, like: Any) -> Any:
    node = node_def_pb2.NodeDef(op="Const", name=name)
    node.attr["dtype"].CopyFrom(like.attr["dtype"])
    tensor = tensor_util.make_tensor_proto(values, values.dtype.type, values.shape)
    node.attr["value"].CopyFrom(attr_value_pb2.AttrValue(tensor=tensor))
    return node


class _Fold:
    """A batch norm that follows a convolution with constant weights; raises ValueError for others."""

    def __init__(self, node: Any, nodes: dict[str, Any]) -> None:
        self.node = node
        parts = {key: node.input[i] for i, key in enumerate(INPUT_ORDER[node.op])}
        self.conv = node_from_map(nodes, parts["conv_op"])
        if self.conv.op not in ("Conv2D", "DepthwiseConv2dNative"):
            raise ValueError("Didn't find expected Conv2D or DepthwiseConv2dNative input to '%s'" % node.name)
        self.weights = node_from_map(nodes, self.conv.input[1])
        self.parts = [
            node_from_map(nodes, parts[key]) for key in ("mean_op", "var_op", "beta_op", "gamma_op")
        ]
        if self.weights.op != "Const" or any(part.op != "Const" for part in self.parts):
            raise ValueError(
                "Didn't find expected Const inputs of '%s'. Did you run freeze_graph first?" % node.name
            )
        if node.attr["is_training"].b:
            raise ValueError("'%s' computes its moments itself" % node.name)
        self._compute()

    def _compute(self) -> None:
        weights = values_from_const(self.weights)
        mean, var, beta, gamma = (values_from_const(part) for part in self.parts)
        channels = weights.shape[3] if self.conv.op == "Conv2D" else weights.shape[2] * weights.shape[3]
        if any(value.shape != (channels,) for value in (mean, var, beta, gamma)):
            raise ValueError("Incorrect shape for mean, variance, offset or scale of '%s'" % self.node.name)
        epsilon = self.node.attr[EPSILON_ATTR[self.node.op]].f
        scale = 1.0 / np.vectorize(math.sqrt)(var + epsilon)
        if scale_after_normalization(self.node):
            scale = scale * gamma
        self.offset = ((-mean * scale) + beta).astype(weights.dtype)
        shape = (1, 1, 1, channels) if self.conv.op == "Conv2D" else (1, 1) + weights.shape[2:]
        self.scaled = (weights * scale.reshape(shape)).astype(weights.dtype)

    def nodes(self) -> list[Any]:
        """The nodes that replace the convolution and the batch norm."""
        offset_name = self.conv.name + "_bn_offset"
        conv = node_def_pb2.NodeDef()
        conv.CopyFrom(self.conv)
        bias_add = node_def_pb2.NodeDef(op="BiasAdd", name=self.node.name)
        bias_add.attr["T"].CopyFrom(self.conv.attr["T"])
        bias_add.attr["data_format"].CopyFrom(self.conv.attr["data_format"])
        bias_add.input.extend([conv.name, offset_name])
        offset = _const(offset_name, self.offset, self.parts[0])
        return [_const(self.weights.name, self.scaled, self.weights), conv, offset, bias_add]


def fold_batch_norms(input_graph_def: Any) -> Any:
    """A GraphDef in which batch norms after convolutions are part of the weights and a BiasAdd."""
    nodes = {}
    uses: dict[str, int] = {}
    for node in input_graph_def.node:
        if node.name in nodes:
            raise ValueError("Duplicate node names detected for ", node.name)
        nodes[node.name] = node
        for name in node.input:
            uses[node_name_from_input(name)] = uses.get(node_name_from_input(name), 0) + 1
    skipped: set[str] = set()
    added: list[Any] = []
    for node in input_graph_def.node:
        if node.op not in INPUT_ORDER:
            continue
        try:
            fold = _Fold(node, nodes)
        except ValueError as e:
            tf_logging.warning(str(e))
            continue
        if uses[fold.conv.name] > 1 or uses[fold.weights.name] > 1:
            tf_logging.warning("'%s' or its weights are used by others too" % fold.conv.name)
            continue
        skipped |= {node.name, fold.weights.name, fold.conv.name}
        skipped |= {part.name for part in fold.parts if uses[part.name] == 1}
        added += fold.nodes()
    result = graph_pb2.GraphDef()
    for node in input_graph_def.node:
        if node.name not in skipped:
            result.node.add().CopyFrom(node)
    result.node.extend(added)
    result.versions.CopyFrom(input_graph_def.versions)
    result.library.CopyFrom(input_graph_def.library)
    return result


def fuse_resize_and_conv(input_graph_def: Any, output_node_names: Any) -> Any:
    """Returns the GraphDef: there is no fused operation of resize, pad and convolution."""
    del output_node_names
    return input_graph_def


def placeholder_types(text: str) -> Any:
    """Parses comma-separated numbers of types; returns a list, or the number if there is one."""
    numbers = [dtypes.as_dtype(int(n) if n.isdigit() else n).as_datatype_enum for n in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers
