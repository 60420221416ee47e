# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""ObjectGraphView: the objects that can be reached from a root, as a checkpoint describes them."""

from __future__ import annotations

import collections
import weakref
from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.training import optimizer as optimizer_v1
from millrace.python.training.saving import saveable_object
from millrace.python.training.saving import saveable_object_util
from millrace.python.training.tracking import base
from millrace.python.util import object_identity

_ESCAPE_CHAR = "."
# Parts of keys that do not come from names of attributes.
_OPTIMIZER_SLOTS_NAME = _ESCAPE_CHAR + "OPTIMIZER_SLOT"
_OBJECT_ATTRIBUTES_NAME = _ESCAPE_CHAR + "ATTRIBUTES"


def _escape_local_name(name: str) -> str:
    """`name` without slashes, and so that it is never one of the names that begin with a single dot."""
    return name.replace(_ESCAPE_CHAR, _ESCAPE_CHAR + _ESCAPE_CHAR).replace("/", _ESCAPE_CHAR + "S")


def _object_prefix_from_path(path_to_root: Any) -> str:
    return "/".join(_escape_local_name(reference.name) for reference in path_to_root)


def _slot_variable_naming_for_optimizer(optimizer_path: str) -> Any:
    """A function (path of a variable, name of a slot) -> key prefix of that slot."""
    optimizer_identifier = "/%s/%s/" % (_OPTIMIZER_SLOTS_NAME, optimizer_path)

    def _name_slot_variable(variable_path: str, slot_name: str) -> str:
        return variable_path + optimizer_identifier + _escape_local_name(slot_name)

    return _name_slot_variable


def _serialize_slot_variables(trackable_objects: Any, node_ids: Any, object_names: Any) -> Any:
    """References to slots by optimizer; slots that are not attributes of an object get node ids and names here.

    Raises:
      NotImplementedError: if a slot has dependencies of its own.
    """
    non_slot_objects = list(trackable_objects)
    slot_variables = object_identity.ObjectIdentityDictionary()
    for trackable in non_slot_objects:
        if not isinstance(trackable, optimizer_v1.Optimizer):
            continue
        naming_scheme = _slot_variable_naming_for_optimizer(object_names[trackable])
        for slot_name in trackable.get_slot_names():
            for original_variable_node_id, original_variable in enumerate(non_slot_objects):
                try:
                    slot_variable = trackable.get_slot(original_variable, slot_name)
                except (AttributeError, KeyError):
                    slot_variable = None
                if slot_variable is None:
                    continue
                slot_variable._maybe_initialize_trackable()
                if slot_variable._checkpoint_dependencies:
                    raise NotImplementedError(
                        "Currently only variables with no dependencies can be saved as slot variables. File a"
                        " feature request if this limitation bothers you."
                    )
                if slot_variable in node_ids:
                    raise NotImplementedError(
                        "A slot variable was re-used as a dependency of a Trackable object. This is not"
                        " currently allowed. File a feature request if this limitation bothers you."
                    )
                object_names[slot_variable] = naming_scheme(
                    variable_path=object_names[original_variable], slot_name=slot_name
                )
                node_id = len(trackable_objects)
                node_ids[slot_variable] = node_id
                trackable_objects.append(slot_variable)
                slot_variables.setdefault(trackable, []).append(
                    _SlotReference(original_variable_node_id, slot_name, node_id)
                )
    return slot_variables


_SlotReference = collections.namedtuple(
    "_SlotReference", ["original_variable_node_id", "slot_name", "slot_variable_node_id"]
)


class ObjectGraphView:
    """Walks the dependencies of a root object and writes them as a TrackableObjectGraph."""

    def __init__(self, root: Any, saveables_cache: Any = None) -> None:
        """Keeps the arguments.

        Args:
          root: Trackable, or a weak reference to one.
          saveables_cache: dict that keeps saveables between calls, so that graphs do not grow with each save.
        """
        self._root_ref = root
        self._saveables_cache = saveables_cache

    def list_dependencies(self, obj: Any) -> Any:
        """The dependencies of one object."""
        obj._maybe_initialize_trackable()
        return obj._checkpoint_dependencies

    @property
    def saveables_cache(self) -> Any:
        return self._saveables_cache

    @property
    def root(self) -> Any:
        if isinstance(self._root_ref, weakref.ref):
            derefed = self._root_ref()
            assert derefed is not None
            return derefed
        return self._root_ref

    def _breadth_first_traversal(self) -> tuple[list[Any], Any]:
        """All objects, the root first, and the shortest path to each."""
        bfs_sorted: list[Any] = []
        to_visit = collections.deque([self.root])
        path_to_root = object_identity.ObjectIdentityDictionary()
        path_to_root[self.root] = ()
        while to_visit:
            current = to_visit.popleft()
            bfs_sorted.append(current)
            for name, dependency in self.list_dependencies(current):
                if dependency not in path_to_root:
                    path_to_root[dependency] = path_to_root[current] + (
                        base.TrackableReference(name=name, ref=dependency),
                    )
                    to_visit.append(dependency)
        return bfs_sorted, path_to_root

    def _named_and_numbered(self) -> tuple[list[Any], Any, Any, Any]:
        trackable_objects, path_to_root = self._breadth_first_traversal()
        object_names = object_identity.ObjectIdentityDictionary()
        for obj, path in path_to_root.items():
            object_names[obj] = _object_prefix_from_path(path)
        node_ids = object_identity.ObjectIdentityDictionary()
        for node_id, node in enumerate(trackable_objects):
            node_ids[node] = node_id
        slot_variables = _serialize_slot_variables(trackable_objects, node_ids, object_names)
        return trackable_objects, node_ids, object_names, slot_variables

    def objects_ids_and_slot_variables(self) -> tuple[list[Any], Any, Any]:
        """All objects, slots included; node ids by object; references to slots by optimizer."""
        trackable_objects, node_ids, _, slot_variables = self._named_and_numbered()
        return trackable_objects, node_ids, slot_variables

    def _saveables_of(self, trackable: Any, name: str, saveable_factory: Any, key: str) -> list[Any]:
        if self._saveables_cache is not None:
            cached = self._saveables_cache.setdefault(trackable, {}).get(name)
            if cached is not None and all(s.name == key or s.name.startswith(key) for s in cached):
                return list(cached)
        if callable(saveable_factory) and not isinstance(saveable_factory, base.Trackable):
            maybe_saveable = saveable_factory(name=key)
        else:
            maybe_saveable = saveable_factory
        if isinstance(maybe_saveable, saveable_object.SaveableObject):
            saveables = [maybe_saveable]
        else:
            saveables = list(saveable_object_util.saveable_objects_for_op(op=maybe_saveable, name=key))
        for saveable in saveables:
            if key not in saveable.name:
                raise AssertionError(
                    "The object %s produced a SaveableObject with name '%s' for attribute '%s'. Expected a name"
                    " containing '%s'." % (trackable, name, saveable.name, key)
                )
        if self._saveables_cache is not None:
            self._saveables_cache[trackable][name] = saveables
        return saveables

    def _add_attributes(self, trackable_objects: Any, object_names: Any, proto: Any) -> tuple[list[Any], Any]:
        """The saveables of all objects, which are written into `proto`, and what to feed when they are saved."""
        named_saveable_objects: list[Any] = []
        feed_additions: dict[Any, Any] = {}
        for index, trackable in enumerate(trackable_objects):
            object_proto = proto.nodes[index]
            for name, saveable_factory in trackable._gather_saveables_for_checkpoint().items():
                key = "%s/%s/%s" % (
                    object_names[trackable],
                    _OBJECT_ATTRIBUTES_NAME,
                    _escape_local_name(name),
                )
                attribute = object_proto.attributes.add(name=name, checkpoint_key=key)
                full_name = _full_name(trackable, saveable_factory)
                if full_name is not None:
                    attribute.full_name = full_name
                for saveable in self._saveables_of(trackable, name, saveable_factory, key):
                    if saveable.optional_restore:
                        attribute.optional_restore = True
                    if isinstance(saveable, saveable_object_util.PythonStringStateSaveable):
                        feed_additions.update(saveable.feed_dict_additions())
                    named_saveable_objects.append(saveable)
        return named_saveable_objects, feed_additions

    def _fill_object_graph_proto(self, trackable_objects: Any, node_ids: Any, slot_variables: Any) -> Any:
        from millrace.core.protobuf import trackable_object_graph_pb2

        proto = trackable_object_graph_pb2.TrackableObjectGraph()
        for node_id, trackable in enumerate(trackable_objects):
            assert node_ids[trackable] == node_id
            node = proto.nodes.add()
            for reference in slot_variables.get(trackable, ()):
                node.slot_variables.add(**reference._asdict())
            for child in self.list_dependencies(trackable):
                node.children.add(node_id=node_ids[child.ref], local_name=child.name)
        return proto

    def serialize_object_graph(self) -> tuple[list[Any], Any, Any]:
        """Saveables of everything, the TrackableObjectGraph, and a dict of what to feed when they are saved."""
        trackable_objects, node_ids, object_names, slot_variables = self._named_and_numbered()
        proto = self._fill_object_graph_proto(trackable_objects, node_ids, slot_variables)
        named_saveable_objects, feed_additions = self._add_attributes(trackable_objects, object_names, proto)
        return named_saveable_objects, proto, feed_additions

    def frozen_saveable_objects(self, object_map: Any = None, to_graph: Any = None) -> list[Any]:
        """Saveables of everything, with the object graph and the states of Python objects as they are now."""
        with (to_graph or ops.get_default_graph()).as_default():
            named_saveable_objects, proto, _ = self.serialize_object_graph()
            with ops.device("/cpu:0"):
                object_graph_tensor = constant_op.constant(proto.SerializeToString(), dtype=dtypes.string)
            frozen = [s.freeze() if hasattr(s, "freeze") else s for s in named_saveable_objects]
            frozen.append(
                saveable_object_util.NoRestoreSaveable(
                    tensor=object_graph_tensor, name=base.OBJECT_GRAPH_PROTO_KEY, device="/cpu:0"
                )
            )
            return frozen

    def list_objects(self) -> list[Any]:
        """All objects that can be reached, slots included."""
        return self.objects_ids_and_slot_variables()[0]


def _full_name(trackable: Any, saveable_factory: Any) -> str | None:
    """Name under which a Saver keeps a variable, None for other objects."""
    from millrace.python.ops import variables

    if not isinstance(saveable_factory, variables.Variable):
        return None
    names = saveable_object_util.op_list_to_dict([saveable_factory], convert_variable_to_tensor=False)
    return str(next(iter(names)))
