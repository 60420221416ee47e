# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Scaffold, which holds the standard ops of training, and creators of sessions."""

from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import lookup_ops
from millrace.python.ops import resources
from millrace.python.ops import variables
from millrace.python.platform import tf_logging as logging
from millrace.python.summary import summary
from millrace.python.training import queue_runner
from millrace.python.training import saver as training_saver
from millrace.python.training import session_manager as sm


class Scaffold:
    """The ops that a training program needs in addition to its model; `finalize` makes those not given.

    init_op: initialises the variables of checkpoints; local_init_op: initialises the rest, in every session;
    ready_op, ready_for_local_init_op: names of uninitialised variables; summary_op; saver.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Any = None,
    ) -> None:
        """Keeps the ops that are given; `finalize` makes the others.

        Args:
          init_op: op that initialises the variables of checkpoints.
          init_feed_dict: values fed in the run of `init_op`.
          init_fn: function of (scaffold, session), called after `init_op`.
          ready_op: string vector of the names of uninitialised variables.
          ready_for_local_init_op: string vector of the names of variables that `local_init_op` needs.
          local_init_op: op that initialises local variables and tables, run in each session.
          summary_op: string scalar, a serialized Summary.
          saver: Saver.
          copy_from_scaffold: Scaffold whose parts are used where none are given.
        """
        other = copy_from_scaffold
        if other is not None:
            if not isinstance(other, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")

            def coalesce(a: Any, b: Any) -> Any:
                return a if a is not None else b

            init_op = coalesce(init_op, other.init_op)
            init_feed_dict = coalesce(init_feed_dict, other.init_feed_dict)
            # The original function, without the scaffold bound to it.
            init_fn = coalesce(init_fn, other._user_init_fn)  # type: ignore[has-type]
            ready_op = coalesce(ready_op, other.ready_op)
            ready_for_local_init_op = coalesce(ready_for_local_init_op, other.ready_for_local_init_op)
            local_init_op = coalesce(local_init_op, other.local_init_op)
            summary_op = coalesce(summary_op, other.summary_op)
            saver = coalesce(saver, other.saver)
        self._user_init_fn = init_fn
        self._init_fn = (lambda sess: init_fn(self, sess)) if init_fn else None
        self._init_op = init_op
        self._init_feed_dict = init_feed_dict
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._local_init_op = local_init_op
        self._summary_op = summary_op
        self._saver = saver

    def finalize(self) -> Scaffold:
        """Creates missing ops, or takes them from the graph's collections, and finalizes the graph."""
        if self._init_op is None:

            def default_init_op() -> Any:
                return control_flow_ops.group(
                    variables.global_variables_initializer(),
                    resources.initialize_resources(resources.shared_resources()),
                    ops.get_collection("saved_model_initializers"),
                )

            self._init_op = Scaffold.get_or_default("init_op", ops.GraphKeys.INIT_OP, default_init_op)
        if self._ready_op is None:

            def default_ready_op() -> Any:
                return array_ops.concat(
                    [variables.report_uninitialized_variables(), resources.report_uninitialized_resources()],
                    0,
                )

            self._ready_op = Scaffold.get_or_default("ready_op", ops.GraphKeys.READY_OP, default_ready_op)
        if self._ready_for_local_init_op is None:

            def default_ready_for_local_init_op() -> Any:
                return array_ops.concat(
                    [
                        variables.report_uninitialized_variables(variables.global_variables()),
                        resources.report_uninitialized_resources(resources.shared_resources()),
                    ],
                    0,
                )

            self._ready_for_local_init_op = Scaffold.get_or_default(
                "ready_for_local_init_op",
                ops.GraphKeys.READY_FOR_LOCAL_INIT_OP,
                default_ready_for_local_init_op,
            )
        if self._local_init_op is None:
            self._local_init_op = Scaffold.get_or_default(
                "local_init_op", ops.GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op
            )
        if self._summary_op is None:
            self._summary_op = Scaffold.get_or_default(
                "summary_op", ops.GraphKeys.SUMMARY_OP, summary.merge_all
            )
        if self._saver is None:
            self._saver = training_saver._get_saver_or_default()
        self._saver.build()
        ops.get_default_graph().finalize()
        logging.info("Graph was finalized.")
        return self

    @property
    def init_fn(self) -> Any:
        return self._init_fn

    @property
    def init_op(self) -> Any:
        return self._init_op

    @property
    def ready_op(self) -> Any:
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        return self._local_init_op

    @property
    def summary_op(self) -> Any:
        return self._summary_op

    @property
    def saver(self) -> Any:
        return self._saver

    @property
    def init_feed_dict(self) -> Any:
        return self._init_feed_dict

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Any) -> Any:
        """The element of a collection, or the result of `default_constructor`, which is added to it.

        Raises:
          RuntimeError: if the collection has more than one.
        """
        elements = ops.get_collection(collection_key)
        if elements:
            if len(elements) > 1:
                raise RuntimeError(
                    'More than one item in the collection "%s". Please indicate which one to use by passing it'
                    " to the tf.Scaffold constructor as:  tf.Scaffold(%s=item to use)"
                    % (collection_key, arg_name)
                )
            return elements[0]
        op = default_constructor()
        if op is not None:
            ops.add_to_collection(collection_key, op)
        return op

    @staticmethod
    def default_local_init_op() -> Any:
        """An op that initialises local variables, tables and resources of the process."""
        return control_flow_ops.group(
            variables.local_variables_initializer(),
            lookup_ops.tables_initializer(),
            resources.initialize_resources(resources.local_resources()),
        )


class SessionCreator(metaclass=abc.ABCMeta):
    """Makes sessions."""

    @abc.abstractmethod
    def create_session(self) -> Any:
        raise NotImplementedError("create_session is not implemented for {}.".format(self))


class ChiefSessionCreator(SessionCreator):
    """Makes sessions in which the model is restored from a checkpoint or initialised."""

    def __init__(
        self,
        scaffold: Any = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """Makes the session creator.

        Args:
          scaffold: Scaffold; made from the graph if None.
          master: target of the session.
          config: ConfigProto.
          checkpoint_dir: folder whose newest checkpoint is restored.
          checkpoint_filename_with_path: prefix of the checkpoint to restore instead.
        """
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path
        self._scaffold = scaffold or Scaffold()
        self._session_manager: Any = None
        self._master = master
        self._config = config

    def _get_session_manager(self) -> Any:
        if not self._session_manager:
            self._session_manager = sm.SessionManager(
                local_init_op=self._scaffold.local_init_op,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=ops.get_default_graph(),
            )
        return self._session_manager

    def create_session(self) -> Any:
        self._scaffold.finalize()
        return self._get_session_manager().prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
        )


class WorkerSessionCreator(SessionCreator):
    """Makes sessions of a worker, which waits until the chief has initialised the model."""

    def __init__(
        self, scaffold: Any = None, master: str = "", config: Any = None, max_wait_secs: float = 30 * 60
    ) -> None:
        """Makes the session creator.

        Args:
          scaffold, master, config: as in ChiefSessionCreator.
          max_wait_secs: how long to wait for the chief, in seconds.
        """
        self._scaffold = scaffold or Scaffold()
        self._session_manager: Any = None
        self._master = master
        self._config = config
        self._max_wait_secs = max_wait_secs

    def _get_session_manager(self) -> Any:
        if not self._session_manager:
            self._session_manager = sm.SessionManager(
                local_init_op=self._scaffold.local_init_op,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=ops.get_default_graph(),
            )
        return self._session_manager

    def create_session(self) -> Any:
        self._scaffold.finalize()
        return self._get_session_manager().wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )


def start_runners(sess: Any, coord: Any) -> Any:
    """Starts the queue runners of the graph where it has any."""
    if not ops.get_collection(ops.GraphKeys.QUEUE_RUNNERS):
        return []
    return queue_runner.start_queue_runners(sess=sess, coord=coord)
