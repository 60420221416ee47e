# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Collections of graphs as messages and back."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import ops
from millrace.python.platform import tf_logging as logging


def _get_kind_name(item: Any) -> str:
    """The field of CollectionDef that holds items like this one."""
    if isinstance(item, (str, bytes)):
        return "bytes_list"
    if isinstance(item, (int, np.integer)):
        return "int64_list"
    if isinstance(item, (float, np.floating)):
        return "float_list"
    if _is_any(item):
        return "any_list"
    return "node_list"


def _is_any(item: Any) -> bool:
    from google.protobuf import any_pb2

    return isinstance(item, any_pb2.Any)


def _relative(item: Any, export_scope: Any, as_text: bool = False) -> Any:
    """The item with its name below the scope, or None when it is outside."""
    name = item if isinstance(item, str) else item.name
    if export_scope and not name.startswith(export_scope):
        return None
    return ops.strip_name_scope(name, export_scope)


def add_collection_def(
    meta_graph_def: Any, key: Any, graph: Any = None, export_scope: Any = None, exclude_nodes: Any = None,
    override_contents: Any = None,
) -> None:  # fmt: skip
    """Adds a collection to a MetaGraphDef.

    Items with a function in the registry of collections are written by it; others are tensors and operations by name,
    numbers or strings. A collection that cannot be written is left out with a warning.

    Raises:
      TypeError: if `graph` is no Graph.
    """
    from millrace.python.framework import meta_graph

    if graph and not isinstance(graph, ops.Graph):
        raise TypeError("graph must be of type Graph, not %s" % type(graph))
    if not isinstance(key, (str, bytes)):
        logging.warning(
            "Only collections with string type keys will be serialized. This key has %s", type(key)
        )
        return
    graph = graph or ops.get_default_graph()
    collection_list = override_contents if override_contents is not None else graph.get_collection(key)
    # Only entries in the scope.
    collection_list = [
        x for x in collection_list if meta_graph._should_include_node(x, export_scope, exclude_nodes)
    ]
    if not collection_list:
        return
    try:
        col_def = meta_graph_def.collection_def[key]
        to_proto = ops.get_to_proto_function(key)
        proto_type = ops.get_collection_proto_type(key)
        if to_proto:
            _write_messages(col_def, collection_list, to_proto, proto_type, export_scope)
        else:
            _write_plain(col_def, collection_list, export_scope)
    except Exception as e:  # whatever error the items raise
        if not isinstance(e, (TypeError, AttributeError, ValueError, KeyError)):
            raise
        logging.warning(
            "Issue encountered when serializing %s.\nType is unsupported, or the types of the items don't match field type in CollectionDef. Note this is a warning and probably safe to ignore.\n%s",
            key, str(e),
        )  # fmt: skip
        if key in meta_graph_def.collection_def:
            del meta_graph_def.collection_def[key]


def _write_messages(col_def: Any, items: Any, to_proto: Any, proto_type: Any, export_scope: Any) -> None:
    kind = "bytes_list"
    for item in items:
        if isinstance(item, proto_type):
            proto = item
        else:
            proto = to_proto(item, export_scope=export_scope)
        if proto is not None:
            if isinstance(proto, str):
                proto = proto.encode()
            getattr(col_def, kind).value.append(
                proto if isinstance(proto, bytes) else proto.SerializeToString()
            )


def _write_plain(col_def: Any, items: Any, export_scope: Any) -> None:
    kind = _get_kind_name(items[0])
    if kind == "node_list":
        for item in items:
            if not export_scope or item.name.startswith(export_scope):
                getattr(col_def, kind).value.append(ops.strip_name_scope(item.name, export_scope))
    elif kind == "bytes_list":
        col_def.bytes_list.value.extend([item.encode() if isinstance(item, str) else item for item in items])
    else:
        getattr(col_def, kind).value.extend(items)


def _add_collections_to_graph(graph: Any, meta_graph_def: Any, scope: str, predicate: Any) -> None:
    """Fills collections of a graph from a MetaGraphDef whose nodes were imported below `scope`."""
    for key, col_def in sorted(meta_graph_def.collection_def.items()):
        if key == "unbound_inputs" or not predicate(key):
            continue
        kind = col_def.WhichOneof("kind")
        if kind is None:
            logging.error("Cannot identify data type for collection %s. Skipping.", key)
            continue
        from_proto = ops.get_from_proto_function(key)
        if kind == "bytes_list" and from_proto:
            proto_type = ops.get_collection_proto_type(key)
            if not proto_type:
                continue
            for value in col_def.bytes_list.value:
                proto = proto_type()
                proto.ParseFromString(value)
                graph.add_to_collection(key, from_proto(proto, import_scope=scope))
            continue
        field = getattr(col_def, kind)
        if key in _DEPRECATED_VARIABLE_KEYS:
            logging.warning(
                "The saved meta_graph is possibly from an older release:\n'%s' collection should be of type 'byte_list', but "
                "instead is of type '%s'.", key, kind,
            )  # fmt: skip
        if kind == "node_list":
            for value in field.value:
                graph.add_to_collection(key, graph.as_graph_element(ops.prepend_name_scope(value, scope)))
        elif kind == "int64_list":
            for number in field.value:
                graph.add_to_collection(key, int(number))
        else:
            for value in field.value:
                graph.add_to_collection(key, ops.prepend_name_scope(value, scope))


_DEPRECATED_VARIABLE_KEYS = ("variables", "trainable_variables", "local_variables", "model_variables")
