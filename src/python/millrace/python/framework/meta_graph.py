# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""MetaGraphDefs: graphs with their collections, savers and signatures in one message."""
from __future__ import annotations

import os.path
from typing import Any

from millrace.core.framework import graph_pb2, node_def_pb2, op_def_pb2
from millrace.core.protobuf import meta_graph_pb2, saver_pb2
from millrace.python.framework import op_def_registry, ops, versions
from millrace.python.framework._meta_graph_collections import (  # noqa: F401
    _add_collections_to_graph,
    _get_kind_name,
    add_collection_def,
)

# Inputs of an exported part of a graph that the part does not compute have names that begin with this.
_UNBOUND_INPUT_PREFIX = "$unbound_inputs_"


def _node_def(from_node_def: Any, export_scope: Any, unbound_inputs: Any, clear_devices: bool = False) -> Any:
    """A NodeDef with names relative to `export_scope`; adds inputs from outside to `unbound_inputs`."""
    node = node_def_pb2.NodeDef()
    node.CopyFrom(from_node_def)
    scope = export_scope.rstrip("/") + "/"
    for index, name in enumerate(from_node_def.input):
        bare = name.lstrip("^")
        if bare.startswith(scope):
            node.input[index] = ops.strip_name_scope(name, export_scope)
        else:
            # A control input stays one.
            mark = "^" if name.startswith("^") else ""
            node.input[index] = mark + _UNBOUND_INPUT_PREFIX + bare
            unbound_inputs.append(node.input[index])
    node.name = ops.strip_name_scope(from_node_def.name, export_scope)
    for key, value in from_node_def.attr.items():
        if key == "_class":
            groups = [
                ops.strip_name_scope(group.decode(), export_scope).encode()
                for group in value.list.s
                if not export_scope or group.decode().split("@")[1].startswith(export_scope)
            ]
            del node.attr[key].list.s[:]
            node.attr[key].list.s.extend(groups)
        elif node.op in ("Enter", "RefEnter") and key == "frame_name":
            node.attr[key].s = ops.strip_name_scope(value.s.decode(), export_scope).encode()
    if clear_devices:
        node.device = ""
    return node


def _read_file(filename: Any) -> Any:
    """The GraphDef of a file, binary or text."""
    return _parse_file(filename, graph_pb2.GraphDef())


def _parse_file(filename: Any, message: Any) -> Any:
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    from millrace.python.lib.io import file_io

    if not file_io.file_exists(filename):
        raise IOError("File %s does not exist." % filename)
    with file_io.FileIO(filename, "rb") as file:
        content = file.read()
    try:
        message.ParseFromString(content)
        return message
    except DecodeError:
        pass  # may be text
    try:
        message.Clear()
        text_format.Merge(content.decode("utf-8"), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise IOError("Cannot parse file %s: %s." % (filename, error)) from None
    return message


def read_meta_graph_file(filename: Any) -> Any:
    """The MetaGraphDef of a file, binary or text; IOError if there is none."""
    return _parse_file(filename, meta_graph_pb2.MetaGraphDef())


def ops_used_by_graph_def(graph_def: Any) -> list[str]:
    """The names of the ops that a GraphDef uses, in its nodes and in the functions that those call."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    used: set[str] = set()
    waiting: list[str] = []

    def note(op: str) -> None:
        if op not in used and op in functions:
            waiting.append(op)
        used.add(op)

    for node in graph_def.node:
        note(node.op)
    while waiting:
        for node in functions[waiting.pop()].node_def:
            note(node.op)
    return [op for op in used if op not in functions]


def stripped_op_list_for_graph(graph_def: Any) -> Any:
    """An OpList of the ops that a GraphDef uses, in order, without unknown ones."""
    op_list = op_def_pb2.OpList()
    for name in sorted(ops_used_by_graph_def(graph_def)):
        op_def = op_def_registry.get(name)
        if op_def is not None:
            stripped = op_list.op.add()
            stripped.CopyFrom(op_def)
            stripped.ClearField("summary")
            stripped.ClearField("description")
            for argument in list(stripped.input_arg) + list(stripped.output_arg) + list(stripped.attr):
                argument.ClearField("description")
    return op_list


def _is_default_attr_value(op_def: Any, attr_name: str, attr_value: Any) -> bool:
    """Whether a value is the default of an attribute."""
    for attr_def in op_def.attr:
        if attr_def.name == attr_name:
            return attr_def.HasField("default_value") and attr_value == attr_def.default_value
    return False


def strip_graph_default_valued_attrs(meta_graph_def: Any) -> None:
    """Removes attributes with default values, so that older programs can read the graph."""
    functions = {function.signature.name for function in meta_graph_def.graph_def.library.function}

    def strip(node: Any) -> None:
        op_def = None if node.op in functions else op_def_registry.get(node.op)
        if op_def is None:
            return
        for name in [n for n, value in node.attr.items() if _is_default_attr_value(op_def, n, value)]:
            del node.attr[name]

    for node in meta_graph_def.graph_def.node:
        strip(node)
    for function in meta_graph_def.graph_def.library.function:
        for node in function.node_def:
            strip(node)
    meta_graph_def.meta_info_def.stripped_default_attrs = True


def create_meta_graph_def(
    meta_info_def: Any = None, graph_def: Any = None, saver_def: Any = None, collection_list: Any = None, graph: Any = None,
    export_scope: Any = None, exclude_nodes: Any = None, clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
) -> Any:  # fmt: skip
    """Makes a MetaGraphDef.

    Args:
      meta_info_def: a MetaInfoDef; versions and ops are filled in.
      graph_def: the GraphDef; that of `graph` when None.
      saver_def: a SaverDef.
      collection_list: names of collections; None: all.
      graph: the graph; None: the default graph.
      export_scope: the scope that is removed from names.
      exclude_nodes: names of nodes that are left out of collections.
      clear_extraneous_savers: whether to leave out savers other than that of `saver_def`.
      strip_default_attrs: whether to leave out attributes with default values.

    Raises:
      TypeError: if an argument is of another type.
    """
    if graph and not isinstance(graph, ops.Graph):
        raise TypeError("graph must be of type Graph, not %s" % type(graph))
    if meta_info_def and not isinstance(meta_info_def, meta_graph_pb2.MetaGraphDef.MetaInfoDef):
        raise TypeError("meta_info_def must be of type MetaInfoDef, not %s" % type(meta_info_def))
    if graph_def and not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError("graph_def must be of type GraphDef, not %s" % type(graph_def))
    if saver_def and not isinstance(saver_def, saver_pb2.SaverDef):
        raise TypeError("saver_def must be of type SaverDef, not %s" % type(saver_def))
    graph = graph or ops.get_default_graph()
    result = meta_graph_pb2.MetaGraphDef()
    if meta_info_def:
        result.meta_info_def.CopyFrom(meta_info_def)
    result.meta_info_def.tensorflow_version = versions.__version__
    result.meta_info_def.tensorflow_git_version = versions.__git_version__
    result.graph_def.MergeFrom(graph_def if graph_def else graph.as_graph_def(add_shapes=True))
    if not result.meta_info_def.stripped_op_list.op:
        result.meta_info_def.stripped_op_list.MergeFrom(stripped_op_list_for_graph(result.graph_def))
    if strip_default_attrs:
        strip_graph_default_valued_attrs(result)
    if saver_def:
        result.saver_def.MergeFrom(saver_def)
    for kind in collection_list if collection_list is not None else graph.get_all_collection_keys():
        add_collection_def(
            result, kind, graph=graph, export_scope=export_scope, exclude_nodes=exclude_nodes,
            override_contents=[saver_def] if clear_extraneous_savers and kind == ops.GraphKeys.SAVERS else None,
        )  # fmt: skip
    return result


def import_scoped_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, graph: Any = None, import_scope: Any = None, input_map: Any = None,
    unbound_inputs_col_name: Any = "unbound_inputs", restore_collections_predicate: Any = lambda key: True,
) -> Any:  # fmt: skip
    """Adds the graph of a MetaGraphDef and its collections to a graph; returns its variables by name."""
    return import_scoped_meta_graph_with_return_elements(
        meta_graph_or_file, clear_devices, graph, import_scope, input_map, unbound_inputs_col_name,
        restore_collections_predicate,
    )[0]  # fmt: skip


def import_scoped_meta_graph_with_return_elements(
    meta_graph_or_file: Any, clear_devices: bool = False, graph: Any = None, import_scope: Any = None, input_map: Any = None,
    unbound_inputs_col_name: Any = "unbound_inputs", restore_collections_predicate: Any = lambda key: True,
    return_elements: Any = None,
) -> tuple[dict[str, Any], Any]:  # fmt: skip
    """Adds the graph of a MetaGraphDef and its collections to a graph.

    Args:
      meta_graph_or_file: the message or the name of a file with one.
      clear_devices: whether to remove the devices of nodes.
      graph: the graph; None: the default graph.
      import_scope: the scope that is put before names.
      input_map: tensors that represent inputs, by name.
      unbound_inputs_col_name: the collection that names the inputs that `input_map` must have.
      restore_collections_predicate: a predicate of the names of collections to restore.
      return_elements: names of tensors and operations.

    Returns:
      Variables by their names without the scope, and the tensors and operations of `return_elements`.

    Raises:
      ValueError: if `input_map` lacks an input.
    """
    if isinstance(meta_graph_or_file, meta_graph_pb2.MetaGraphDef):
        meta_graph_def = meta_graph_or_file
    else:
        meta_graph_def = read_meta_graph_file(meta_graph_or_file)
    if unbound_inputs_col_name:
        for key, col_def in meta_graph_def.collection_def.items():
            if key == unbound_inputs_col_name:
                _check_bound(col_def, input_map, unbound_inputs_col_name)
                break
    graph = graph or ops.get_default_graph()
    with graph.as_default():
        producer_op_list = None
        if meta_graph_def.meta_info_def.HasField("stripped_op_list"):
            producer_op_list = meta_graph_def.meta_info_def.stripped_op_list
        input_graph_def = graph_pb2.GraphDef()
        input_graph_def.CopyFrom(meta_graph_def.graph_def)
        if clear_devices:
            for node in input_graph_def.node:
                node.device = ""
        scope_to_prepend = graph.unique_name(import_scope or "", mark_as_used=False)
        from millrace.python.framework import importer

        imported = importer.import_graph_def(
            input_graph_def, name=(import_scope or scope_to_prepend), input_map=input_map,
            producer_op_list=producer_op_list, return_elements=return_elements,
        )  # fmt: skip
        _add_collections_to_graph(graph, meta_graph_def, scope_to_prepend, restore_collections_predicate)
        var_list = {}
        variables = graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope=scope_to_prepend)
        for v in variables:
            var_list[ops.strip_name_scope(v.name, scope_to_prepend)] = v
    return var_list, imported


def _check_bound(col_def: Any, input_map: Any, collection: str) -> None:
    names = [name.decode() for name in col_def.bytes_list.value]
    if names and not input_map:
        field = "\n  ".join(names)
        raise ValueError(
            "Graph contains unbound inputs: %s. Must provide these inputs through input_map." % field
        )
    missing = [name for name in names if name not in (input_map or {})]
    if missing:
        raise ValueError(
            "Graph contains unbound inputs: %s. Must provide these inputs through input_map."
            % ",".join(missing)
        )


def export_scoped_meta_graph(
    filename: Any = None, graph_def: Any = None, graph: Any = None, export_scope: Any = None, as_text: bool = False,
    unbound_inputs_col_name: Any = "unbound_inputs", clear_devices: bool = False, saver_def: Any = None,
    clear_extraneous_savers: bool = False, strip_default_attrs: bool = False, save_debug_info: bool = False, **kwargs: Any,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """Makes a MetaGraphDef of a graph or of one of its scopes; writes it to `filename`, if given.

    Returns:
      The message, and the variables of the scope by their names in the message.

    Raises:
      ValueError: if `export_scope` is given with a `graph_def`.
    """
    graph = ops.get_default_graph() if graph is None else graph
    if not isinstance(graph, ops.Graph):
        raise TypeError("graph must be of type Graph. Received type: %s" % type(graph))
    if graph_def is not None and not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError("graph_def must be of type GraphDef. Received type: %s" % type(graph_def))
    exclude_nodes = None
    unbound_inputs: list[str] = []
    if export_scope or clear_extraneous_savers or clear_devices:
        if graph_def:
            new_graph_def = graph_pb2.GraphDef()
            new_graph_def.versions.CopyFrom(graph_def.versions)
            new_graph_def.library.CopyFrom(graph_def.library)
            exclude_nodes = (
                _nodes_of_other_savers(graph_def, graph, saver_def) if clear_extraneous_savers else ""
            )
            for node in graph_def.node:
                if _should_include_node(node.name, export_scope, exclude_nodes):
                    new_graph_def.node.add().CopyFrom(
                        _node_def(node, export_scope, unbound_inputs, clear_devices) if export_scope
                        else _without_device(node, clear_devices)
                    )  # fmt: skip
            graph_def = new_graph_def
        else:
            graph_def = graph_pb2.GraphDef()
            graph_def.versions.CopyFrom(graph.graph_def_versions)
            exclude_nodes = (
                _nodes_of_other_savers(graph.as_graph_def(), graph, saver_def)
                if clear_extraneous_savers
                else ""
            )
            whole = graph.as_graph_def(add_shapes=True)
            for node in whole.node:
                if _should_include_node(node.name, export_scope, exclude_nodes):
                    graph_def.node.add().CopyFrom(
                        _node_def(node, export_scope, unbound_inputs, clear_devices) if export_scope
                        else _without_device(node, clear_devices)
                    )  # fmt: skip
            graph_def.library.CopyFrom(whole.library)
    if unbound_inputs_col_name:
        # Each input once.
        unbound = sorted(set(unbound_inputs))
        if export_scope:
            graph.clear_collection(unbound_inputs_col_name)
            for name in unbound:
                graph.add_to_collection(unbound_inputs_col_name, name)
    var_list = {}
    variables = graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope=export_scope)
    for v in variables:
        if _should_include_node(v, export_scope, exclude_nodes):
            var_list[ops.strip_name_scope(v.name, export_scope)] = v
    scoped_meta_graph_def = create_meta_graph_def(
        graph_def=graph_def, graph=graph, export_scope=export_scope, exclude_nodes=exclude_nodes,
        clear_extraneous_savers=clear_extraneous_savers, saver_def=saver_def, strip_default_attrs=strip_default_attrs,
        **kwargs,
    )  # fmt: skip
    if filename:
        from millrace.python.framework import graph_io

        graph_io.write_graph(
            scoped_meta_graph_def, os.path.dirname(filename), os.path.basename(filename), as_text=as_text
        )
        if save_debug_info:
            from millrace.python.framework import error_interpolation

            named = [
                ("", graph.get_operation_by_name(ops.prepend_name_scope(node.name, export_scope)))
                for node in scoped_meta_graph_def.graph_def.node
            ]
            debug_info = error_interpolation.create_graph_debug_info_def(named)
            debug_filename = os.path.splitext(filename)[0] + ".debug"
            graph_io.write_graph(
                debug_info, os.path.dirname(debug_filename), os.path.basename(debug_filename), as_text=as_text
            )
    return scoped_meta_graph_def, var_list


def _without_device(node: Any, clear_devices: bool) -> Any:
    if clear_devices:
        copy = node_def_pb2.NodeDef()
        copy.CopyFrom(node)
        copy.device = ""
        return copy
    return node


def _nodes_of_other_savers(graph_def: Any, graph: Any, saver_def: Any) -> str:
    """A pattern that matches the names of the nodes of savers other than that of `saver_def`."""
    import re

    names = set()
    for item in graph.get_collection(ops.GraphKeys.SAVERS):
        other = getattr(item, "saver_def", item)
        if saver_def is not None and other.filename_tensor_name == saver_def.filename_tensor_name:
            continue
        scope = other.filename_tensor_name.rpartition("/")[0]
        if scope:
            names.add(scope)
    return "|".join(re.escape(name) + "/" for name in sorted(names))


def _should_include_node(node_or_node_name: Any, export_scope: Any, exclude_nodes: Any) -> bool:
    """Whether a node or its name is exported."""
    import re

    if not isinstance(node_or_node_name, str):
        try:
            name = node_or_node_name.name
        except AttributeError:
            return True  # nodes without a name belong to all scopes
    else:
        name = node_or_node_name
    if exclude_nodes and re.match(exclude_nodes, name):
        return False
    return name.startswith(_UNBOUND_INPUT_PREFIX) or (not export_scope or name.startswith(export_scope))


def copy_scoped_meta_graph(
    from_scope: str, to_scope: str, from_graph: Any = None, to_graph: Any = None
) -> dict[str, Any]:
    """Copies a scope to another scope of this or another graph; returns the copied variables by name.

    Raises:
      ValueError: if the scopes are the same and the graphs are, too.
    """
    from_graph = from_graph or ops.get_default_graph()
    to_graph = to_graph or ops.get_default_graph()
    if from_graph == to_graph and from_scope == to_scope:
        raise ValueError(
            "'from_scope' and 'to_scope' need to be different when performing copy in the same graph."
        )
    orig_meta_graph, var_list = export_scoped_meta_graph(export_scope=from_scope, graph=from_graph)
    return import_scoped_meta_graph(orig_meta_graph, graph=to_graph, import_scope=to_scope)
