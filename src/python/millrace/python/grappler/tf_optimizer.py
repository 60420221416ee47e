# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The optimisations of a graph before it runs, for programs that inspect optimised graphs."""
from __future__ import annotations

from typing import Any

from google.protobuf import message

from millrace.core.framework import attr_value_pb2, graph_pb2, variable_pb2
from millrace.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from millrace.python.framework import errors_impl, graph_util_impl, op_def_registry, ops, tensor_util

_MOST_BYTES = 10 << 20  # the maximum size of a folded constant in bytes
_KEPT_TYPES = frozenset(("Const", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault"))


def OptimizeGraph(  # noqa: N802
    config_proto: Any, metagraph: Any, verbose: bool = True, graph_id: bytes = b"graph_to_optimize", cluster: Any = None,
    strip_default_attributes: bool = False,
) -> Any:  # fmt: skip
    """Optimizes a meta graph: returns a GraphDef with the nodes that its fetches need, with constants folded.

    Args:
      config_proto: a ConfigProto or RewriterConfig; optimizers that are switched off are left out.
      metagraph: a MetaGraphDef. Its collection "train_op" and the outputs of its signatures are the fetches.
      verbose: not used.
      graph_id: not used.
      cluster: not used.
      strip_default_attributes: not used.

    Raises:
      TypeError: if `config_proto` or `metagraph` has another type.
      InvalidArgumentError: if the meta graph names no fetch.
    """
    if isinstance(config_proto, config_pb2.ConfigProto):
        rewriting = config_proto.graph_options.rewrite_options
    elif isinstance(config_proto, rewriter_config_pb2.RewriterConfig):
        rewriting = config_proto
    else:
        raise TypeError("Expected config_proto to be a ConfigProto, saw type %s" % type(config_proto))
    if not isinstance(metagraph, meta_graph_pb2.MetaGraphDef):
        raise TypeError("Expected metagraph to be a MetaGraphDef, saw type %s" % type(metagraph))
    fetches = fetches_of(metagraph)
    if not fetches:
        raise errors_impl.InvalidArgumentError(None, None, "Could not find any fetch in the meta graph.")
    if rewriting.disable_meta_optimizer:
        return metagraph.graph_def
    off = rewriter_config_pb2.RewriterConfig.OFF
    kept = kept_nodes(metagraph)
    present = {node.name for node in metagraph.graph_def.node}
    needed = sorted((fetches | kept | _nodes_of_collections(metagraph)) & present)
    graph_def = graph_util_impl.extract_sub_graph(metagraph.graph_def, needed)
    if rewriting.constant_folding != off:
        graph_def = _folded(graph_def, kept)
        graph_def = graph_util_impl.extract_sub_graph(graph_def, needed)
    return graph_def


def fetches_of(metagraph: Any) -> set[str]:
    """The names of the nodes that a meta graph's "train_op" and signatures fetch."""
    names = (
        set(metagraph.collection_def["train_op"].node_list.value)
        if "train_op" in metagraph.collection_def
        else set()
    )
    for signature in metagraph.signature_def.values():
        names |= {info.name for info in signature.outputs.values() if info.name}
    return {graph_util_impl._node_name(name) for name in names}


def kept_nodes(metagraph: Any) -> set[str]:
    """Nodes that keep their names: those run by name, feeds, queues and their runners, and savers."""
    names: set[str] = set()
    for key in (
        "init_op",
        "main_op",
        "saved_model_main_op",
        "ready_op",
        "table_initializer",
        "report_uninitialized",
    ):
        if key in metagraph.collection_def:
            names |= set(metagraph.collection_def[key].node_list.value)
    for signature in metagraph.signature_def.values():
        names |= {info.name for info in signature.inputs.values() if info.name}
    saver = metagraph.saver_def
    names |= {
        name for name in (saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name) if name
    }
    return {graph_util_impl._node_name(name) for name in names}


def _nodes_of_collections(metagraph: Any) -> set[str]:
    """Nodes that are not removed: those that a collection names, and those with an attribute for that."""
    names: set[str] = set()
    for collection in metagraph.collection_def.values():
        names |= set(collection.node_list.value)
        for value in collection.bytes_list.value:
            names |= _names_of_variable(value)
    names = {graph_util_impl._node_name(name) for name in names}
    nodes = metagraph.graph_def.node
    return names | {
        n.name for n in nodes if "_grappler_do_not_remove" in n.attr and n.attr["_grappler_do_not_remove"].b
    }


def _names_of_variable(value: bytes) -> set[str]:
    """The names in a VariableDef except its snapshot; empty if the bytes are another message."""
    variable = variable_pb2.VariableDef()
    try:
        variable.ParseFromString(value)
    except message.DecodeError:
        return set()
    named = (variable.variable_name, variable.initializer_name, variable.initial_value_name)
    return {name for name in named if name}


def _constant_nodes(graph_def: Any, kept: set[str]) -> list[str]:
    """Nodes whose values depend on constants alone."""
    nodes = {node.name: node for node in graph_def.node}
    known: dict[str, bool] = {}

    def is_constant(node: Any) -> bool:
        op_def = op_def_registry.get(node.op)
        return (
            op_def is not None
            and not op_def.is_stateful
            and node.op not in _KEPT_TYPES
            and node.name not in kept
            and len(node.input) > 0
            and not any(a.type == "func" for a in op_def.attr)
            and not any(i.startswith("^") for i in node.input)
            and node.op not in ("Enter", "RefEnter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond")
            and not any(output.type == 20 or output.type == 21 for output in op_def.output_arg)  # handles
        )

    stack = [(name, False) for name in nodes]
    while stack:
        name, done = stack.pop()
        if name in known and not done:
            continue
        node = nodes[name]
        if not done and node.op == "Const":
            known[name] = not node.input
        elif not done:
            known[name] = False  # until its inputs are known to be constant; nodes in loops never are
            if is_constant(node):
                stack.append((name, True))
                stack.extend((graph_util_impl._node_name(i), False) for i in node.input)
        else:
            known[name] = all(known.get(graph_util_impl._node_name(i), False) for i in node.input)
    return [name for name, constant in known.items() if constant and nodes[name].op != "Const"]


def _folded(graph_def: Any, kept: set[str]) -> Any:
    """The graph with constants instead of the nodes that have one output and depend on constants alone."""
    from millrace.python.client import session
    from millrace.python.framework import importer

    names = _constant_nodes(graph_def, kept)
    if not names:
        return graph_def
    graph = ops.Graph()
    with graph.as_default():
        importer.import_graph_def(graph_def, name="")
    tensors = {
        name: graph.get_operation_by_name(name).outputs[0]
        for name in names
        if len(graph.get_operation_by_name(name).outputs) == 1
    }
    try:
        with session.Session(graph=graph) as sess:
            values = sess.run(tensors)
    except errors_impl.OpError:  # a node whose computation fails is kept
        return graph_def
    out = graph_pb2.GraphDef()
    out.CopyFrom(graph_def)
    for node in out.node:
        if node.name in values and values[node.name].nbytes <= _MOST_BYTES:
            tensor = tensors[node.name]
            proto = tensor_util.make_tensor_proto(values[node.name], tensor.dtype, values[node.name].shape)
            node.op = "Const"
            del node.input[:]
            node.attr.clear()
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.attr["value"].CopyFrom(attr_value_pb2.AttrValue(tensor=proto))
    return out
