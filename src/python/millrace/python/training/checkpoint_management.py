# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints: the state file `checkpoint`, which names them, their parts, and their deletion."""

from __future__ import annotations

import os.path
import re
from typing import Any

from millrace.python.framework import errors
from millrace.python.lib.io import file_io
from millrace.python.platform import tf_logging as logging

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
      last_preserved_timestamp: when the last one was written that is kept for ever.

    Raises:
      ValueError: if there are not as many timestamps as paths.
    """
    from millrace.python.training.checkpoint_state_pb2 import CheckpointState

    paths = [] if all_model_checkpoint_paths is None else list(all_model_checkpoint_paths)
    if not paths or paths[-1] != model_checkpoint_path:
        logging.info(
            "%s is not in all_model_checkpoint_paths. Manually adding it.", model_checkpoint_path
        )
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
    """Writes the state file. Arguments: as of `generate_checkpoint_state_proto`; latest_filename: its name.

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
    # A reader must never see half a file.
    file_io.atomic_write_string_to_file(coord_checkpoint_filename, text_format.MessageToString(ckpt))


def get_checkpoint_state(checkpoint_dir: str, latest_filename: str | None = None) -> Any:
    """The CheckpointState that a folder's state file holds, with full paths, or None where there is none.

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
        # It may have been replaced just now.
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
            logging.warning("Hit NotFoundError when deleting '%s', possibly because another process/thread is also deleting/moving the same file", pathname)


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """Name of the file with a checkpoint's graph: no shards, and the step before the suffix."""
    basename = re.sub(r"-[\d\?]+-of-\d+$", "", checkpoint_filename)
    return ".".join([basename, meta_graph_suffix])
