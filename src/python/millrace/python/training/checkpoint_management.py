# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints: the state file `checkpoint`, names of files, and deletion."""

from __future__ import annotations

import os.path
import re
import time
from typing import Any

from millrace.python.framework import errors
from millrace.python.lib.io import file_io
from millrace.python.platform import tf_logging as logging
from millrace.python.util import compat

# Formats of checkpoints, as in SaverDef.CheckpointFormatVersion.
_V1 = 1
_V2 = 2


def _GetCheckpointFilename(save_dir: str, latest_filename: str | None) -> str:  # noqa: N802
    """Path of the state file in a folder."""
    if latest_filename is None:
        latest_filename = "checkpoint"
    return os.path.join(save_dir, latest_filename)


def generate_checkpoint_state_proto(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Any = None,
    all_model_checkpoint_timestamps: Any = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """A CheckpointState.

    Args:
      save_dir: folder of the checkpoints.
      model_checkpoint_path: prefix of the newest.
      all_model_checkpoint_paths: prefixes of all that are kept, the newest last.
      all_model_checkpoint_timestamps: when each was written, in seconds since 1970.
      last_preserved_timestamp: when the last one that is kept permanently was written.

    Raises:
      ValueError: if there are not as many timestamps as paths.
    """
    from millrace.python.training.checkpoint_state_pb2 import CheckpointState

    paths = [] if all_model_checkpoint_paths is None else list(all_model_checkpoint_paths)
    if not paths or paths[-1] != model_checkpoint_path:
        logging.info("%s is not in all_model_checkpoint_paths. Manually adding it.", model_checkpoint_path)
        paths.append(model_checkpoint_path)
    if all_model_checkpoint_timestamps and len(all_model_checkpoint_timestamps) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths %s and timestamps %s)"
            % (paths, all_model_checkpoint_timestamps)
        )
    if not os.path.isabs(save_dir):
        # Paths in the file are relative to the folder, so that it can be moved.
        paths = [os.path.relpath(p, save_dir) for p in paths]
        model_checkpoint_path = os.path.relpath(model_checkpoint_path, save_dir)
    return CheckpointState(
        model_checkpoint_path=model_checkpoint_path,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Any = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Any = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Writes the state file. Arguments: as in `generate_checkpoint_state_proto`; latest_filename: its name.

    Raises:
      RuntimeError: if a checkpoint has the name of the state file.
    """
    update_checkpoint_state_internal(
        save_dir=save_dir,
        model_checkpoint_path=model_checkpoint_path,
        all_model_checkpoint_paths=all_model_checkpoint_paths,
        latest_filename=latest_filename,
        save_relative_paths=False,
        all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def update_checkpoint_state_internal(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Any = None,
    latest_filename: str | None = None,
    save_relative_paths: bool = False,
    all_model_checkpoint_timestamps: Any = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """As `update_checkpoint_state`; paths are relative to the folder if `save_relative_paths`."""
    from google.protobuf import text_format

    coord_checkpoint_filename = _GetCheckpointFilename(save_dir, latest_filename)

    def relative(path: str) -> str:
        return os.path.relpath(path, save_dir) if os.path.isabs(path) else path

    if save_relative_paths:
        rel_model_checkpoint_path = relative(model_checkpoint_path)
        rel_all = [relative(p) for p in all_model_checkpoint_paths or []]
        ckpt = generate_checkpoint_state_proto(
            save_dir,
            rel_model_checkpoint_path,
            all_model_checkpoint_paths=rel_all,
            all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
            last_preserved_timestamp=last_preserved_timestamp,
        )
    else:
        ckpt = generate_checkpoint_state_proto(
            save_dir,
            model_checkpoint_path,
            all_model_checkpoint_paths=all_model_checkpoint_paths,
            all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
            last_preserved_timestamp=last_preserved_timestamp,
        )
    if coord_checkpoint_filename == ckpt.model_checkpoint_path:
        raise RuntimeError(
            "Save path '%s' conflicts with path used for checkpoint state.  Please use a different save path."
            % model_checkpoint_path
        )
    # Written atomically, so that readers never see a partial file.
    file_io.atomic_write_string_to_file(coord_checkpoint_filename, text_format.MessageToString(ckpt))


def get_checkpoint_state(checkpoint_dir: str, latest_filename: str | None = None) -> Any:
    """The CheckpointState that a folder's state file holds, with full paths, or None if there is none.

    Raises:
      ValueError: if the file names no checkpoint.
    """
    from google.protobuf import text_format
    from millrace.python.training.checkpoint_state_pb2 import CheckpointState

    if isinstance(checkpoint_dir, os.PathLike):
        checkpoint_dir = os.fspath(checkpoint_dir)
    coord_checkpoint_filename = _GetCheckpointFilename(checkpoint_dir, latest_filename)
    try:
        if not file_io.file_exists(coord_checkpoint_filename):
            return None
        ckpt = CheckpointState()
        text_format.Merge(file_io.read_file_to_string(coord_checkpoint_filename), ckpt)
        if not ckpt.model_checkpoint_path:
            raise ValueError("Invalid checkpoint state loaded from " + checkpoint_dir)
        # Relative paths are relative to the folder.
        if not os.path.isabs(ckpt.model_checkpoint_path):
            ckpt.model_checkpoint_path = os.path.join(checkpoint_dir, ckpt.model_checkpoint_path)
        for i, p in enumerate(ckpt.all_model_checkpoint_paths):
            if not os.path.isabs(p):
                ckpt.all_model_checkpoint_paths[i] = os.path.join(checkpoint_dir, p)
        return ckpt
    except errors.OpError as e:
        # The file may be replaced while it is read.
        logging.warning("%s: %s", type(e).__name__, e)
        logging.warning("%s: Checkpoint ignored", coord_checkpoint_filename)
        return None
    except text_format.ParseError as e:
        logging.warning("%s: %s", type(e).__name__, e)
        logging.warning("%s: Checkpoint ignored", coord_checkpoint_filename)
        return None


def _prefix_to_checkpoint_path(prefix: str, format_version: int) -> str:
    """Pattern of a file that every checkpoint of the format has."""
    return prefix + ".index" if format_version == _V2 else prefix


def latest_checkpoint(checkpoint_dir: str, latest_filename: str | None = None) -> str | None:
    """Prefix of the newest checkpoint of a folder by its state file, or None."""
    ckpt = get_checkpoint_state(checkpoint_dir, latest_filename)
    if ckpt and ckpt.model_checkpoint_path:
        prefix: str = ckpt.model_checkpoint_path
        v2_path = _prefix_to_checkpoint_path(prefix, _V2)
        v1_path = _prefix_to_checkpoint_path(prefix, _V1)
        if file_io.get_matching_files(v2_path) or file_io.get_matching_files(v1_path):
            return prefix
        logging.error("Couldn't match files for checkpoint %s", prefix)
    return None


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Whether there is a checkpoint, of either format, with the prefix."""
    if isinstance(checkpoint_prefix, os.PathLike):
        checkpoint_prefix = os.fspath(checkpoint_prefix)
    if file_io.get_matching_files(_prefix_to_checkpoint_path(checkpoint_prefix, _V2)):
        return True
    return bool(file_io.get_matching_files(checkpoint_prefix))


def get_checkpoint_mtimes(checkpoint_prefixes: Any) -> list[float]:
    """Times, in seconds since 1970, at which checkpoints were written; those that do not exist are left out."""
    mtimes = []
    for prefix in checkpoint_prefixes:
        for pattern in (_prefix_to_checkpoint_path(prefix, _V2), prefix):
            paths = file_io.get_matching_files(pattern)
            if paths:
                mtimes.append(file_io.stat(paths[0]).mtime_nsec / 1e9)
                break
    return mtimes


def remove_checkpoint(
    checkpoint_prefix: str, checkpoint_format_version: int = _V2, meta_graph_suffix: str = "meta"
) -> None:
    """Deletes all files of a checkpoint, that of its graph included."""
    _delete_file_if_exists(meta_graph_filename(checkpoint_prefix, meta_graph_suffix))
    if checkpoint_format_version == _V2:
        _delete_file_if_exists(checkpoint_prefix + ".index")
        _delete_file_if_exists(checkpoint_prefix + ".data-?????-of-?????")
    else:
        _delete_file_if_exists(checkpoint_prefix)


def _delete_file_if_exists(filespec: str) -> None:
    for pathname in file_io.get_matching_files(filespec):
        try:
            file_io.delete_file(pathname)
        except errors.NotFoundError:
            logging.warning(
                "Hit NotFoundError when deleting '%s', possibly because another process/thread is also deleting/moving the same file",
                pathname,
            )


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """Name of the file with a checkpoint's graph: without the shard part, and the step before the suffix."""
    basename = re.sub(r"-[\d\?]+-of-\d+$", "", checkpoint_filename)
    return ".".join([basename, meta_graph_suffix])


class CheckpointManager:
    """Keeps some of the checkpoints of an object in a folder and deletes the others.

    The state file remembers the times, so that a new manager of the folder continues where the old one ended.
    """

    def __init__(
        self,
        checkpoint: Any,
        directory: str,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
    ) -> None:
        """Args:
          checkpoint: `tf.train.Checkpoint` to save.
          directory: folder for the checkpoints.
          max_to_keep: how many are kept, besides those that are kept permanently; None for all.
          keep_checkpoint_every_n_hours: one checkpoint of each such period is kept permanently.
          checkpoint_name: prefix of the files' names, before the number.

        Raises:
          ValueError: if `max_to_keep` is not positive.
        """
        self._checkpoint = checkpoint
        self._save_counter_assign: Any = None
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(
                "Expected a positive integer or `None` for `max_to_keep`, got %d." % (max_to_keep,)
            )
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._directory = os.fspath(directory)
        self._checkpoint_prefix = os.path.join(self._directory, checkpoint_name)
        recovered_state = get_checkpoint_state(self._directory)
        current_clock = time.time()
        # Prefix -> time, oldest first, of those that may be deleted.
        self._maybe_delete: dict[str, float] = {}
        self._latest_checkpoint: str | None = None
        if recovered_state is None:
            # The first checkpoint of this manager is not kept permanently right away.
            self._last_preserved_timestamp = current_clock
            return
        self._latest_checkpoint = recovered_state.model_checkpoint_path
        self._last_preserved_timestamp = recovered_state.last_preserved_timestamp
        if current_clock < self._last_preserved_timestamp:
            # The clock was set back, or the folder was written on another machine.
            logging.warning(
                "time.time() returned a value %f seconds behind the last preserved checkpoint timestamp.",
                self._last_preserved_timestamp - current_clock,
            )
            self._last_preserved_timestamp = current_clock
        all_timestamps = recovered_state.all_model_checkpoint_timestamps
        all_paths = recovered_state.all_model_checkpoint_paths
        if not all_timestamps:
            all_timestamps = [current_clock] * len(all_paths)
        for filename, timestamp in zip(all_paths, all_timestamps):
            self._maybe_delete[filename] = min(timestamp, current_clock)

    @property
    def latest_checkpoint(self) -> str | None:
        """Prefix of the newest checkpoint, None before the first."""
        return self._latest_checkpoint

    @property
    def checkpoints(self) -> list[str]:
        """Prefixes of the checkpoints that may still be deleted, oldest first."""
        return list(self._maybe_delete)

    def _sweep(self) -> None:
        """Deletes checkpoints over the limit, except those to keep permanently."""
        if not self._max_to_keep:
            # All are kept, so the state has the newest only.
            for filename in list(self._maybe_delete):
                if filename != self._latest_checkpoint:
                    self._maybe_delete.pop(filename)
            return
        while len(self._maybe_delete) > self._max_to_keep:
            filename = next(iter(self._maybe_delete))
            timestamp = self._maybe_delete.pop(filename)
            hours = self._keep_checkpoint_every_n_hours
            if hours is not None and timestamp - hours * 3600.0 >= self._last_preserved_timestamp:
                self._last_preserved_timestamp = timestamp
                continue
            remove_checkpoint(filename)

    def _record_state(self) -> None:
        filenames, timestamps = list(self._maybe_delete), list(self._maybe_delete.values())
        assert self._latest_checkpoint is not None
        update_checkpoint_state_internal(
            self._directory,
            model_checkpoint_path=self._latest_checkpoint,
            all_model_checkpoint_paths=filenames,
            all_model_checkpoint_timestamps=timestamps,
            last_preserved_timestamp=self._last_preserved_timestamp,
            save_relative_paths=True,
        )

    @property
    def _prefix(self) -> str:
        """The part of checkpoint names before the number."""
        return self._checkpoint_prefix

    def save(self, checkpoint_number: Any = None) -> str:
        """Writes a checkpoint in the default session and sweeps.

        Args:
          checkpoint_number: integer, or variable, for the name; None: the checkpoint's counter, raised by one.

        Returns:
          The prefix of the checkpoint.
        """
        from millrace.python.framework import ops
        from millrace.python.training import training_util

        session = ops.get_default_session()
        if checkpoint_number is None:
            if self._save_counter_assign is None:
                counter = self._checkpoint.save_counter
                with ops.colocate_with(counter):
                    self._save_counter_assign = counter.assign_add(1, read_value=True)
            checkpoint_number = session.run(self._save_counter_assign)
        elif not isinstance(checkpoint_number, compat.integral_types):
            checkpoint_number = training_util.global_step(session, checkpoint_number)
        prefix = "%s-%d" % (self._checkpoint_prefix, checkpoint_number)
        save_path: str = self._checkpoint.write(prefix)
        # Written before anything is deleted, so that the state never names deleted files.
        timestamp = time.time()
        self._maybe_delete.pop(save_path, None)
        self._maybe_delete[save_path] = timestamp
        self._latest_checkpoint = save_path
        self._record_state()
        self._sweep()
        self._record_state()
        return save_path
