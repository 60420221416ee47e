# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Adds GraphDefs to the default graph."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import errors_impl, ops


def _parse_tensor_name(name: str) -> tuple[str, int]:
    """("a", 1) of "a:1"; ("a", -1) of "^a"."""
    if name.startswith("^"):
        return name[1:], -1
    parts = name.split(":")
    if len(parts) == 1:
        return parts[0], 0
    if len(parts) == 2:
        try:
            return parts[0], int(parts[1])
        except ValueError:
            pass
    raise ValueError("Cannot convert %r to a tensor name." % name)


def _graph_def_of(graph_def: Any) -> Any:
    from millrace.core.framework import graph_pb2

    if isinstance(graph_def, graph_pb2.GraphDef):
        return graph_def
    try:
        copy = graph_pb2.GraphDef()
        copy.MergeFrom(graph_def)
        return copy
    except TypeError:
        raise TypeError("graph_def must be a GraphDef proto.") from None


def _check_map(input_map: Any) -> dict[str, Any]:
    if input_map is None:
        return {}
    if not isinstance(input_map, dict) or not all(isinstance(k, (str, bytes)) for k in input_map):
        raise TypeError("input_map must be a dictionary mapping strings to Tensor objects.")
    return {k.decode() if isinstance(k, bytes) else k: v for k, v in input_map.items()}


def _check_return_elements(return_elements: Any) -> Any:
    if return_elements is None:
        return None
    return_elements = tuple(return_elements)
    if not all(isinstance(x, (str, bytes)) for x in return_elements):
        raise TypeError("return_elements must be a list of strings.")
    return tuple(x.decode() if isinstance(x, bytes) else x for x in return_elements)


def _convert_map(graph: Any, input_map: dict[str, Any], name: str) -> list[tuple[str, int, Any]]:
    entries = []
    if any(not isinstance(v, ops.Tensor) for v in input_map.values()):
        if name == "":
            raise ValueError(
                "tf.import_graph_def() requires a non-empty `name` if `input_map` contains non-Tensor values. Try calling tf.convert_to_tensor() on `input_map` values before calling tf.import_graph_def()."
            )
    for key, value in input_map.items():
        source, index = _parse_tensor_name(key)
        if index < 0:
            value = value if isinstance(value, ops.Operation) else value.op
        elif not isinstance(value, ops.Tensor):
            with graph.name_scope("_inputs"):
                value = ops.convert_to_tensor(value)
        entries.append((source, index, value))
    return entries


def import_graph_def(
    graph_def: Any, input_map: Any = None, return_elements: Any = None, name: Any = None, op_dict: Any = None,
    producer_op_list: Any = None,
) -> Any:  # fmt: skip
    """Adds the operations of a GraphDef to the default graph.

    Args:
      graph_def: the GraphDef.
      input_map: tensors of the graph that represent tensors of `graph_def`, by name.
      return_elements: names of tensors and operations of `graph_def`.
      name: of the scope, "import" when None.
      op_dict: not needed.
      producer_op_list: an OpList of the producer; attributes that are unknown here and have its default are
        removed.

    Returns:
      The tensors and operations of `return_elements`; None without those.

    Raises:
      ValueError: if `graph_def` is no valid graph, or a name is not in it.
    """
    return _import(graph_def, input_map, return_elements, name, producer_op_list)


def import_graph_def_for_function(graph_def: Any, name: Any = None) -> Any:
    """Adds the operations of a function's body to the default graph.

    As import_graph_def, but an operation may be colocated with a missing one, as `remove_missing_groups` says.
    """
    remove_missing_groups(graph_def)
    return _import(graph_def, None, None, name, None)


def remove_missing_groups(graph_def: Any) -> None:
    """Takes the names of missing operations out of the colocation groups.

    Operations of a function's body may be colocated with one that the function captures, which is an argument there.
    """
    known = {node.name for node in graph_def.node}
    for node in graph_def.node:
        if "_class" in node.attr:
            classes = node.attr["_class"].list
            kept = [c for c in classes.s if not c.startswith(b"loc:@") or c[5:].decode() in known]
            classes.s[:] = kept


def _import(
    graph_def: Any,
    input_map: Any,
    return_elements: Any,
    name: Any,
    producer_op_list: Any,
) -> Any:
    graph_def = _graph_def_of(graph_def)
    input_map = _check_map(input_map)
    elements = _check_return_elements(return_elements)
    if producer_op_list is not None:
        graph_def = _without_new_defaults(graph_def, producer_op_list)
    graph = ops.get_default_graph()
    with ops.name_scope(name, "import", list(input_map.values())) as scope:
        prefix = scope[:-1] if scope else ""
        entries = _convert_map(graph, input_map, prefix)
        tensors, operations = [], []
        for element in elements or ():
            if ":" in element:
                tensors.append(_parse_tensor_name(element))
            else:
                operations.append(element)
        old_functions = set(graph._functions)
        try:
            fresh, made_tensors, made_ops, missing = graph._import(
                graph_def.SerializeToString(), prefix, entries, tensors, operations, [], False
            )
        except ValueError as e:
            raise ValueError(str(e)) from None
        except errors_impl.OpError as e:
            raise ValueError(e.message) from None
        _note_functions(graph, graph_def, old_functions)
        graph._apply_scopes_to(fresh)
        if missing:
            raise ValueError(
                "Attempted to map inputs that were not found in graph_def: [%s]"
                % _map_text(input_map, missing)
            )
    if elements is None:
        return None
    by_kind = iter(made_tensors), iter(made_ops)
    return [next(by_kind[0]) if ":" in element else next(by_kind[1]) for element in elements]


def _map_text(input_map: dict[str, Any], missing: Any) -> str:
    pairs = set(missing)
    return ", ".join(k for k in input_map if _parse_tensor_name(k) in pairs)


def _note_functions(graph: Any, graph_def: Any, old: set[str]) -> None:
    """Objects of the functions that came with the graph."""
    if not graph_def.library.function:
        return
    from millrace.python.framework import function

    for defined in function._from_library(graph_def.library):
        if defined.name not in old:
            graph._functions[defined.name] = defined


def _without_new_defaults(graph_def: Any, producer_op_list: Any) -> Any:
    from millrace.core.framework import graph_pb2
    from millrace.python.framework import op_def_registry

    producers = {op.name: op for op in producer_op_list.op}
    copy = graph_pb2.GraphDef()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        producer = producers.get(node.op)
        known = op_def_registry.get(node.op)
        if producer is None or known is None:
            continue
        names = {attr.name for attr in known.attr}
        for attr in producer.attr:
            if attr.name in node.attr and attr.name not in names and attr.HasField("default_value"):
                if node.attr[attr.name] == attr.default_value:
                    del node.attr[attr.name]
    return copy
