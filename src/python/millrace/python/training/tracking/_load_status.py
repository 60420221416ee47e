# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Results of restoring an object-based checkpoint: assertions about matches, and ops to run."""

from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import ops
from millrace.python.training.tracking import base
from millrace.python.training.tracking import data_structures
from millrace.python.util import object_identity


def get_session() -> Any:
    """The default session. Raises ValueError if there is none."""
    session = ops.get_default_session()
    if session is None:
        raise ValueError("No default session: pass `session`, or use `with session.as_default():`.")
    return session


class _LoadStatus(metaclass=abc.ABCMeta):
    """Base of the results of `restore`."""

    @abc.abstractmethod
    def assert_consumed(self) -> Any:
        """Raises AssertionError unless all values in the checkpoint and all Python objects were matched."""

    @abc.abstractmethod
    def assert_existing_objects_matched(self) -> Any:
        """Raises AssertionError unless everything that exists in Python was found in the checkpoint."""

    @abc.abstractmethod
    def assert_nontrivial_match(self) -> Any:
        """Raises AssertionError if only the root was found."""

    @abc.abstractmethod
    def run_restore_ops(self, session: Any = None) -> None:
        """Runs the ops that set the variables."""

    @abc.abstractmethod
    def initialize_or_restore(self, session: Any = None) -> None:
        """Sets the variables that are in the checkpoint and runs the initializers of the others."""

    def expect_partial(self) -> Any:
        """Suppresses warnings about parts of the checkpoint that are not used; returns the status."""
        return self


class _RootStatus(_LoadStatus):
    """A status with the reachable objects."""

    def __init__(self, graph_view: Any, restore_uid: int) -> None:
        self._graph_view = graph_view
        self._root = graph_view.root  # The view itself may hold the root weakly.
        self._restore_uid = restore_uid

    def _initializers(self, initialized: Any) -> list[Any]:
        """Initializers of variables that are not in `initialized` and got no value in this restoration."""
        return [
            obj.initializer
            for obj in self._graph_view.list_objects()
            if hasattr(obj, "initializer")
            and obj.initializer is not None
            and obj not in initialized
            and getattr(obj, "_update_uid", self._restore_uid - 1) < self._restore_uid
        ]


class CheckpointLoadStatus(_RootStatus):
    """Status of an object-based checkpoint."""

    def __init__(self, checkpoint: Any, feed_dict: Any, graph_view: Any) -> None:
        super().__init__(graph_view, checkpoint.restore_uid)
        self._checkpoint = checkpoint
        self._feed_dict = feed_dict

    def assert_consumed(self) -> Any:
        self.assert_existing_objects_matched()
        checkpoint = self._checkpoint
        for node_id, node in enumerate(checkpoint.object_graph_proto.nodes):
            trackable = checkpoint.object_by_proto_id.get(node_id, None)
            if trackable is None:
                raise AssertionError(
                    "Unresolved object in checkpoint %s: %s" % (_path(checkpoint, node_id), node)
                )
        if checkpoint.slot_restorations:
            raise AssertionError("Unresolved slot restorations: %s" % (checkpoint.slot_restorations,))
        if checkpoint.unused_attributes:
            messages = [
                "%s (%s): %s" % (_path(checkpoint, node_id), checkpoint.object_by_proto_id[node_id], names)
                for node_id, names in checkpoint.unused_attributes.items()
            ]
            raise AssertionError(
                "Unused attributes in these objects (the attributes exist in the checkpoint but were not"
                " restored):\n%s" % "\n".join(messages)
            )
        return self

    def _gather_python_objects(self) -> None:
        for trackable in self._graph_view.list_objects():
            if (
                isinstance(trackable, data_structures.TrackableDataStructure)
                and not trackable._checkpoint_dependencies
            ):
                continue
            self._checkpoint.all_python_objects.add(trackable)

    def _unused(self) -> Any:
        used = object_identity.ObjectIdentitySet(self._checkpoint.object_by_proto_id.values())
        return [obj for obj in self._checkpoint.all_python_objects if obj not in used]

    def assert_existing_objects_matched(self) -> Any:
        checkpoint = self._checkpoint
        for node_id, node in enumerate(checkpoint.object_graph_proto.nodes):
            trackable = checkpoint.object_by_proto_id.get(node_id, None)
            if trackable is not None and trackable._update_uid < checkpoint.restore_uid:
                raise AssertionError("Object not assigned a value from checkpoint: %s" % (node,))
        self._gather_python_objects()
        unused = self._unused()
        if unused:
            raise AssertionError(
                "Some Python objects were not bound to checkpointed values, likely due to changes in the Python"
                " program: %s" % (unused,)
            )
        return self

    def assert_nontrivial_match(self) -> Any:
        self._gather_python_objects()
        if len(self._checkpoint.object_by_proto_id) <= 1:
            unused = self._unused()
            if unused:
                raise AssertionError(
                    "Nothing except the root object matched a checkpointed value. Typically this means that the"
                    " checkpoint does not match the Python program. The following objects have no matching"
                    " checkpointed value: %s" % (unused,)
                )
            raise AssertionError(
                "Nothing to load. No dependencies have been added to %s yet." % (self._graph_view.root,)
            )
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        if ops.executing_eagerly():
            return  # already done
        session = get_session() if session is None else session
        session.run(self._checkpoint.restore_ops, feed_dict=self._feed_dict)

    def initialize_or_restore(self, session: Any = None) -> None:
        if ops.executing_eagerly():
            return  # already done
        session = get_session() if session is None else session
        restored = object_identity.ObjectIdentitySet(self._checkpoint.object_by_proto_id.values())
        initializers = self._initializers(restored)
        self.run_restore_ops(session=session)
        session.run(initializers)


def _path(checkpoint: Any, node_id: int) -> str:
    """A path of attributes, such as "root.optimizer", that leads to a node of the checkpoint."""
    names = {0: "(root)"}
    waiting = [0]
    while waiting:
        current = waiting.pop(0)
        for child in checkpoint.object_graph_proto.nodes[current].children:
            if child.node_id not in names:
                names[child.node_id] = names[current] + "." + child.local_name
                waiting.append(child.node_id)
    return names.get(node_id, "node %d" % node_id)


class InitializationOnlyStatus(_RootStatus):
    """Status without a checkpoint: there are only initializers to run."""

    def _nothing(self) -> Any:
        raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")

    def assert_consumed(self) -> Any:
        return self._nothing()

    def assert_existing_objects_matched(self) -> Any:
        return self._nothing()

    def assert_nontrivial_match(self) -> Any:
        return self._nothing()

    def run_restore_ops(self, session: Any = None) -> None:
        raise AssertionError(
            "No checkpoint specified, so no restore ops are available (save_path=None to Saver.restore)."
        )

    def initialize_or_restore(self, session: Any = None) -> None:
        if ops.executing_eagerly():
            return  # already done
        session = get_session() if session is None else session
        session.run(self._initializers(object_identity.ObjectIdentitySet()))


class NameBasedSaverStatus(_LoadStatus):
    """Status of a checkpoint that tf.train.Saver wrote: variables are found by their names."""

    def __init__(self, checkpoint: Any, graph_view: Any) -> None:
        self._checkpoint = checkpoint
        self._graph_view = graph_view
        self._root = graph_view.root
        self._optionally_restored: list[Any] = []

    def add_to_optionally_restored(self, var: Any) -> None:
        """Allows the checkpoint to lack `var`."""
        self._optionally_restored.append(var)

    def _saveables(self) -> list[Any]:
        from millrace.python.ops import variables
        from millrace.python.training.saving import saveable_object_util

        found = [v for v in self._graph_view.list_objects() if isinstance(v, variables.Variable)]
        saveables = saveable_object_util.validate_and_slice_inputs(found)
        optional = {v._shared_name for v in self._optionally_restored} - set(self._checkpoint.dtype_map)
        return [s for s in saveables if s.name not in optional]

    def assert_consumed(self) -> Any:
        self.assert_existing_objects_matched()
        known = {spec.name for saveable in self._saveables() for spec in saveable.specs}
        unused = set(self._checkpoint.dtype_map) - known - {base.OBJECT_GRAPH_PROTO_KEY}
        if unused:
            raise AssertionError(
                "Some values in the checkpoint have no object in Python: %s" % sorted(unused)
            )
        return self

    def assert_existing_objects_matched(self) -> Any:
        missing = [
            spec.name
            for saveable in self._saveables()
            for spec in saveable.specs
            if spec.name not in self._checkpoint.dtype_map
        ]
        if missing:
            raise AssertionError("Some objects were not found in the checkpoint: %s" % missing)
        return self

    def assert_nontrivial_match(self) -> Any:
        return self.assert_existing_objects_matched()

    def run_restore_ops(self, session: Any = None) -> None:
        from millrace.python.training import saver as saver_lib

        if ops.executing_eagerly():
            return  # already done
        session = get_session() if session is None else session
        with session.graph.as_default():
            saver_lib.Saver(self._saveables()).restore(
                sess=session, save_path=self._checkpoint.save_path_string
            )

    def initialize_or_restore(self, session: Any = None) -> None:
        self.run_restore_ops(session=session)


def gather_initializers(root_trackable: Any) -> list[Any]:
    """The initializers of everything that can be reached from an object."""
    from millrace.python.training.tracking import graph_view

    objects = graph_view.ObjectGraphView(root_trackable).list_objects()
    return [c.initializer for c in objects if hasattr(c, "initializer") and c.initializer is not None]


def streaming_restore(status: Any, session: Any = None) -> None:
    """Runs the ops of a status: restores, or initializes where there was no checkpoint.

    Raises:
      NotImplementedError: for a checkpoint that is found by names.
    """
    if isinstance(status, NameBasedSaverStatus):
        raise NotImplementedError(
            "Streaming restore not supported from name-based checkpoints when graph building. File a feature"
            " request if this limitation bothers you. As a workaround, consider either using tf.train.Checkpoint"
            " to load name-based checkpoints or enabling eager execution."
        )
    status.initialize_or_restore(session=session)


__all__ = [
    "CheckpointLoadStatus",
    "InitializationOnlyStatus",
    "NameBasedSaverStatus",
    "gather_initializers",
    "get_session",
    "streaming_restore",
]
