# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions on GraphDefs: extraction of subgraphs, freezing of variables, removal of training nodes."""
from __future__ import annotations

import collections
import copy
from typing import Any

from millrace.core.framework import attr_value_pb2, graph_pb2, node_def_pb2
from millrace.python.framework import dtypes, ops, tensor_util
from millrace.python.platform import tf_logging as logging

_VARIABLE_OPS = {"Assign", "AssignAdd", "AssignSub", "Queue", "ScatterAdd", "ScatterSub", "ScatterUpdate", "TruncatedNormal",
                 "Variable", "VariableV2"}  # fmt: skip
_CONTROL_FLOW_OP_NAMES_OR_IDENTITY = ["Switch", "Enter", "Exit", "Identity", "Merge", "NextIteration"]


def _is_variable_op(op: str) -> bool:
    """Whether an op holds or changes variables."""
    return op in _VARIABLE_OPS


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node (Operation or NodeDef) must be on a CPU, by its op, or as one that uses variables."""
    if isinstance(node, ops.Operation):
        node_def = node.node_def
    else:
        assert isinstance(node, node_def_pb2.NodeDef)
        node_def = node
    if pin_variables_on_cpu and _is_variable_op(node_def.op):
        return True
    int32 = dtypes.int32.as_datatype_enum
    if node_def.op == "Const":
        return node_def.attr["dtype"].type in (dtypes.string.as_datatype_enum, int32)
    if node_def.op in ("DynamicStitch", "ParallelDynamicStitch"):
        return bool(node_def.attr["T"].type == int32)
    return node_def.op == "Cast" and bool(node_def.attr["SrcT"].type == int32)


def set_cpu0(device_string: str) -> str:
    """The name of CPU 0 of the task that a device belongs to."""
    from millrace.python.framework import device as pydev

    parsed = pydev.DeviceSpec.from_string(device_string)
    return parsed.replace(device_type="CPU", device_index=0).to_string()


def _node_name(n: str) -> str:
    """The name of the node behind an input: without "^" and ":1"."""
    return n[1:] if n.startswith("^") else n.split(":")[0]


def _extract_graph_summary(graph_def: Any) -> tuple[dict[str, list[str]], dict[str, Any], dict[str, int]]:
    """Inputs by node, nodes by name, and their positions."""
    inputs: dict[str, list[str]] = {}
    nodes: dict[str, Any] = {}
    positions: dict[str, int] = {}
    for position, node in enumerate(graph_def.node):
        name = _node_name(node.name)
        nodes[name] = node
        inputs[name] = [_node_name(x) for x in node.input]
        # Nodes of one loop stay together: they depend on what enters it.
        for group in node.attr["_class"].list.s if "_class" in node.attr else ():
            text = group.decode()
            if text.startswith("loc:@") and text[5:] not in inputs[name]:
                inputs[name].append(text[5:])
        positions[name] = position
    return inputs, nodes, positions


def _assert_nodes_are_present(name_to_node: dict[str, Any], nodes: Any) -> None:
    for d in nodes:
        assert d in name_to_node, "%s is not in graph" % d


def _bfs_for_reachable_nodes(target_nodes: Any, name_to_input_name: dict[str, list[str]]) -> set[str]:
    """The names of all nodes that some nodes need."""
    reachable: set[str] = set()
    waiting = collections.deque(target_nodes)
    while waiting:
        name = waiting.popleft()
        if name not in reachable:
            reachable.add(name)
            waiting.extend(name_to_input_name.get(name, ()))
    return reachable


def extract_sub_graph(graph_def: Any, dest_nodes: Any) -> Any:
    """The part of a GraphDef that some nodes need.

    Args:
      graph_def: the GraphDef.
      dest_nodes: a list of names.

    Raises:
      TypeError: if `graph_def` is no GraphDef or `dest_nodes` a string.
    """
    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError("graph_def must be a graph_pb2.GraphDef proto.")
    if isinstance(dest_nodes, str):
        raise TypeError("dest_nodes must be a list.")
    inputs, nodes, positions = _extract_graph_summary(graph_def)
    _assert_nodes_are_present(nodes, dest_nodes)
    kept = sorted(
        (n for n in _bfs_for_reachable_nodes(dest_nodes, inputs) if n in nodes), key=lambda n: positions[n]
    )
    out = graph_pb2.GraphDef()
    for name in kept:
        out.node.extend([copy.deepcopy(nodes[name])])
    out.library.CopyFrom(graph_def.library)
    out.versions.CopyFrom(graph_def.versions)
    return out


def tensor_shape_from_node_def_name(graph: Any, input_name: str) -> Any:
    """The shape of a tensor of a graph, by name."""
    if not isinstance(graph, ops.Graph):
        raise TypeError("graph must be a tf.Graph, not %r" % (graph,))
    canonical = input_name if ":" in input_name else input_name + ":0"
    return graph.get_tensor_by_name(canonical).get_shape()


def convert_variables_to_constants(
    sess: Any, input_graph_def: Any, output_node_names: Any, variable_names_whitelist: Any = None,
    variable_names_blacklist: Any = None,
) -> Any:  # fmt: skip
    """Replaces the variables of a graph by constants with the values that they have in a session.

    Args:
      sess: the session.
      input_graph_def: the GraphDef.
      output_node_names: names of the nodes that are needed.
      variable_names_whitelist: names of the variables that are replaced; None: all.
      variable_names_blacklist: names of variables that are not replaced.

    Returns:
      A GraphDef with the part of the graph that `output_node_names` need.
    """
    inference_graph = extract_sub_graph(input_graph_def, output_node_names)
    names = []
    handles: dict[str, int] = {}  # name of a resource variable -> its type
    for node in inference_graph.node:
        if variable_names_whitelist is not None and node.name not in variable_names_whitelist:
            continue
        if variable_names_blacklist is not None and node.name in variable_names_blacklist:
            continue
        if node.op in ("Variable", "VariableV2"):
            names.append(node.name)
        elif node.op == "VarHandleOp":
            names.append(node.name)
            handles[node.name] = node.attr["dtype"].type
    fetches = [name + ("/Read/ReadVariableOp:0" if name in handles else ":0") for name in names]
    values = _values_of(sess, names, fetches, handles)
    logging.info("Froze %d variables.", len(values))
    return replace_variables(inference_graph, values, handles)


def replace_variables(inference_graph: Any, values: dict[str, Any], handles: dict[str, int]) -> Any:
    """A GraphDef with constants instead of variables.

    Args:
      inference_graph: the GraphDef.
      values: NumPy arrays by the names of the variables.
      handles: the types of the resource variables, by name.
    """
    nodes = {node.name: node for node in inference_graph.node}
    out = graph_pb2.GraphDef()
    converted = 0
    for node in inference_graph.node:
        new = out.node.add()
        if node.name in values:
            _make_constant(new, node, values[node.name])
            converted += 1
        elif node.op == "ReadVariableOp" and _handle_of(node.input[0], nodes) in values:
            # The handle is a constant now, and reads become identities of it.
            new.op, new.name = "Identity", node.name
            new.attr["T"].CopyFrom(node.attr["dtype"])
            new.input.extend(node.input)
            new.device = node.device
        elif node.op == "ResourceGather" and _handle_of(node.input[0], nodes) in values:
            _make_gather(out, new, node)
        else:
            new.CopyFrom(node)
            if (
                node.op in _CONTROL_FLOW_OP_NAMES_OR_IDENTITY
                and node.input
                and _handle_of(node.name, nodes) in values
            ):
                new.attr["T"].type = handles.get(_handle_of(node.name, nodes), node.attr["T"].type)
    out.library.CopyFrom(inference_graph.library)
    out.versions.CopyFrom(inference_graph.versions)
    logging.info("Converted %d variables to const ops.", converted)
    return out


def _values_of(sess: Any, names: list[str], fetches: list[str], handles: dict[str, int]) -> dict[str, Any]:
    if not names:
        return {}
    graph = sess.graph
    wanted = []
    for name, fetch in zip(names, fetches):
        if name in handles and fetch.split(":")[0] not in graph._nodes_by_name:
            wanted.append(_read_of(graph, name))
        else:
            wanted.append(fetch)
    return dict(zip(names, sess.run(wanted)))


def _read_of(graph: Any, name: str) -> Any:
    """A tensor of the graph that has the value of a resource variable."""
    handle = graph.get_tensor_by_name(name + ":0")
    for op in handle.consumers():
        if op.type == "ReadVariableOp":
            return op.outputs[0]
    from millrace.python.ops import gen_resource_variable_ops

    with graph.as_default():
        return gen_resource_variable_ops.read_variable_op(handle, handle.op.get_attr("dtype"))


def _handle_of(name: str, nodes: dict[str, Any]) -> str:
    """The name of the variable whose handle a node forwards."""
    name = _node_name(name)
    while name in nodes and nodes[name].op in _CONTROL_FLOW_OP_NAMES_OR_IDENTITY and nodes[name].input:
        name = _node_name(nodes[name].input[0])
    node = nodes.get(name)
    return name if node is not None and node.op == "VarHandleOp" else ""


def _make_constant(new: Any, node: Any, data: Any) -> None:
    dtype = node.attr["dtype"]
    new.op, new.name = "Const", node.name
    new.attr["dtype"].CopyFrom(dtype)
    tensor = tensor_util.make_tensor_proto(data, dtype=dtype.type, shape=data.shape)
    new.attr["value"].CopyFrom(attr_value_pb2.AttrValue(tensor=tensor))


def _make_gather(out: Any, new: Any, node: Any) -> None:
    axis = node_def_pb2.NodeDef(op="Const", name=node.name + "/axis")
    axis.attr["dtype"].type = dtypes.int32.as_datatype_enum
    axis.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(0, dtypes.int32, []))
    # Nodes are in topological order: the axis takes the position of the gather, which follows.
    new.CopyFrom(axis)
    new = out.node.add()
    new.op, new.name = "GatherV2", node.name
    new.input.extend([node.input[0], node.input[1], axis.name])
    new.attr["Tparams"].CopyFrom(node.attr["dtype"])
    new.attr["Tindices"].CopyFrom(node.attr["Tindices"])
    new.attr["Taxis"].type = dtypes.int32.as_datatype_enum
    if "_class" in node.attr:
        new.attr["_class"].CopyFrom(node.attr["_class"])


def remove_training_nodes(input_graph: Any, protected_nodes: Any = None) -> Any:
    """Removes nodes that inference does not need: CheckNumerics and identities.

    Args:
      input_graph: the GraphDef.
      protected_nodes: names of nodes that are kept.
    """
    if not isinstance(input_graph, graph_pb2.GraphDef):
        raise TypeError("graph_def must be a graph_pb2.GraphDef proto.")
    protected = set(protected_nodes or ())
    checks = {n.name: n for n in input_graph.node if n.op == "CheckNumerics" and n.name not in protected}
    kept = []
    for node in input_graph.node:
        if node.name in checks:
            continue
        new = node_def_pb2.NodeDef()
        new.CopyFrom(node)
        del new.input[:]
        new.input.extend(_past_checks(name, checks) for name in node.input)
        kept.append(new)
    return _without_identities(input_graph, kept, protected)


def _past_checks(name: str, checks: dict[str, Any]) -> str:
    while not name.startswith("^") and _node_name(name) in checks:
        name = checks[_node_name(name)].input[0]
    return name if not name.startswith("^") else "^" + _node_name(name)


def _without_identities(input_graph: Any, nodes: list[Any], protected: set[str]) -> Any:
    # Nodes with control edges must stay.
    with_controls = {node.name for node in nodes if any(i.startswith("^") for i in node.input)}
    controls = {i[1:] for node in nodes for i in node.input if i.startswith("^")}
    splice = {
        node.name: node.input[0]
        for node in nodes
        if node.op == "Identity" and node.name not in protected | with_controls | controls
    }

    def past(name: str) -> str:
        while not name.startswith("^") and _node_name(name) in splice:
            name = splice[_node_name(name)]
        return name

    out = graph_pb2.GraphDef()
    for node in nodes:
        if node.name in splice:
            continue
        new = out.node.add()
        new.CopyFrom(node)
        del new.input[:]
        new.input.extend(past(name) for name in node.input)
    out.library.CopyFrom(input_graph.library)
    out.versions.CopyFrom(input_graph.versions)
    return out
