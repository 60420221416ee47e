# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A graph with its feeds and fetches."""
from __future__ import annotations

from typing import Any

from millrace.core.framework import op_def_pb2  # noqa: F401
from millrace.core.protobuf import meta_graph_pb2
from millrace.python.framework import errors_impl, graph_util_impl, importer, ops
from millrace.python.grappler import tf_optimizer


class Item:
    """A meta graph to optimise.

    Args:
      metagraph: a MetaGraphDef.
      ignore_colocation: whether colocation constraints are left out.
      ignore_user_placement: whether devices are left out.

    Raises:
      InvalidArgumentError: if the meta graph names no fetch.
    """

    def __init__(
        self, metagraph: Any, ignore_colocation: bool = True, ignore_user_placement: bool = False
    ) -> None:
        if not isinstance(metagraph, meta_graph_pb2.MetaGraphDef):
            raise TypeError("Expected metagraph to be a MetaGraphDef, saw type %s" % type(metagraph))
        if not tf_optimizer.fetches_of(metagraph):
            raise errors_impl.InvalidArgumentError(None, None, "Could not find any fetch in the meta graph.")
        self._metagraph = metagraph
        self._ignore_colocation = ignore_colocation
        self._ignore_user_placement = ignore_user_placement
        self._graph: Any = None
        self._tf_item: Any = None

    def _imported(self) -> Any:
        if self._graph is None:
            self._graph = ops.Graph()
            with self._graph.as_default():
                importer.import_graph_def(self._metagraph.graph_def, name="")
        return self._graph

    @property
    def metagraph(self) -> Any:
        """The MetaGraphDef."""
        return self._metagraph

    @property
    def tf_item(self) -> Any:
        """A snapshot of the meta graph, made anew after the meta graph was changed."""
        bytes_ = self._metagraph.SerializeToString(deterministic=True)
        if self._tf_item is None or self._tf_item.bytes != bytes_:
            self._tf_item = _Snapshot(bytes_)
            self._graph = None
        return self._tf_item

    def IdentifyImportantOps(self, sort_topologically: bool = False) -> list[str]:  # noqa: N802
        """The names of the operations that the fetches need."""
        needed = graph_util_impl.extract_sub_graph(
            self._metagraph.graph_def, sorted(tf_optimizer.fetches_of(self._metagraph))
        )
        if not sort_topologically:
            return [node.name for node in needed.node]
        names = {node.name for node in needed.node}
        return [op.name for op in self._imported().get_operations() if op.name in names]

    def GetOpProperties(self) -> dict[str, list[Any]]:  # noqa: N802
        """OpInfo.TensorProperties of the outputs, by the operation's name."""
        from millrace.core.framework import types_pb2  # noqa: F401

        return {
            op.name: [TensorProperties(t.dtype.as_datatype_enum, t.shape.as_proto()) for t in op.outputs]
            for op in self._imported().get_operations()
            if op.outputs
        }

    def GetColocationGroups(self) -> list[list[str]]:  # noqa: N802
        """Groups of names of operations that are colocated."""
        groups: dict[bytes, list[str]] = {}
        for op in self._imported().get_operations():
            for group in op.colocation_groups():
                groups.setdefault(group, []).append(op.name)
        found = []
        for key, members in groups.items():
            owner = key.decode()[5:]
            named = sorted(set(members) | {owner})
            if len(named) > 1:
                found.append(named)
        return found


class _Snapshot:
    """A meta graph, serialised."""

    def __init__(self, bytes_: bytes) -> None:
        self.bytes = bytes_


class TensorProperties:
    """Type and shape of a tensor: DataType and TensorShapeProto."""

    def __init__(self, dtype: int, shape: Any) -> None:
        self.dtype = dtype
        self.shape = shape
