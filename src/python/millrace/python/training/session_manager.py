# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SessionManager: makes sessions whose variables are restored or initialised, or waits until they are."""

from __future__ import annotations

import time
from typing import Any

from millrace.python.client import session
from millrace.python.framework import errors
from millrace.python.framework import ops
from millrace.python.platform import tf_logging as logging
from millrace.python.training import checkpoint_management

# Seconds of the first wait for another process; the wait is doubled each time.
_FIRST_WAIT_SECS = 1.0


def _maybe_name(obj: Any) -> str:
    """The name of an op or tensor, "None", or the object as text."""
    if obj is None:
        return "None"
    if hasattr(obj, "name"):
        return str(obj.name)
    return "<no name for %s>" % type(obj)


def _restore_checkpoint_and_maybe_run_saved_model_initializers(sess: Any, saver: Any, path: str) -> None:
    """Restores, and runs the initialisers of tables of a loaded SavedModel."""
    initializers = ops.get_collection("saved_model_initializers")
    saver.restore(sess, path)
    for initializer in initializers:
        sess.run(initializer)


class SessionManager:
    """Makes sessions for training.

    The chief calls `prepare_session`, which restores from a checkpoint or runs `init_op`; other workers call
    `wait_for_session`, which makes sessions until one is ready. A model is ready if `ready_op`, a vector of
    the names of uninitialised variables, is empty.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Any = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
    ) -> None:
        """Keeps the arguments.

        Args:
          local_init_op: op that initialises local variables, run in each new session.
          ready_op, ready_for_local_init_op: string vectors of names of uninitialised variables.
          graph: default graph if None.
          recovery_wait_secs: seconds between checks whether the model is ready.
          local_init_run_options: RunOptions of the run of `local_init_op`.

        Raises:
          ValueError: if there is a `ready_for_local_init_op` but no `local_init_op`.
        """
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = ops.get_default_graph() if graph is None else graph
        self._recovery_wait_secs = recovery_wait_secs
        self._target: Any = None
        self._local_init_run_options = local_init_run_options
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op , ready_for_local_init_op [%s]"
                % ready_for_local_init_op
            )

    def _restore_checkpoint(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Any, bool]:
        """A session, and whether a checkpoint was restored in it."""
        self._target = master
        sess = session.Session(self._target, graph=self._graph, config=config)
        if checkpoint_dir and checkpoint_filename_with_path:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        # Without a saver or a checkpoint there is nothing to restore.
        if not saver or not (checkpoint_dir or checkpoint_filename_with_path):
            return sess, False
        if checkpoint_filename_with_path:
            _restore_checkpoint_and_maybe_run_saved_model_initializers(
                sess, saver, checkpoint_filename_with_path
            )
            return sess, True
        wait_time = 0.0
        ckpt = checkpoint_management.get_checkpoint_state(str(checkpoint_dir))
        while not ckpt or not ckpt.model_checkpoint_path:
            if wait_for_checkpoint and wait_time < max_wait_secs:
                logging.info("Waiting for checkpoint to be available.")
                time.sleep(self._recovery_wait_secs)
                wait_time += self._recovery_wait_secs
                ckpt = checkpoint_management.get_checkpoint_state(str(checkpoint_dir))
            else:
                return sess, False
        _restore_checkpoint_and_maybe_run_saved_model_initializers(sess, saver, ckpt.model_checkpoint_path)
        saver.recover_last_checkpoints(ckpt.all_model_checkpoint_paths)
        return sess, True

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
    ) -> Any:
        """A session in which the model is ready: restored, or else initialised.

        Args:
          master: target of the session.
          init_op: op, run with `init_feed_dict` where nothing was restored.
          saver: restores the newest checkpoint of `checkpoint_dir`, or `checkpoint_filename_with_path`.
          wait_for_checkpoint: whether to wait, at most `max_wait_secs`, for a checkpoint.
          config: ConfigProto.
          init_fn: function of the session, called after `init_op` where nothing was restored.

        Raises:
          RuntimeError: if there is nothing to initialise with, or the model is not ready afterwards.
        """
        sess, is_loaded_from_checkpoint = self._restore_checkpoint(
            master,
            saver,
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
            wait_for_checkpoint=wait_for_checkpoint,
            max_wait_secs=max_wait_secs,
            config=config,
        )
        if not is_loaded_from_checkpoint:
            if init_op is None and not init_fn and self._local_init_op is None:
                raise RuntimeError(
                    "Model is not initialized and no init_op or init_fn or local_init_op was given"
                )
            if init_op is not None:
                sess.run(init_op, feed_dict=init_feed_dict)
            if init_fn:
                init_fn(sess)
        local_init_success, msg = self._try_run_local_init_op(sess)
        if not local_init_success:
            raise RuntimeError(
                "Init operations did not make model ready for local_init.  "
                "Init op: %s, init fn: %s, error: %s" % (_maybe_name(init_op), init_fn, msg)
            )
        is_ready, msg = self._model_ready(sess)
        if not is_ready:
            raise RuntimeError(
                "Init operations did not make model ready.  "
                "Init op: %s, init fn: %s, local_init_op: %s, error: %s"
                % (_maybe_name(init_op), init_fn, self._local_init_op, msg)
            )
        return sess

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Any, bool]:
        """A session, and whether the model is ready in it after restoring. Arguments: as in `prepare_session`."""
        sess, is_loaded_from_checkpoint = self._restore_checkpoint(
            master,
            saver,
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
            wait_for_checkpoint=wait_for_checkpoint,
            max_wait_secs=max_wait_secs,
            config=config,
        )
        local_init_success, msg = self._try_run_local_init_op(sess)
        if not is_loaded_from_checkpoint:
            # The session may still be useful to a caller that initialises it.
            return sess, False
        restoring_file = checkpoint_dir or checkpoint_filename_with_path
        if not local_init_success:
            logging.info(
                "Restoring model from %s did not make model ready for local init: %s", restoring_file, msg
            )
            return sess, False
        is_ready, msg = self._model_ready(sess)
        if not is_ready:
            logging.info("Restoring model from %s did not make model ready: %s", restoring_file, msg)
            return sess, False
        logging.info("Restored model from %s", restoring_file)
        return sess, is_loaded_from_checkpoint

    def wait_for_session(self, master: str, config: Any = None, max_wait_secs: float = float("Inf")) -> Any:
        """A session in which another process has made the model ready.

        A new session is made for each check, one second after the first and later up to `recovery_wait_secs`
        apart.

        Raises:
          DeadlineExceededError: if that takes longer than `max_wait_secs`.
        """
        self._target = master
        if max_wait_secs is None:
            max_wait_secs = float("Inf")
        timer = _CountDownTimer(max_wait_secs)
        pause = min(_FIRST_WAIT_SECS, self._recovery_wait_secs)
        while True:
            sess = session.Session(self._target, graph=self._graph, config=config)
            not_ready_msg = None
            not_ready_local_msg = None
            local_init_success, not_ready_local_msg = self._try_run_local_init_op(sess)
            if local_init_success:
                is_ready, not_ready_msg = self._model_ready(sess)
                if is_ready:
                    return sess
            self._safe_close(sess)
            if timer.secs_remaining() - pause < 0:
                raise errors.DeadlineExceededError(
                    None, None, "Session was not ready after waiting %d secs." % (max_wait_secs,)
                )
            logging.info(
                "Waiting for model to be ready.  Ready_for_local_init_op:  %s, ready: %s",
                not_ready_local_msg,
                not_ready_msg,
            )
            time.sleep(pause)
            pause = min(2 * pause, self._recovery_wait_secs)

    def _safe_close(self, sess: Any) -> None:
        """Closes a session, ignoring errors."""
        try:
            sess.close()
        except Exception:
            pass

    def _model_ready(self, sess: Any) -> tuple[bool, str | None]:
        """Whether the model is ready, and a message about missing parts."""
        return _ready(self._ready_op, sess, "Model not ready")

    def _model_ready_for_local_init(self, sess: Any) -> tuple[bool, str | None]:
        """Whether `local_init_op` can be run, and a message about missing parts."""
        return _ready(self._ready_for_local_init_op, sess, "Model not ready for local init")

    def _try_run_local_init_op(self, sess: Any) -> tuple[bool, str | None]:
        """Runs `local_init_op` if it can be run; whether it was (or there is none), and what is missing."""
        if self._local_init_op is None:
            return True, None
        is_ready_for_local_init, msg = self._model_ready_for_local_init(sess)
        if not is_ready_for_local_init:
            return False, msg
        logging.info("Running local_init_op.")
        sess.run(self._local_init_op, options=self._local_init_run_options)
        logging.info("Done running local_init_op.")
        return True, None


def _ready(op: Any, sess: Any, msg: str) -> tuple[bool, str | None]:
    """Whether `op` returns no names (or is None), and a message with the names."""
    if op is None:
        return True, None
    try:
        ready_value = sess.run(op)
    except errors.FailedPreconditionError as e:
        if "uninitialized" not in str(e):
            logging.warning("%s : error [%s]", msg, str(e))
            raise
        return False, str(e)
    # An empty array, or a result that is no array, means that nothing is missing.
    if ready_value is None or getattr(ready_value, "dtype", None) is None or ready_value.size == 0:
        return True, None
    non_initialized_varnames = ", ".join(
        v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in ready_value.reshape(-1)
    )
    return False, "Variables not initialized: " + non_initialized_varnames


class _CountDownTimer:
    """Measures the rest of a time limit."""

    def __init__(self, duration_secs: float) -> None:
        self._start_time_secs = time.time()
        self._duration_secs = duration_secs

    def secs_remaining(self) -> float:
        diff = self._duration_secs - (time.time() - self._start_time_secs)
        return max(0, diff)
