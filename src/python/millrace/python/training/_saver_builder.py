# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The ops of a Saver, which write all variables to files and restore them."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import device as pydev
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gen_io_ops
from millrace.python.ops import io_ops
from millrace.python.ops import string_ops
from millrace.python.training.saving import saveable_object
from millrace.python.training.saving import saveable_object_util


# Formats of checkpoints, as in SaverDef.CheckpointFormatVersion.
V1 = 1
V2 = 2


def _set_cpu0(device_string: Any) -> str:
    return saveable_object_util.set_cpu0(device_string)


class BaseSaverBuilder:
    """Builds the ops of a Saver and the SaverDef that names them. Subclasses may change how tensors are read and
    written."""

    SaveSpec = saveable_object.SaveSpec
    SaveableObject = saveable_object.SaveableObject
    VariableSaveable = saveable_object_util.ReferenceVariableSaveable
    ResourceVariableSaveable = saveable_object_util.ResourceVariableSaveable

    def __init__(self, write_version: int = V2) -> None:
        self._write_version = write_version

    @staticmethod
    def OpListToDict(op_list: Any, convert_variable_to_tensor: bool = True) -> dict[str, Any]:  # noqa: N802
        return saveable_object_util.op_list_to_dict(op_list, convert_variable_to_tensor)

    def save_op(self, filename_tensor: Any, saveables: Any) -> Any:
        """The op that writes `saveables` to the file or prefix `filename_tensor`.

        Raises:
          RuntimeError: if the format is not known.
        """
        names, tensors, slices = [], [], []
        for saveable in saveables:
            for spec in saveable.specs:
                names.append(spec.name)
                tensors.append(spec.tensor)
                slices.append(spec.slice_spec)
        if self._write_version == V1:
            return gen_io_ops.save_slices(filename_tensor, names, slices, tensors, name="save")
        if self._write_version == V2:
            return io_ops.save_v2(filename_tensor, names, slices, tensors)
        raise RuntimeError("Unexpected write_version: " + str(self._write_version))

    def bulk_restore(
        self, filename_tensor: Any, saveables: Any, preferred_shard: int, restore_sequentially: bool
    ) -> list[Any]:
        """Tensors read for all specs of all saveables: one op for each, on its device."""
        del restore_sequentially
        all_tensors: list[Any] = []
        for saveable in saveables:
            with ops.device(_set_cpu0(saveable.device) if saveable.device else None):
                all_tensors.extend(self.restore_op(filename_tensor, saveable, preferred_shard))
        return all_tensors

    def restore_op(self, filename_tensor: Any, saveable: Any, preferred_shard: int) -> list[Any]:
        """Tensors read for the specs of one saveable."""
        tensors = []
        for spec in saveable.specs:
            tensors.append(
                io_ops.restore_v2(filename_tensor, [spec.name], [spec.slice_spec], [spec.dtype])[0]
            )
        return tensors

    def sharded_filename(self, filename_tensor: Any, shard: int, num_shards: Any) -> Any:
        """The name of a shard's file: prefix-SSSSS-of-NNNNN."""
        return gen_io_ops.sharded_filename(filename_tensor, shard, num_shards)

    def _AddSaveOps(self, filename_tensor: Any, saveables: Any) -> Any:  # noqa: N802
        """The name, as a tensor that exists after everything is saved."""
        save = self.save_op(filename_tensor, saveables)
        return control_flow_ops.with_dependencies([save], filename_tensor)

    def _AddShardedSaveOpsForV2(self, checkpoint_prefix: Any, per_device: Any) -> Any:  # noqa: N802
        """Each device writes a shard of its own under a temporary prefix; one op then merges and renames them."""
        # Shards are written to a temporary folder; on object stores, which have no folders, to a prefix.
        with ops.device("CPU"):
            suffix = array_ops.where(
                string_ops.regex_full_match(checkpoint_prefix, "^s3://.*"),
                constant_op.constant(".part"),
                constant_op.constant("_temp_%s/part" % _unique_name()),
            )
        tmp_checkpoint_prefix = string_ops.string_join([checkpoint_prefix, suffix])
        num_shards = len(per_device)
        num_shards_tensor = constant_op.constant(num_shards, name="num_shards")
        sharded_saves, sharded_prefixes = [], []
        last_device = None
        for shard, (device, saveables) in enumerate(per_device):
            last_device = device
            with ops.device(_set_cpu0(device)):
                sharded_filename = self.sharded_filename(tmp_checkpoint_prefix, shard, num_shards_tensor)
                sharded_prefixes.append(sharded_filename)
                sharded_saves.append(self._AddSaveOps(sharded_filename, saveables))
        with ops.control_dependencies([x.op for x in sharded_saves]):
            with ops.device(_set_cpu0(last_device)):
                merge_step = gen_io_ops.merge_v2_checkpoints(
                    sharded_prefixes, checkpoint_prefix, delete_old_dirs=True
                )
                with ops.control_dependencies([merge_step]):
                    # A consumer of this name finds the whole checkpoint.
                    return array_ops.identity(checkpoint_prefix)

    def _AddShardedSaveOps(self, filename_tensor: Any, per_device: Any) -> Any:  # noqa: N802
        """The pattern of the files, as a tensor that exists after all shards are saved."""
        if self._write_version == V2:
            return self._AddShardedSaveOpsForV2(filename_tensor, per_device)
        num_shards = len(per_device)
        sharded_saves = []
        num_shards_tensor = constant_op.constant(num_shards, name="num_shards")
        for shard, (device, saveables) in enumerate(per_device):
            with ops.device(device):
                sharded_filename = self.sharded_filename(filename_tensor, shard, num_shards_tensor)
                sharded_saves.append(self._AddSaveOps(sharded_filename, saveables))
        with ops.control_dependencies([x.op for x in sharded_saves]):
            return gen_io_ops.sharded_filespec(filename_tensor, num_shards_tensor)

    def _AddRestoreOps(  # noqa: N802
        self,
        filename_tensor: Any,
        saveables: Any,
        restore_sequentially: bool,
        reshape: bool,
        preferred_shard: int = -1,
        name: str = "restore_all",
    ) -> Any:
        """The op that restores all saveables, one after another if `restore_sequentially`."""
        all_tensors = self.bulk_restore(filename_tensor, saveables, preferred_shard, restore_sequentially)
        assign_ops: list[Any] = []
        idx = 0
        for saveable in saveables:
            shapes = None
            if reshape:
                shapes = []
                for spec in saveable.specs:
                    v = spec.tensor
                    shape = v.get_shape()
                    if not shape.is_fully_defined():
                        shape = array_ops.shape(v)
                    shapes.append(shape)
            saveable_tensors = all_tensors[idx : idx + len(saveable.specs)]
            idx += len(saveable.specs)
            controls = assign_ops[-1:] if restore_sequentially else []
            with ops.control_dependencies(controls):
                assign_ops.append(saveable.restore(saveable_tensors, shapes))
        return control_flow_ops.group(*assign_ops, name=name)

    def _AddShardedRestoreOps(  # noqa: N802
        self, filename_tensor: Any, per_device: Any, restore_sequentially: bool, reshape: bool
    ) -> Any:
        sharded_restores = []
        for shard, (device, saveables) in enumerate(per_device):
            with ops.device(device):
                sharded_restores.append(
                    self._AddRestoreOps(
                        filename_tensor,
                        saveables,
                        restore_sequentially,
                        reshape,
                        preferred_shard=shard,
                        name="restore_shard",
                    )
                )
        return control_flow_ops.group(*sharded_restores, name="restore_all")

    def _GroupByDevices(self, saveables: Any) -> list[tuple[str, list[Any]]]:  # noqa: N802
        """Pairs (device, its saveables), sorted. Raises ValueError where a saveable is on several devices."""
        per_device: dict[str, list[Any]] = {}
        for saveable in saveables:
            canonical_device = {pydev.canonical_name(spec.device) for spec in saveable.specs}
            if len(canonical_device) != 1:
                raise ValueError(
                    "All tensors of a saveable object must be on the same device: %s" % saveable.name
                )
            per_device.setdefault(canonical_device.pop(), []).append(saveable)
        return sorted(per_device.items(), key=lambda t: t[0])

    def build(
        self,
        names_to_saveables: Any,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        filename: str = "model",
    ) -> Any:
        """Adds the ops and returns the SaverDef that names them. Arguments: as in Saver."""
        return self._build_internal(
            names_to_saveables=names_to_saveables,
            reshape=reshape,
            sharded=sharded,
            max_to_keep=max_to_keep,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            name=name,
            restore_sequentially=restore_sequentially,
            filename=filename,
        )

    def _build_internal(
        self,
        names_to_saveables: Any,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        filename: str | None = "model",
        build_save: bool = True,
        build_restore: bool = True,
    ) -> Any:
        from millrace.core.protobuf import saver_pb2

        if not build_save and not build_restore:
            raise ValueError(
                "save and restore operations need to be build together  when eager execution is not enabled."
            )
        saveables = saveable_object_util.validate_and_slice_inputs(names_to_saveables)
        if max_to_keep is None:
            max_to_keep = 0
        with ops.name_scope(name, "save", [saveable.op for saveable in saveables]) as name:
            # The name of the file is fed when the ops run.
            filename_tensor = array_ops.placeholder_with_default(
                filename or "model", shape=(), name="filename"
            )
            filename_tensor = array_ops.placeholder_with_default(filename_tensor, shape=(), name="Const")
            save_tensor, restore_op = None, None
            if sharded:
                per_device = self._GroupByDevices(saveables)
                if build_save:
                    save_tensor = self._AddShardedSaveOps(filename_tensor, per_device)
                if build_restore:
                    restore_op = self._AddShardedRestoreOps(
                        filename_tensor, per_device, restore_sequentially, reshape
                    )
            else:
                if build_save:
                    save_tensor = self._AddSaveOps(filename_tensor, saveables)
                if build_restore:
                    restore_op = self._AddRestoreOps(
                        filename_tensor, saveables, restore_sequentially, reshape
                    )
        return saver_pb2.SaverDef(
            filename_tensor_name=filename_tensor.name,
            save_tensor_name=save_tensor.name if save_tensor is not None else "",
            restore_op_name=restore_op.name if restore_op is not None else "",
            max_to_keep=max_to_keep,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._write_version,
        )


class BulkSaverBuilder(BaseSaverBuilder):
    """Builder that reads all tensors with one op: what Saver uses."""

    def bulk_restore(
        self, filename_tensor: Any, saveables: Any, preferred_shard: int, restore_sequentially: bool
    ) -> list[Any]:
        """Tensors read for all specs of all saveables, by one op."""
        del restore_sequentially
        specs = [spec for saveable in saveables for spec in saveable.specs]
        names = [spec.name for spec in specs]
        slices = [spec.slice_spec for spec in specs]
        types = [spec.dtype for spec in specs]
        with ops.device("cpu:0"):
            restored = io_ops.restore_v2(filename_tensor, names, slices, types)
        return list(restored) if isinstance(restored, (list, tuple)) else [restored]


def _unique_name() -> str:
    import uuid

    return uuid.uuid4().hex
