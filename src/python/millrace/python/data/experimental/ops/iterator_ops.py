# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Iterators in checkpoints."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import iterator_ops
from millrace.python.framework import ops
from millrace.python.training import checkpoint_management, saver as saver_lib, session_run_hook


def make_saveable_from_iterator(iterator: Any) -> Any:
    """A SaveableObject for the state of an iterator: a Saver saves and restores it."""
    resource = iterator._iterator_resource
    return iterator_ops._IteratorSaveable(resource, resource.name)


class CheckpointInputPipelineHook(session_run_hook.SessionRunHook):
    """Saves the iterators of the collection "iterators" with an estimator's checkpoints, and restores them."""

    def __init__(self, estimator: Any) -> None:
        self._dir = estimator.config.model_dir
        self._every = estimator.config.save_checkpoints_steps
        self._saver: Any = None
        self._steps = 0

    def begin(self) -> None:
        iterators = ops.get_collection(iterator_ops.GLOBAL_ITERATORS)
        if len(iterators) != 1:
            raise ValueError("CheckpointInputPipelineHook needs one iterator, there are %d" % len(iterators))
        saveable = iterator_ops._IteratorSaveable(iterators[0], iterators[0].name)
        self._saver = saver_lib.Saver([saveable], sharded=False, save_relative_paths=True)

    def _prefix(self) -> str:
        import os

        return os.path.join(self._dir, "input")

    def after_create_session(self, session: Any, coord: Any) -> None:
        path = checkpoint_management.latest_checkpoint(self._dir, latest_filename="checkpoint_input")
        if path:
            self._saver.restore(session, path)

    def before_run(self, run_context: Any) -> Any:
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._steps += 1
        if self._every and self._steps % self._every == 0:
            self._save(run_context.session)

    def end(self, session: Any) -> None:
        self._save(session)

    def _save(self, session: Any) -> None:
        self._saver.save(session, self._prefix(), latest_filename="checkpoint_input", write_meta_graph=False)
