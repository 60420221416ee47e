# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Saver: writes variables to checkpoints and reads them back; graphs with their collections as MetaGraphDefs."""

from __future__ import annotations

import os.path
import time
from typing import Any

from millrace.python.client import session
from millrace.python.framework import errors
from millrace.python.framework import ops
from millrace.python.lib.io import file_io
from millrace.python.ops import variables
from millrace.python.platform import tf_logging as logging
from millrace.python.training import _eager_saving
from millrace.python.training import _saver_builder
from millrace.python.training import checkpoint_management
from millrace.python.training import training_util
from millrace.python.training._saver_builder import BaseSaverBuilder
from millrace.python.training._saver_builder import BulkSaverBuilder
from millrace.python.training._saver_meta_graph import _import_meta_graph_with_return_elements
from millrace.python.training._saver_meta_graph import export_meta_graph
from millrace.python.training._saver_meta_graph import import_meta_graph
from millrace.python.training._saver_objects import object_graph_key_mapping
from millrace.python.training._saver_objects import saver_from_object_based_checkpoint
from millrace.python.util import compat

# Names that the module had before its parts moved.
get_checkpoint_state = checkpoint_management.get_checkpoint_state
update_checkpoint_state = checkpoint_management.update_checkpoint_state
generate_checkpoint_state_proto = checkpoint_management.generate_checkpoint_state_proto
latest_checkpoint = checkpoint_management.latest_checkpoint
checkpoint_exists = checkpoint_management.checkpoint_exists
get_checkpoint_mtimes = checkpoint_management.get_checkpoint_mtimes
remove_checkpoint = checkpoint_management.remove_checkpoint

__all__ = ["BaseSaverBuilder", "BulkSaverBuilder", "Saver", "export_meta_graph", "import_meta_graph"]

_V1_WARNING = """*******************************************************
TensorFlow's V1 checkpoint format has been deprecated.
Consider switching to the more efficient V2 format:
   `tf.train.Saver(write_version=tf.train.SaverDef.V2)`
now on by default.
*******************************************************"""


def _get_saver_or_default() -> Any:
    """The saver of the collection SAVERS; a sharded one of all variables, added there, if there is none."""
    collection_key = ops.GraphKeys.SAVERS
    savers = ops.get_collection(collection_key)
    if savers:
        if len(savers) > 1:
            raise RuntimeError(
                "More than one item in collection {}. "
                "Please indicate which one to use by passing it to the constructor.".format(collection_key)
            )
        return savers[0]
    saver = Saver(sharded=True, allow_empty=True)
    ops.add_to_collection(collection_key, saver)
    return saver


def _wrap_restore_error_with_msg(err: Any, extra_verbiage: str) -> Any:
    return err.__class__(
        err.node_def,
        err.op,
        "Restoring from checkpoint failed. This is most likely due to {} from the checkpoint. Please ensure"
        " that you have not altered the graph expected based on the checkpoint. Original error:\n\n{}".format(
            extra_verbiage, err.message
        ),
    )


class Saver:
    """Saves variables to checkpoints and restores them.

    `save(sess, "model", global_step=7)` writes model-7.index, model-7.data-00000-of-00001 and model-7.meta, and
    the state file `checkpoint`, which lists the checkpoints that are kept.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = _saver_builder.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        """Makes the ops, unless `defer_build`.

        Args:
          var_list: variables and saveables, in a list or a dict by names in the checkpoint; all if None.
          reshape: whether a value of another shape with the same size may be restored; variables keep their
            shape.
          sharded: whether each device writes files of its own.
          max_to_keep: the number of checkpoints kept; None or 0 for all.
          keep_checkpoint_every_n_hours: one checkpoint of each such period is never deleted.
          name: scope of the ops.
          restore_sequentially: whether to restore variables one after the other, which needs less memory.
          saver_def: SaverDef that names the ops of another Saver, instead of making any.
          builder: SaverBuilder; BulkSaverBuilder by default.
          defer_build: whether the ops are made by a call of `build` instead.
          allow_empty: whether a graph without variables is no error.
          write_version: format, of SaverDef.CheckpointFormatVersion.
          pad_step_number: whether to write the step with eight digits.
          save_relative_paths: whether paths in the state file are relative to it.
          filename: default of the fed name of the file.

        Raises:
          TypeError: if `var_list` is not valid.
          ValueError: if a name occurs twice, or there is nothing to save.
        """
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. "
                "Either set defer_build=False or var_list=None."
            )
        if saver_def is not None and not hasattr(saver_def, "restore_op_name"):
            raise ValueError("saver_def must be a saver_pb2.SaverDef: %s" % (saver_def,))
        if builder is not None and not isinstance(builder, BaseSaverBuilder):
            raise TypeError("builder must be a BaseSaverBuilder, got: %r" % (builder,))
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._restore_sequentially = restore_sequentially
        self.saver_def = saver_def
        self._builder = builder
        self._is_built = False
        self._allow_empty = allow_empty
        self._is_empty: bool | None = None
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._filename = filename
        # Pairs (prefix, time), oldest first.
        self._last_checkpoints: list[tuple[str, float]] = []
        self._save_guard: Any = None  # from a ChiefLease: set if another worker may become the chief
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        self._next_checkpoint_time = 0.0
        self._object_restore_saver: Any = None
        self._save_relative_paths = save_relative_paths
        if ops.executing_eagerly():
            if var_list is None:
                raise RuntimeError(
                    "When eager execution is enabled, `var_list` must specify a list or dict of variables to save"
                )
            from millrace.core.protobuf import saver_pb2

            self._is_empty = False
            self._next_checkpoint_time = time.time() + keep_checkpoint_every_n_hours * 3600
            self.saver_def = saver_pb2.SaverDef(
                max_to_keep=max_to_keep or 0,
                keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
                version=write_version,
            )
            return
        if not defer_build:
            self.build()
        if self.saver_def:
            self._check_saver_def()
            self._write_version = self.saver_def.version

    def build(self) -> None:
        """Makes the ops, once. Raises: as the constructor."""
        if self._is_built:
            return
        if ops.executing_eagerly():
            raise RuntimeError("Use save/restore instead of build in eager mode.")
        self._is_built = True
        if not self.saver_def:
            if self._builder is None:
                self._builder = BulkSaverBuilder(self._write_version)
            if self._var_list is None:
                self._var_list = variables._all_saveable_objects()
            if not self._var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self._is_empty = False
            self.saver_def = self._builder._build_internal(
                self._var_list,
                reshape=self._reshape,
                sharded=self._sharded,
                max_to_keep=self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                name=self._name,
                restore_sequentially=self._restore_sequentially,
                filename=self._filename,
                build_save=True,
                build_restore=True,
            )
        elif self._name:
            # The ops are in the scope into which the graph was imported.
            definition = type(self.saver_def)()
            definition.CopyFrom(self.saver_def)
            self.saver_def = definition
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                setattr(definition, field, ops.prepend_name_scope(getattr(definition, field), self._name))
        self._check_saver_def()
        self._next_checkpoint_time = time.time() + self.saver_def.keep_checkpoint_every_n_hours * 3600

    def _check_saver_def(self) -> None:
        from millrace.core.protobuf import saver_pb2

        if not isinstance(self.saver_def, saver_pb2.SaverDef):
            raise ValueError("saver_def must be a saver_pb2.SaverDef: %s" % self.saver_def)
        if not self.saver_def.save_tensor_name:
            raise ValueError("saver_def must specify the save_tensor_name: %s" % str(self.saver_def))
        if not self.saver_def.restore_op_name:
            raise ValueError("saver_def must specify the restore_op_name: %s" % str(self.saver_def))

    def _CheckpointFilename(self, p: Any) -> str:  # noqa: N802
        name: str = p[0]
        return name

    def _RecordLastCheckpoint(self, latest_save_path: str) -> None:  # noqa: N802
        """Appends a checkpoint to the list, and moves those over the limit to the list of those to be deleted."""
        if not self.saver_def.max_to_keep or self.saver_def.max_to_keep <= 0:
            return
        self._last_checkpoints = [p for p in self._last_checkpoints if p[0] != latest_save_path]
        self._last_checkpoints.append((latest_save_path, time.time()))
        if len(self._last_checkpoints) > self.saver_def.max_to_keep:
            self._checkpoints_to_be_deleted.append(self._last_checkpoints.pop(0))

    def _MaybeDeleteOldCheckpoints(self, meta_graph_suffix: str = "meta") -> None:  # noqa: N802
        """Deletes the oldest checkpoint over the limit, unless `keep_checkpoint_every_n_hours` keeps it."""
        if not self._checkpoints_to_be_deleted:
            return
        name, written = self._checkpoints_to_be_deleted.pop(0)
        if written > self._next_checkpoint_time:
            self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * 3600
            return
        try:
            checkpoint_management.remove_checkpoint(name, self.saver_def.version, meta_graph_suffix)
        except Exception as e:
            logging.warning("Ignoring: %s", str(e))

    def as_saver_def(self) -> Any:
        """The SaverDef."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaverDef with names relative to `export_scope`; None where the ops are not in it."""
        from millrace.core.protobuf import saver_pb2

        if export_scope is None:
            return self.saver_def
        if not (
            self.saver_def.filename_tensor_name.startswith(export_scope)
            and self.saver_def.save_tensor_name.startswith(export_scope)
            and self.saver_def.restore_op_name.startswith(export_scope)
        ):
            return None
        result = saver_pb2.SaverDef()
        result.CopyFrom(self.saver_def)
        for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            setattr(result, field, ops.strip_name_scope(getattr(result, field), export_scope))
        return result

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """A Saver of the ops that a SaverDef names, below `import_scope`."""
        return Saver(saver_def=saver_def, name=import_scope)

    @property
    def last_checkpoints(self) -> list[str]:
        """Prefixes of the checkpoints that are kept, oldest first."""
        return [self._CheckpointFilename(p) for p in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: Any) -> None:
        """Sets the list of kept checkpoints, whose times are taken as unknown."""
        assert isinstance(last_checkpoints, list)
        self._last_checkpoints = [(s, float("inf")) for s in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Any) -> None:
        """Sets the list of kept checkpoints as pairs (prefix, time)."""
        assert isinstance(last_checkpoints_with_time, list)
        self._last_checkpoints = last_checkpoints_with_time

    def recover_last_checkpoints(self, checkpoint_paths: Any) -> None:
        """Adds the checkpoints of an earlier run, oldest first, to the list; deleted ones are left out."""
        checkpoints_with_mtimes = []
        for checkpoint_path in checkpoint_paths:
            try:
                mtimes = checkpoint_management.get_checkpoint_mtimes([checkpoint_path])
            except errors.NotFoundError:
                continue
            if mtimes:
                checkpoints_with_mtimes.append((checkpoint_path, mtimes[0]))
        self.set_last_checkpoints_with_time(checkpoints_with_mtimes)

    def _checkpoint_file(self, sess: Any, save_path: str, global_step: Any, latest_filename: str) -> str:
        if global_step is not None:
            if not isinstance(global_step, compat.integral_types):
                global_step = training_util.global_step(sess, global_step)
            if self._pad_step_number:
                return "%s-%s" % (save_path, "{:08d}".format(global_step))
            return "%s-%d" % (save_path, global_step)
        if os.path.basename(save_path) == latest_filename and not self._sharded:
            # The checkpoint and the state file would have the same name.
            raise ValueError(
                "'latest_filename' collides with 'save_path': '%s' and '%s'" % (latest_filename, save_path)
            )
        return save_path

    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Writes a checkpoint.

        Args:
          sess: session whose variables are saved.
          save_path: prefix of the files.
          global_step: number, or tensor, that is appended to the prefix.
          latest_filename: name of the state file, "checkpoint" by default.
          meta_graph_suffix: of the file with the graph.
          write_meta_graph: whether to write that.
          write_state: whether to write the state file and to delete old checkpoints.
          strip_default_attrs: leave attributes that have their defaults out of the graph.
          save_debug_info: also write a file ".debug" with the Python lines that made the operations.

        Returns:
          The prefix, with which `restore` can be called; None where there was nothing to save.

        Raises:
          TypeError: if `sess` is not a session.
          ValueError: if `latest_filename` is not valid, or the folder does not exist.
          RuntimeError: if `build` was deferred and not called.
        """
        eager = ops.executing_eagerly()
        if not self._is_built and not eager:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        save_path = os.fspath(save_path)
        if latest_filename is None:
            latest_filename = "checkpoint"
        if self._write_version != _saver_builder.V2:
            for line in _V1_WARNING.split("\n"):
                logging.warning("%s", line)
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        if not eager and not isinstance(sess, session.SessionInterface):
            raise TypeError("'sess' must be a Session; %s" % sess)
        checkpoint_file = self._checkpoint_file(sess, save_path, global_step, latest_filename)
        if self._save_guard is not None:
            self._save_guard.check()
        save_path_parent = os.path.dirname(save_path)
        model_checkpoint_path = None
        if not self._is_empty:
            try:
                if eager:
                    written = _eager_saving.save_variables(self._var_list, checkpoint_file)
                else:
                    written = sess.run(
                        self.saver_def.save_tensor_name,
                        {self.saver_def.filename_tensor_name: checkpoint_file},
                    )
                model_checkpoint_path = compat.as_str(written)
                if self._save_guard is not None:
                    self._save_guard.check()
                if write_state:
                    self._RecordLastCheckpoint(model_checkpoint_path)
                    checkpoint_management.update_checkpoint_state_internal(
                        save_dir=save_path_parent,
                        model_checkpoint_path=model_checkpoint_path,
                        all_model_checkpoint_paths=self.last_checkpoints,
                        latest_filename=latest_filename,
                        save_relative_paths=self._save_relative_paths,
                    )
                    self._MaybeDeleteOldCheckpoints(meta_graph_suffix=meta_graph_suffix)
            except (errors.FailedPreconditionError, errors.NotFoundError):
                if save_path_parent and not file_io.is_directory(save_path_parent):
                    raise ValueError("Parent directory of {} doesn't exist, can't save.".format(save_path))
                raise
        if write_meta_graph and not eager:
            meta_graph_filename = checkpoint_management.meta_graph_filename(
                checkpoint_file, meta_graph_suffix=meta_graph_suffix
            )
            with sess.graph.as_default():
                self.export_meta_graph(
                    meta_graph_filename,
                    strip_default_attrs=strip_default_attrs,
                    save_debug_info=save_debug_info,
                )
        return None if self._is_empty else model_checkpoint_path

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Any = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """Writes the default graph, its collections and this Saver as a MetaGraphDef, which is returned."""
        return export_meta_graph(
            filename=filename,
            graph_def=ops.get_default_graph().as_graph_def(add_shapes=True),
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info,
        )

    def restore(self, sess: Any, save_path: Any) -> None:
        """Sets the variables in `sess` to their values in the checkpoint `save_path`, a prefix.

        Raises:
          ValueError: if there is no such checkpoint.
          NotFoundError, InvalidArgumentError: if it does not fit the graph.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        checkpoint_prefix = compat.as_text(os.fspath(save_path))
        if not checkpoint_management.checkpoint_exists(checkpoint_prefix):
            raise ValueError("The passed save_path is not a valid checkpoint: " + checkpoint_prefix)
        logging.info("Restoring parameters from %s", checkpoint_prefix)
        if ops.executing_eagerly():
            _eager_saving.restore_variables(self._var_list, checkpoint_prefix)
            return
        try:
            sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: checkpoint_prefix})
        except errors.NotFoundError as err:
            # Object-based checkpoints have paths of attributes as keys, and contain the variables' names as
            # well.
            try:
                names_to_keys = object_graph_key_mapping(checkpoint_prefix)
            except errors.NotFoundError:
                raise _wrap_restore_error_with_msg(
                    err, "a Variable name or other graph key that is missing"
                ) from None
            logging.warning(
                "Restoring an object-based checkpoint using a name-based saver. This may be somewhat fragile,"
                " and will re-build the Saver. Instead, consider loading object-based checkpoints using"
                " tf.train.Checkpoint()."
            )
            self._object_restore_saver = saver_from_object_based_checkpoint(
                checkpoint_path=checkpoint_prefix,
                var_list=self._var_list,
                builder=self._builder,
                names_to_keys=names_to_keys,
                cached_saver=self._object_restore_saver,
            )
            self._object_restore_saver.restore(sess=sess, save_path=checkpoint_prefix)
        except errors.InvalidArgumentError as err:
            raise _wrap_restore_error_with_msg(
                err, "a mismatch between the current graph and the graph"
            ) from None


def _saver_def_type() -> Any:
    from millrace.core.protobuf import saver_pb2

    return saver_pb2.SaverDef


ops.register_proto_function(
    ops.GraphKeys.SAVERS, proto_type=_saver_def_type, to_proto=Saver.to_proto, from_proto=Saver.from_proto
)
