# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The transforms of TransformGraph."""
from __future__ import annotations

import hashlib
from typing import Any, Callable

import numpy as np

from millrace.core.framework import attr_value_pb2, graph_pb2, node_def_pb2, tensor_shape_pb2, types_pb2
from millrace.python.framework import errors, graph_util, tensor_util


class Context:
    """The inputs and outputs of the graph, and the parameters of a transform."""

    def __init__(self, inputs: list[str], outputs: list[str], parameters: dict[str, list[str]]) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.parameters = parameters

    def all(self, name: str) -> list[str]:
        """All values of a parameter."""
        return self.parameters.get(name, [])

    def one(self, name: str, default: str | None = None) -> str:
        """The one value of a parameter."""
        values = self.all(name)
        if len(values) > 1:
            raise errors.InvalidArgumentError(
                None, None, "Expected a single %s parameter, but found %d occurrences" % (name, len(values))
            )
        if values:
            return values[0]
        if default is None:
            raise errors.InvalidArgumentError(None, None, "This transform needs the parameter '%s'" % name)
        return default

    def number(self, name: str, default: int) -> int:
        """The one value of a parameter, a number."""
        try:
            return int(self.one(name, str(default)))
        except ValueError:
            raise errors.InvalidArgumentError(
                None, None, "Couldn't interpret the %s argument as a number:%s" % (name, self.one(name))
            ) from None

    def flag(self, name: str, default: bool = False) -> bool:
        """The one value of a parameter, true or false."""
        return self.one(name, str(default)).lower() in ("true", "1", "t")

    @property
    def kept(self) -> set[str]:
        """The nodes that stay."""
        return {_node_of(name) for name in self.inputs + self.outputs}


Transform = Callable[[Any, Context], Any]
TRANSFORMS: dict[str, Transform] = {}


def transform(function: Transform) -> Transform:
    """A decorator that makes a function the transform of its name."""
    TRANSFORMS[function.__name__] = function
    return function


def _node_of(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def _matches(node: Any, pattern: str) -> bool:
    return pattern == "*" or node.op == pattern


def _is_set(node: Any, attribute: str) -> bool:
    return attribute in node.attr and bool(node.attr[attribute].b)


def _with_nodes(graph: Any, nodes: list[Any]) -> Any:
    result = graph_pb2.GraphDef()
    result.versions.CopyFrom(graph.versions)
    result.library.CopyFrom(graph.library)
    result.node.extend(nodes)
    return result


def _rename_inputs(nodes: list[Any], names: dict[str, str]) -> None:
    """Makes inputs of others: names of nodes by names of nodes that go, through others that go."""
    for node in nodes:
        for i, name in enumerate(node.input):
            target = name
            while _node_of(target) in names:
                replacement = names[_node_of(target)]
                target = "^" + _node_of(replacement) if target.startswith("^") else replacement
            node.input[i] = target


def _constant(name: str, value: Any) -> Any:
    node = node_def_pb2.NodeDef(op="Const", name=name)
    tensor = tensor_util.make_tensor_proto(value)
    node.attr["dtype"].type = tensor.dtype
    node.attr["value"].CopyFrom(attr_value_pb2.AttrValue(tensor=tensor))
    return node


@transform
def strip_unused_nodes(graph: Any, context: Context) -> Any:
    """Makes inputs placeholders of a type and a shape; nodes that no output needs go."""
    types = {name: context.one("type", "") for name in context.inputs}
    shapes = {name: context.one("shape", "") for name in context.inputs}
    for kind, found in (("type", types), ("shape", shapes)):
        for name, value in zip(context.all("name"), context.all(kind + "_for_name")):
            found[name] = value
    nodes = []
    for node in graph.node:
        if node.name not in types:
            nodes.append(node)
            continue
        placeholder = node_def_pb2.NodeDef(op="Placeholder", name=node.name)
        old = node.attr["dtype"] if "dtype" in node.attr else node.attr["T"]
        placeholder.attr["dtype"].CopyFrom(old)
        if types[node.name]:
            number = types_pb2.DataType.Value("DT_" + types[node.name].upper())
            placeholder.attr["dtype"].type = number
        if shapes[node.name]:
            shape = placeholder.attr["shape"].shape
            shape.CopyFrom(tensor_shape_pb2.TensorShapeProto())
            for size in shapes[node.name].split(","):
                shape.dim.add(size=int(size))
        elif "shape" in node.attr:
            placeholder.attr["shape"].CopyFrom(node.attr["shape"])
        nodes.append(placeholder)
    return graph_util.extract_sub_graph(_with_nodes(graph, nodes), [_node_of(n) for n in context.outputs])


@transform
def remove_nodes(graph: Any, context: Context) -> Any:
    """Takes out nodes of some ops; what used them uses their first input."""
    ops = context.all("op")
    most = context.number("max_inputs", 1)
    names = {}
    for node in graph.node:
        data = [name for name in node.input if not name.startswith("^")]
        removable = node.op in ops and node.name not in context.kept and 1 <= len(data) <= most
        if removable and len(data) == len(node.input):
            names[node.name] = data[0]
    nodes = [node for node in graph.node if node.name not in names]
    _rename_inputs(nodes, names)
    return _with_nodes(graph, nodes)


@transform
def fold_constants(graph: Any, context: Context) -> Any:
    """Computes what depends on constants alone."""
    from millrace.python.client import session
    from millrace.python.framework import importer, ops

    kept = {_node_of(name) for name in context.inputs}
    nodes = {node.name: node for node in graph.node}
    folded: dict[str, Any] = {}
    with ops.Graph().as_default() as made:
        importer.import_graph_def(graph, name="")
        constant: set[str] = set()
        for op in made.get_operations():
            controlled = bool(op.control_inputs)
            stateful = op.op_def.is_stateful or op.type in ("Placeholder", "PlaceholderWithDefault")
            inputs_known = all(x.op.name in constant for x in op.inputs)
            if op.name not in kept and inputs_known and not controlled and not stateful and op.outputs:
                if op.inputs or op.type == "Const":
                    constant.add(op.name)
        wanted = []
        for op in made.get_operations():
            if op.name not in constant or op.type == "Const" or len(op.outputs) != 1:
                continue
            used = [c for c in op.outputs[0].consumers() if c.name not in constant]
            if used or op.name in context.kept:
                wanted.append(op)
        with session.Session(graph=made) as sess:
            for op in wanted:
                try:
                    folded[op.name] = sess.run(op.outputs[0])
                except errors.OpError:
                    if not context.flag("ignore_errors"):
                        raise
    result = []
    for node in graph.node:
        result.append(_constant(node.name, folded[node.name]) if node.name in folded else nodes[node.name])
    if context.flag("clear_output_shapes", True):
        for node in result:
            if "_output_shapes" in node.attr:
                del node.attr["_output_shapes"]
    return graph_util.extract_sub_graph(_with_nodes(graph, result), [_node_of(n) for n in context.outputs])


@transform
def fold_batch_norms(graph: Any, context: Context) -> Any:
    """Multiplies constant weights by constants that the results of their convolutions are multiplied by."""
    nodes = {node.name: node for node in graph.node}
    uses: dict[str, int] = {}
    for node in graph.node:
        for name in node.input:
            uses[_node_of(name)] = uses.get(_node_of(name), 0) + 1
    names: dict[str, str] = {}
    for node in graph.node:
        if node.op != "Mul" or any(_node_of(name) not in nodes for name in node.input):
            continue
        parts: list[Any] = [nodes[_node_of(name)] for name in node.input[:2]]
        product, factor = parts
        if product.op not in ("Conv2D", "MatMul", "DepthwiseConv2dNative") or factor.op != "Const":
            continue
        weights = nodes.get(_node_of(product.input[1]))
        alone = weights is not None and uses[product.name] == 1 and uses[weights.name] == 1
        if weights is None or weights.op != "Const" or not alone or product.name in context.kept:
            continue
        old, scale = (tensor_util.MakeNdarray(n.attr["value"].tensor) for n in (weights, factor))
        shape = old.shape[-2:] if product.op == "DepthwiseConv2dNative" else old.shape[-1:]
        if scale.size != int(np.prod(shape)) or scale.ndim > 1 or _is_set(product, "transpose_b"):
            continue
        scaled = (old * scale.reshape(shape)).astype(old.dtype)
        nodes[weights.name] = _constant(weights.name, scaled)
        names[node.name] = product.name
    kept = [n for n in names if n in context.kept]
    result = []
    for node in graph.node:
        if node.name in names and node.name not in kept:
            continue
        if node.name in kept:
            node = node_def_pb2.NodeDef(op="Identity", name=node.name, input=[names.pop(node.name)])
            node.attr["T"].CopyFrom(nodes[node.name].attr["T"])
            result.append(node)
        else:
            result.append(nodes[node.name])
    _rename_inputs(result, names)
    return _with_nodes(graph, result)


@transform
def fold_old_batch_norms(graph: Any, context: Context) -> Any:
    """Makes batch norms after convolutions part of the weights and a BiasAdd."""
    from millrace.python.tools import optimize_for_inference_lib

    return optimize_for_inference_lib.fold_batch_norms(graph)


@transform
def remove_attribute(graph: Any, context: Context) -> Any:
    """Takes an attribute from all nodes of an op."""
    name, op = context.one("attribute_name"), context.one("op_name", "*")
    for node in graph.node:
        if _matches(node, op) and name in node.attr:
            del node.attr[name]
    return graph


@transform
def rename_attribute(graph: Any, context: Context) -> Any:
    """Gives an attribute of all nodes of an op another name."""
    old, new = context.one("old_attribute_name"), context.one("new_attribute_name")
    for node in graph.node:
        if _matches(node, context.one("op_name", "*")) and old in node.attr:
            value = attr_value_pb2.AttrValue()
            value.CopyFrom(node.attr[old])
            del node.attr[old]
            node.attr[new].CopyFrom(value)
    return graph


@transform
def rename_op(graph: Any, context: Context) -> Any:
    """Gives all nodes of an op another one."""
    old, new = context.one("old_op_name"), context.one("new_op_name")
    for node in graph.node:
        if node.op == old:
            node.op = new
    return graph


@transform
def rename_node(graph: Any, context: Context) -> Any:
    """Gives a node another name."""
    old, new = context.one("old_node_name"), context.one("new_node_name")
    if any(node.name == new for node in graph.node):
        raise errors.InvalidArgumentError(
            None, None, "A node with name: %s already exists in the graph." % new
        )
    for node in graph.node:
        node.name = new if node.name == old else node.name
    for node in graph.node:
        for i, name in enumerate(node.input):
            if _node_of(name) == old:
                node.input[i] = name.replace(old, new, 1)
    return graph


@transform
def set_device(graph: Any, context: Context) -> Any:
    """Sets the device of all nodes, or of those without one."""
    for node in graph.node:
        if not context.flag("if_default") or not node.device:
            node.device = context.one("device", "")
    return graph


@transform
def remove_device(graph: Any, context: Context) -> Any:
    """Takes the device from all nodes."""
    for node in graph.node:
        node.device = ""
    return graph


@transform
def remove_control_dependencies(graph: Any, context: Context) -> Any:
    """Takes out all control inputs."""
    for node in graph.node:
        data = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(data)
    return graph


@transform
def add_default_attributes(graph: Any, context: Context) -> Any:
    """Gives nodes the default values of attributes that they lack."""
    from millrace.python.framework import op_def_registry

    registered = op_def_registry.get_registered_ops()
    for node in graph.node:
        for attr in registered[node.op].attr if node.op in registered else ():
            if attr.HasField("default_value") and attr.name not in node.attr:
                node.attr[attr.name].CopyFrom(attr.default_value)
    return graph


@transform
def sort_by_execution_order(graph: Any, context: Context) -> Any:
    """Puts nodes behind those that they use."""
    nodes = {node.name: node for node in graph.node}
    order: list[Any] = []
    state: dict[str, int] = {}
    for root in graph.node:
        stack = [root.name]
        while stack:
            name = stack[-1]
            if state.get(name) == 2 or name not in nodes:
                stack.pop()
            elif state.get(name) == 1:
                state[name] = 2
                order.append(nodes[stack.pop()])
            else:
                state[name] = 1
                stack += [i for i in map(_node_of, nodes[name].input) if i not in state]
    return _with_nodes(graph, order)


@transform
def merge_duplicate_nodes(graph: Any, context: Context) -> Any:
    """Keeps one of nodes that compute the same, until there are none."""
    from millrace.python.framework import op_def_registry

    registered = op_def_registry.get_registered_ops()
    nodes = list(sort_by_execution_order(graph, context).node)
    while True:
        seen: dict[bytes, str] = {}
        names: dict[str, str] = {}
        for node in nodes:
            if node.name in context.kept or node.op not in registered or registered[node.op].is_stateful:
                continue
            plain = node_def_pb2.NodeDef()
            plain.CopyFrom(node)
            plain.name = ""
            key = hashlib.sha256(plain.SerializeToString(deterministic=True)).digest()
            if key in seen:
                names[node.name] = seen[key]
            seen.setdefault(key, node.name)
        if not names:
            return _with_nodes(graph, nodes)
        nodes = [node for node in nodes if node.name not in names]
        for node in nodes:
            for i, name in enumerate(node.input):
                if _node_of(name) in names:
                    node.input[i] = name.replace(_node_of(name), names[_node_of(name)], 1)


@transform
def obfuscate_names(graph: Any, context: Context) -> Any:
    """Gives short names to all nodes but inputs and outputs."""
    digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names: dict[str, str] = {}
    number = 0
    for node in graph.node:
        short = node.name
        while node.name not in context.kept and (short == node.name or short in context.kept):
            rest, short = number, ""
            while True:
                rest, digit = divmod(rest, len(digits))
                short = digits[digit] + short
                if rest == 0:
                    break
                rest -= 1
            number += 1
            if short == node.name:
                break
        names[node.name] = short
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = name.replace(_node_of(name), names[_node_of(name)], 1)
        node.name = names[node.name]
    return graph


def _large_weights(graph: Any, least: int) -> list[Any]:
    found = []
    for node in graph.node:
        if node.op == "Const" and node.attr["dtype"].type == types_pb2.DT_FLOAT:
            if tensor_util.MakeNdarray(node.attr["value"].tensor).size >= least:
                found.append(node)
    return found


@transform
def round_weights(graph: Any, context: Context) -> Any:
    """Rounds constants to `num_steps` values each, so that they compress well."""
    steps = context.number("num_steps", 256)
    for node in _large_weights(graph, 16):
        value = tensor_util.MakeNdarray(node.attr["value"].tensor)
        low, high = value.min(), value.max()
        if low < high:
            size = (high - low) / max(steps - 1, 1)
            value = (low + np.round((value - low) / size) * size).astype(value.dtype)
            node.attr["value"].CopyFrom(_constant("", value).attr["value"])
    return graph


@transform
def quantize_weights(graph: Any, context: Context) -> Any:
    """Keeps constants as bytes with their range, from which a Dequantize makes numbers again."""
    large = {node.name for node in _large_weights(graph, context.number("minimum_size", 1024))}
    nodes = []
    for node in graph.node:
        if node.name not in large:
            nodes.append(node)
            continue
        value = tensor_util.MakeNdarray(node.attr["value"].tensor)
        low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
        if low == high:
            high = low + 1.0
        quantized = np.round((value - low) / (high - low) * 255.0).clip(0, 255).astype(np.uint8)
        parts = [_constant(node.name + "_quantized_" + n, v) for n, v in
                 (("const", quantized), ("min", np.float32(low)), ("max", np.float32(high)))]  # fmt: skip
        parts[0].attr["dtype"].type = types_pb2.DT_QUINT8
        parts[0].attr["value"].tensor.dtype = types_pb2.DT_QUINT8
        whole = node_def_pb2.NodeDef(op="Dequantize", name=node.name, input=[part.name for part in parts])
        whole.attr["T"].type = types_pb2.DT_QUINT8
        whole.attr["mode"].s = b"MIN_FIRST"
        nodes += [*parts, whole]
    return _with_nodes(graph, nodes)
