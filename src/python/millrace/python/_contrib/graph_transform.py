# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Copies of parts of a graph, of tf.contrib.graph_editor."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core.framework import graph_pb2
from millrace.python._contrib import graph_edit
from millrace.python._contrib import graph_select as select
from millrace.python._contrib.graph_view import SubGraphView, make_view
from millrace.python.framework import importer, ops
from millrace.python.util import nest


def replace_t_with_placeholder_handler(info: Any, t: Any) -> Any:
    """Replaces an external input by a placeholder in the copy."""
    with info.graph_.as_default():
        return graph_edit.make_placeholder_from_tensor(t, scope=info.scope_)


def keep_t_if_possible_handler(info: Any, t: Any) -> Any:
    """Keeps an external input if the copy is in the same graph; else replaces it by a placeholder."""
    return t if info.graph is info.graph_ else replace_t_with_placeholder_handler(info, t)


def assign_renamed_collections_handler(info: Any, elem: Any, elem_: Any) -> None:
    """Adds a copy to the collections of the original; collections of programs get the new scope."""
    known = {value for key, value in vars(ops.GraphKeys).items() if key.isupper() and isinstance(value, str)}
    for name in info.graph.get_all_collection_keys():
        if any(elem is member for member in info.graph.get_collection_ref(name)):
            own = str(name)[len(info.scope) :] if str(name).startswith(info.scope) else str(name)
            info.graph_.add_to_collection(name if name in known else info.scope_ + own, elem_)


class TransformerInfo:
    """Maps originals to their copies and back."""

    def __init__(self, graph: Any, graph_: Any, scope: str, scope_: str) -> None:
        self.graph, self.graph_ = graph, graph_
        self.scope, self.scope_ = scope, scope_
        self.transformed_ops: dict[Any, Any] = {}
        self.transformed_ts: dict[int, tuple[Any, Any]] = {}
        self._originals: dict[int, Any] = {}

    def new_name(self, name: str) -> str:
        """The name in the new scope of one in the old one."""
        if not name.startswith(self.scope):
            raise ValueError("%s does not belong to source scope: %s." % (name, self.scope))
        return self.scope_ + name[len(self.scope) :]

    def _add(self, original: Any, copy_: Any) -> None:
        if isinstance(original, ops.Operation):
            self.transformed_ops[original] = copy_
        else:
            self.transformed_ts[id(original)] = (original, copy_)
        self._originals[id(copy_)] = original

    def transformed(self, original: Any, missing_fn: Any = None) -> Any:
        """The copy of an operation, a tensor or a view, or of each in a structure.

        Args:
          original: the copied object.
          missing_fn: a function that returns the result for objects that were not copied; None: the result is None.
        """
        return self._mapped(original, self._transformed_one, missing_fn)

    def original(self, transformed: Any, missing_fn: Any = None) -> Any:
        """The original of a copy."""
        return self._mapped(transformed, lambda item: self._originals.get(id(item)), missing_fn)

    def _transformed_one(self, item: Any) -> Any:
        if isinstance(item, ops.Operation):
            return self.transformed_ops.get(item)
        return self.transformed_ts.get(id(item), (None, None))[1]

    def _mapped(self, items: Any, find: Callable[[Any], Any], missing_fn: Any) -> Any:
        def one(item: Any) -> Any:
            if isinstance(item, str):
                named = self.graph.as_graph_element(item)
                return one(named)
            found = find(item)
            return missing_fn(item) if found is None and missing_fn is not None else found

        if isinstance(items, SubGraphView):
            made = SubGraphView([one(op) for op in items.ops])
            made._input_ts = [one(t) if find(t) is not None else t for t in items.inputs]
            made._output_ts = [one(t) for t in items.outputs]
            made._passthrough_ts = [t for t in made._input_ts if any(t is out for out in made._output_ts)]
            return made
        return nest.map_structure(one, items)

    def __str__(self) -> str:
        lines = [
            "Transformer result info:",
            "Source scope: %s" % self.scope,
            "Destination scope: %s" % self.scope_,
        ]
        lines += ["  %s => %s" % (op.name, made.name) for op, made in self.transformed_ops.items()]
        return "\n".join(lines)


class Transformer:
    """Copies views. Its handlers may be replaced before it is called.

    `transform_external_input_handler(info, tensor)` returns the tensor of the copy for an external input;
    `assign_collections_handler(info, original, copy)` adds copies to collections.
    """

    def __init__(self) -> None:
        self.assign_collections_handler: Any = assign_renamed_collections_handler
        self.transform_external_input_handler: Any = keep_t_if_possible_handler

    def __call__(
        self, sgv: Any, dst_graph: Any, dst_scope: str, src_scope: str = "", reuse_dst_scope: bool = False
    ) -> tuple[SubGraphView, TransformerInfo]:
        """Copies a view.

        Args:
          sgv: the view.
          dst_graph: the graph of the copy.
          dst_scope: the scope of the copy.
          src_scope: a scope that is removed from the names of the copies.
          reuse_dst_scope: whether the scope may exist already; if false, its name is made unique.

        Returns:
          The view of the copy, and a TransformerInfo.
        """
        view = make_view(sgv)
        if not isinstance(dst_graph, ops.Graph):
            raise TypeError("Expected a tf.Graph, got: %s" % type(dst_graph))
        src_scope = src_scope + "/" if src_scope and not src_scope.endswith("/") else src_scope
        dst_scope = dst_scope.rstrip("/")
        if dst_scope and not reuse_dst_scope:
            dst_scope = dst_graph.unique_name(dst_scope)
        info = TransformerInfo(view.graph, dst_graph, src_scope, dst_scope + "/" if dst_scope else "")
        for t in view.inputs:
            if not view.is_passthrough(t):
                info._add(t, self.transform_external_input_handler(info, t))
        if view.ops:
            _copy_ops(view, info)
        for t in view.passthroughs:
            info._add(t, t)
        for op in view.ops:
            self.assign_collections_handler(info, op, info.transformed_ops[op])
            for t in op.outputs:
                self.assign_collections_handler(info, t, info.transformed_ts[id(t)][1])
        return info.transformed(view), info


def _copy_ops(view: SubGraphView, info: TransformerInfo) -> None:
    """Imports the view's nodes under new names, with replaced external inputs."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for op in view.ops:
        wanted = info.new_name(op.name)
        name, number = wanted, 0
        while name in info.graph_._nodes_by_name or name in taken:
            number += 1
            name = "%s_%d" % (wanted, number)
        taken.add(name)
        names[op.name] = name
    graph_def = graph_pb2.GraphDef()
    source = info.graph.as_graph_def()
    graph_def.versions.CopyFrom(source.versions)
    graph_def.library.CopyFrom(source.library)
    input_map: dict[str, Any] = {}
    same_graph = info.graph is info.graph_
    outer_controls: dict[str, list[Any]] = {}
    for op in view.ops:
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        node.name = names[op.name]
        del node.input[:]
        for t in op.inputs:
            if t.op.name in names:
                node.input.append("%s:%d" % (names[t.op.name], t.value_index))
            else:
                outer = "outer_input_/%s:%d" % (t.op.name, t.value_index)
                input_map[outer] = info.transformed_ts[id(t)][1]
                node.input.append(outer)
        for cop in op.control_inputs:
            if cop.name in names:
                node.input.append("^" + names[cop.name])
            elif same_graph:
                outer_controls.setdefault(node.name, []).append(cop)
        _move_colocation(node, names, same_graph)
    with info.graph_.as_default(), ops.name_scope(None), ops.control_dependencies(None):
        importer.import_graph_def(graph_def, input_map=input_map, name="")
    for op in view.ops:
        made = info.graph_.get_operation_by_name(names[op.name])
        if made.name in outer_controls:
            made._add_control_inputs(outer_controls[made.name])
        info._add(op, made)
        for t, made_t in zip(op.outputs, made.outputs):
            info._add(t, made_t)


def _move_colocation(node: Any, names: dict[str, str], same_graph: bool) -> None:
    if "_class" not in node.attr:
        return
    groups = []
    for group in node.attr["_class"].list.s:
        name = group.decode()[len("loc:@") :] if group.startswith(b"loc:@") else None
        if name is None or name in names or same_graph:
            groups.append(("loc:@" + names.get(name, name)).encode() if name is not None else group)
    del node.attr["_class"]
    if groups:
        node.attr["_class"].list.s.extend(groups)


def copy(
    sgv: Any, dst_graph: Any = None, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies a view; arguments as for Transformer. Without `dst_graph` the copy is in the same graph."""
    view = make_view(sgv)
    if dst_graph is None:
        dst_graph = view.graph
    return Transformer()(view, dst_graph, dst_scope, src_scope, reuse_dst_scope=reuse_dst_scope)


def copy_with_input_replacements(
    sgv: Any,
    replacement_ts: Any,
    dst_graph: Any = None,
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies a view with other tensors instead of some of its inputs.

    Args:
      sgv: the view.
      replacement_ts: a dict from original tensors to their replacements.
      dst_graph: see Transformer, as for the other arguments.
      dst_scope: the scope of the copy.
      src_scope: a scope that is removed from the names of the copies.
      reuse_dst_scope: whether the scope may exist already.
    """
    view = make_view(sgv)
    if dst_graph is None:
        dst_graph = view.graph
    replacements = {_id(t): ops.convert_to_tensor(value) for t, value in _items(replacement_ts)}

    def replaced(info: Any, t: Any) -> Any:
        return replacements[id(t)] if id(t) in replacements else keep_t_if_possible_handler(info, t)

    transformer = Transformer()
    transformer.transform_external_input_handler = replaced
    return transformer(view, dst_graph, dst_scope, src_scope, reuse_dst_scope=reuse_dst_scope)


def _items(replacement_ts: Any) -> list[tuple[Any, Any]]:
    return list(dict(replacement_ts).items())


def _id(t: Any) -> int:
    if not isinstance(t, ops.Tensor):
        raise TypeError("Expected a tf.Tensor, got: %s" % type(t))
    return id(t)


def graph_replace(
    target_ts: Any,
    replacement_ts: Any,
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> Any:
    """Copies the computation of tensors with some of its tensors replaced.

    Args:
      target_ts: a tensor or a structure of tensors.
      replacement_ts: a dict from original tensors to their replacements.
      dst_scope: the scope of the copies.
      src_scope: a scope that is removed from the names of the copies.
      reuse_dst_scope: whether the scope may exist already.

    Returns:
      The new tensors, in the structure of `target_ts`.

    Raises:
      ValueError: if no target depends on a tensor that is replaced.
    """
    targets = [t for t in nest.flatten(target_ts)]
    graph = select.get_unique_graph(targets, check_types=(ops.Tensor,))
    control_ios = select.ControlOutputs(graph)
    replaced = [t for t, _ in _items(replacement_ts)]
    between = select.get_walks_intersection_ops(replaced, targets, control_ios=control_ios)
    if not between:
        raise ValueError("Targets and replacements are not connected!")
    members = set(between)
    # A loop is copied as a whole.
    for context in {
        id(c): c for op in between for c in [op._get_control_flow_context()] if c is not None
    }.values():
        for op in graph.get_operations():
            if op not in members and op._get_control_flow_context() is context:
                members.add(op)
                between.append(op)
    # A replaced tensor is an external input, even if its operation is part of the walk.
    inside = {id(t) for t in replaced}
    between = [op for op in between if not any(id(t) in inside for t in op.outputs)]
    if not between:
        return nest.map_structure(
            lambda t: dict((id(k), v) for k, v in _items(replacement_ts)).get(id(t), t), target_ts
        )
    _, info = copy_with_input_replacements(
        between, replacement_ts, None, dst_scope, src_scope, reuse_dst_scope
    )
    return info.transformed(target_ts, missing_fn=lambda original: original)
