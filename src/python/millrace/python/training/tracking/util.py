# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint: saves and restores objects by the names of the attributes that lead to them."""

from __future__ import annotations

import collections
import os
import weakref
from typing import Any, Callable

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import errors_impl
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import variable_scope
from millrace.python.training import checkpoint_management
from millrace.python.training import py_checkpoint_reader
from millrace.python.training.saving import functional_saver
from millrace.python.training.saving import saveable_object_util
from millrace.python.training.tracking import base
from millrace.python.training.tracking import data_structures
from millrace.python.training.tracking import graph_view as graph_view_lib
from millrace.python.training.tracking import tracking
from millrace.python.training.tracking._load_status import CheckpointLoadStatus
from millrace.python.training.tracking._load_status import InitializationOnlyStatus
from millrace.python.training.tracking._load_status import NameBasedSaverStatus
from millrace.python.training.tracking._load_status import gather_initializers  # noqa: F401
from millrace.python.training import _eager_saving
from millrace.python.training.tracking._load_status import get_session
from millrace.python.training.tracking._load_status import streaming_restore  # noqa: F401
from millrace.python.util import compat
from millrace.python.util import object_identity
from millrace.python.util import tf_contextlib

__all__ = ["Checkpoint", "CheckpointV1", "TrackableSaver"]


class _CheckpointRestoreCoordinator:
    """The state of one restoration: the objects bound to nodes of the checkpoint, and its ops."""

    def __init__(
        self,
        object_graph_proto: Any,
        save_path: str,
        save_path_tensor: Any,
        restore_op_cache: Any,
        graph_view: Any,
        reader: Any,
    ) -> None:
        self.object_graph_proto = object_graph_proto
        # Restorations are numbered, so that an older one never overwrites a newer one.
        self.restore_uid = ops.uid()
        self.unused_attributes: dict[int, list[str]] = {}
        self.object_by_proto_id: Any = weakref.WeakValueDictionary()
        self.matched_proto_ids: set[int] = set()
        self.all_python_objects: Any = object_identity.ObjectIdentityWeakSet()
        self.save_path_tensor = save_path_tensor
        self.save_path_string = save_path
        self.reader = reader
        self.dtype_map = reader.get_variable_to_dtype_map()
        self.shape_map = reader.get_variable_to_shape_map()
        self.restore_ops: list[Any] = []
        self.restore_ops_by_name = restore_op_cache
        self.graph_view = graph_view
        self.new_restore_ops_callback: Callable[[Any], None] | None = None
        # Node of an optimizer -> slots whose optimizer is not known yet; node of a variable -> its slots.
        self.deferred_slot_restorations: dict[int, list[Any]] = {}
        self.slot_restorations: dict[int, list[Any]] = collections.OrderedDict()
        for node_index, node in enumerate(self.object_graph_proto.nodes):
            for slot_reference in node.slot_variables:
                self.slot_restorations.setdefault(slot_reference.original_variable_node_id, []).append(
                    base._SlotVariableRestoration(
                        optimizer_id=node_index,
                        slot_variable_id=slot_reference.slot_variable_node_id,
                        slot_name=slot_reference.slot_name,
                    )
                )

    def new_restore_ops(self, new_ops: Any) -> None:
        self.restore_ops.extend(new_ops)
        if self.new_restore_ops_callback:
            self.new_restore_ops_callback(new_ops)


class _NameBasedRestoreCoordinator:
    """A checkpoint of tf.train.Saver that is restored into objects."""

    def __init__(self, save_path: str, reader: Any) -> None:
        self.save_path_string = save_path
        self.dtype_map = reader.get_variable_to_dtype_map()
        self._reader = reader

    def eager_restore(self, trackable: Any) -> None:
        """Sets a variable now."""
        _eager_saving.restore_by_name(trackable, self._reader)


def object_metadata(save_path: str) -> Any:
    """The TrackableObjectGraph of a checkpoint.

    Raises:
      ValueError: if the checkpoint is not one of objects.
    """
    from millrace.core.protobuf import trackable_object_graph_pb2

    reader = py_checkpoint_reader.NewCheckpointReader(save_path)
    try:
        object_graph_string = reader.get_tensor(base.OBJECT_GRAPH_PROTO_KEY)
    except errors_impl.NotFoundError:
        raise ValueError(
            'The specified checkpoint "%s" does not appear to be object-based (saved with TF2) since it is missing'
            ' the key "%s". Likely it was created with the TF1 name-based saver and does not contain an object'
            " dependency graph." % (save_path, base.OBJECT_GRAPH_PROTO_KEY)
        ) from None
    proto = trackable_object_graph_pb2.TrackableObjectGraph()
    proto.ParseFromString(object_graph_string)
    return proto


def list_objects(root_trackable: Any) -> list[Any]:
    """Everything that can be reached from an object, itself first."""
    return graph_view_lib.ObjectGraphView(root_trackable).list_objects()


def _default_getter(
    name: str, shape: Any, dtype: Any, initializer: Any = None, partition_info: Any = None, **kwargs: Any
) -> Any:
    """Makes a resource variable whose initializer is a function of shape and type, or a value."""
    del partition_info
    dtype = dtypes.as_dtype(dtype)
    shape_object = tensor_shape.as_shape(shape)
    with ops.init_scope():
        if initializer is None:
            initializer = (
                init_ops.glorot_uniform_initializer() if dtype.is_floating else init_ops.zeros_initializer()
            )
        if isinstance(initializer, type):
            initializer = initializer(dtype=dtype)
        if callable(initializer):
            make = initializer

            def initial_value() -> Any:
                return make(shape_object.as_list(), dtype=dtype)

            given: Any = initial_value
        else:
            if shape is not None:
                raise ValueError("If initializer is a constant, do not specify shape.")
            given = initializer
        return variable_scope.variable(given, name=name, dtype=dtype, use_resource=True, **kwargs)


def add_variable(
    trackable: Any,
    name: str,
    shape: Any = None,
    dtype: Any = dtypes.float32,
    initializer: Any = None,
    trainable: bool = True,
) -> Any:
    """Makes a resource variable on which `trackable` depends under `name`."""
    return trackable._add_variable_with_custom_getter(
        name=name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        getter=_default_getter,
        trainable=trainable,
    )


@tf_contextlib.contextmanager
def capture_dependencies(template: Any) -> Any:
    """Within the context, variables made with get_variable become dependencies of `template`."""
    name_prefix = template.variable_scope.name

    def _trackable_custom_creator(
        next_creator: Any, name: str, initial_value: Any, trackable_parent: Any = None, **kwargs: Any
    ) -> Any:
        def _call_next_creator_renaming_initializer(initializer: Any, **inner_kwargs: Any) -> Any:
            inner_kwargs.pop("name")  # The full name is passed on below.
            return next_creator(initial_value=initializer, name=name, **inner_kwargs)

        if name is not None and name.startswith(name_prefix):
            scope_stripped_name = name[len(name_prefix) + 1 :]
            if not trackable_parent:
                return template._add_variable_with_custom_getter(
                    initializer=initial_value,
                    name=scope_stripped_name,
                    getter=_call_next_creator_renaming_initializer,
                    overwrite=True,
                    trackable_parent=(template, name_prefix),
                    **kwargs,
                )
            parent_object, parent_name_prefix = trackable_parent
            template._track_trackable(
                parent_object, name=parent_name_prefix[len(name_prefix) + 1 :], overwrite=True
            )
        return next_creator(
            name=name, initial_value=initial_value, trackable_parent=(template, name_prefix), **kwargs
        )

    with variable_scope.variable_creator_scope(_trackable_custom_creator):
        yield


def _make_directory(file_prefix: str) -> None:
    directory = os.path.dirname(file_prefix)
    if directory:
        from millrace.python.lib.io import file_io

        file_io.recursive_create_dir(directory)


class TrackableSaver:
    """Saves and restores everything that a graph view reaches."""

    def __init__(self, graph_view: Any) -> None:
        # The file name is fed, so that one set of ops serves all checkpoints of a graph.
        self._file_prefix_placeholder: Any = None
        self._object_graph_feed_tensor: Any = None
        self._last_save_object_graph: Any = None
        self._cached_save_operation: Any = None
        self._restore_op_cache: dict[str, Any] = {}
        self._graph_view = graph_view

    def _gather_saveables(self, object_graph_tensor: Any = None) -> tuple[list[Any], Any, Any]:
        named, graph_proto, feed_additions = self._graph_view.serialize_object_graph()
        if object_graph_tensor is None:
            with ops.device("/cpu:0"):
                object_graph_tensor = constant_op.constant(
                    graph_proto.SerializeToString(), dtype=dtypes.string
                )
        else:
            feed_additions[object_graph_tensor] = graph_proto.SerializeToString()
        named.append(
            saveable_object_util.NoRestoreSaveable(
                tensor=object_graph_tensor, name=base.OBJECT_GRAPH_PROTO_KEY, device="/cpu:0"
            )
        )
        return named, graph_proto, feed_additions

    def save(self, file_prefix: Any, checkpoint_number: Any = None, session: Any = None) -> str:
        """Writes a checkpoint; returns its prefix, with `checkpoint_number` at its end where one is given."""
        if checkpoint_number is not None:
            file_prefix = "%s-%d" % (file_prefix, int(checkpoint_number))
        file_prefix = os.fspath(file_prefix)
        if ops.executing_eagerly():
            _make_directory(file_prefix)
            return _eager_saving.save_objects(self._graph_view, file_prefix)
        session = get_session() if session is None else session
        with session.graph.as_default():
            if self._object_graph_feed_tensor is None:
                with ops.device("/cpu:0"):
                    self._object_graph_feed_tensor = constant_op.constant("", dtype=dtypes.string)
                    self._file_prefix_placeholder = constant_op.constant("model", dtype=dtypes.string)
            saveables, proto, feed_dict = self._gather_saveables(self._object_graph_feed_tensor)
            # New ops only where the objects have changed.
            if self._last_save_object_graph != proto:
                with ops.device("/cpu:0"):
                    save_op = functional_saver.MultiDeviceSaver(saveables).save(self._file_prefix_placeholder)
                    with ops.control_dependencies([save_op]):
                        self._cached_save_operation = array_ops.identity(self._file_prefix_placeholder)
                self._last_save_object_graph = proto
            feed_dict[self._file_prefix_placeholder] = file_prefix
            _make_directory(file_prefix)
            return compat.as_str(session.run(self._cached_save_operation, feed_dict=feed_dict))

    def restore(self, save_path: Any) -> Any:
        """Binds objects to the values in the checkpoint; returns a status, whose ops do the rest."""
        from millrace.core.protobuf import trackable_object_graph_pb2

        if save_path is None:
            return InitializationOnlyStatus(self._graph_view, ops.uid())
        save_path = os.fspath(save_path)
        reader = py_checkpoint_reader.NewCheckpointReader(save_path)
        try:
            object_graph_string = reader.get_tensor(base.OBJECT_GRAPH_PROTO_KEY)
        except errors_impl.NotFoundError:
            by_name = _NameBasedRestoreCoordinator(save_path, reader)
            if ops.executing_eagerly():
                for existing in self._graph_view.list_objects():
                    existing._maybe_initialize_trackable()
                    existing._self_name_based_restores.add(by_name)
                    by_name.eager_restore(existing)
            return NameBasedSaverStatus(by_name, self._graph_view)
        eager = ops.executing_eagerly()
        if eager:
            prefix: Any = constant_op.constant(save_path)
        elif self._file_prefix_placeholder is None:
            with ops.device("/cpu:0"):
                self._file_prefix_placeholder = constant_op.constant("model", dtype=dtypes.string)
                self._object_graph_feed_tensor = constant_op.constant("", dtype=dtypes.string)
        object_graph_proto = trackable_object_graph_pb2.TrackableObjectGraph()
        object_graph_proto.ParseFromString(object_graph_string)
        checkpoint = _CheckpointRestoreCoordinator(
            object_graph_proto=object_graph_proto,
            save_path=save_path,
            save_path_tensor=prefix if eager else self._file_prefix_placeholder,
            restore_op_cache={} if eager else self._restore_op_cache,
            graph_view=self._graph_view,
            reader=reader,
        )
        base.CheckpointPosition(checkpoint=checkpoint, proto_id=0).restore(self._graph_view.root)
        # Objects that are no named attributes, such as slots, are found through the graph view.
        return CheckpointLoadStatus(
            checkpoint,
            graph_view=self._graph_view,
            feed_dict={} if eager else {self._file_prefix_placeholder: save_path},
        )


def frozen_saver(root_trackable: Any) -> Any:
    """A functional saver of the objects in their present state."""
    named = graph_view_lib.ObjectGraphView(root_trackable).frozen_saveable_objects()
    return functional_saver.MultiDeviceSaver(named)


def saver_with_op_caching(obj: Any) -> TrackableSaver:
    """A TrackableSaver that makes its ops once in each graph."""
    cache = object_identity.ObjectIdentityWeakKeyDictionary()
    return TrackableSaver(graph_view_lib.ObjectGraphView(weakref.ref(obj), saveables_cache=cache))


class CheckpointV1(tracking.AutoTrackable):
    """Groups objects to save and restore: `Checkpoint(model=model, optimizer=optimizer)`.

    Each object is found in the checkpoint by the names of the attributes that lead to it, independent of
    names of variables: a program may create variables in another order, or later.
    """

    def __init__(self, **kwargs: Any) -> None:
        """Makes a checkpoint of objects.

        Args:
          **kwargs: Trackables, each of which becomes an attribute.

        Raises:
          ValueError: if a value is not trackable.
        """
        super().__init__()
        for k, v in sorted(kwargs.items(), key=lambda item: item[0]):
            if not isinstance(v, base.Trackable) and not isinstance(v, (list, dict)):
                raise ValueError(
                    "`Checkpoint` was expecting a trackable object (an object derived from `TrackableBase`), got"
                    " %s. If you believe this object should be trackable (i.e. it is part of the TensorFlow Python"
                    " API and manages state), please open an issue." % (v,)
                )
            setattr(self, k, v)
        self._save_counter: Any = None
        self._save_assign_op: Any = None
        self._saver = saver_with_op_caching(self)

    def _maybe_create_save_counter(self) -> None:
        if self._save_counter is None:
            with ops.device("/cpu:0"):
                self._save_counter = data_structures.NoDependency(
                    add_variable(
                        self, name="save_counter", initializer=0, dtype=dtypes.int64, trainable=False
                    )
                )

    @property
    def save_counter(self) -> Any:
        """The variable that counts how often `save` was called: a part of each checkpoint."""
        self._maybe_create_save_counter()
        return self._save_counter

    def write(self, file_prefix: Any, session: Any = None) -> str:
        """Writes a checkpoint with exactly this prefix, no counter and no state file; returns the prefix."""
        return self._saver.save(file_prefix=file_prefix, session=session)

    def save(self, file_prefix: Any, session: Any = None) -> str:
        """Writes a checkpoint "PREFIX-N", N from the counter, and the state file; returns its prefix."""
        file_prefix = os.fspath(file_prefix)
        if ops.executing_eagerly():
            self.save_counter.assign_add(1)
            return self._record(file_prefix, self.write("%s-%d" % (file_prefix, int(self.save_counter))))
        session = get_session() if session is None else session
        with session.graph.as_default():
            if self._save_counter is None:
                # The new counter is initialised in this session.
                session.run(self.save_counter.initializer)
            if self._save_assign_op is None:
                with ops.colocate_with(self.save_counter):
                    self._save_assign_op = data_structures.NoDependency(
                        self.save_counter.assign_add(1, read_value=True)
                    )
            checkpoint_number = session.run(self._save_assign_op)
        return self._record(
            file_prefix, self.write("%s-%d" % (file_prefix, checkpoint_number), session=session)
        )

    @staticmethod
    def _record(file_prefix: str, file_path: str) -> str:
        """Writes the state file."""
        checkpoint_management.update_checkpoint_state_internal(
            save_dir=os.path.dirname(file_prefix),
            model_checkpoint_path=file_path,
            all_model_checkpoint_paths=[file_path],
            save_relative_paths=True,
        )
        return file_path

    def restore(self, save_path: Any) -> Any:
        """Restores from a prefix (None: nothing, so that `initialize_or_restore` initializes).

        Returns:
          A status with `assert_consumed()`, `assert_existing_objects_matched()`, `expect_partial()`, and, in
          graphs, `run_restore_ops(session)` and `initialize_or_restore(session)`, one of which must be called.
        """
        status = self._saver.restore(save_path=save_path)
        # The counter is made now, so that it is initialized with the other variables.
        self._maybe_create_save_counter()
        if isinstance(status, NameBasedSaverStatus):
            status.add_to_optionally_restored(self.save_counter)
        return status


Checkpoint = CheckpointV1
