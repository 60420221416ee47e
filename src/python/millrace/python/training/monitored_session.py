# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions with hooks, a coordinator and recovery, and what makes them: Scaffold and session creators."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.training._monitored_creators import ChiefSessionCreator
from millrace.python.training._monitored_creators import Scaffold
from millrace.python.training._monitored_creators import SessionCreator
from millrace.python.training._monitored_creators import WorkerSessionCreator
from millrace.python.training._monitored_sessions import MonitoredSession
from millrace.python.training._monitored_sessions import SingularMonitoredSession
from millrace.python.training._monitored_sessions import _MonitoredSession
from millrace.python.training._monitored_wrappers import _CoordinatedSession
from millrace.python.training._monitored_wrappers import _HookedSession
from millrace.python.training._monitored_wrappers import _PREEMPTION_ERRORS
from millrace.python.training._monitored_wrappers import _RecoverableSession
from millrace.python.training._monitored_wrappers import _WrappedSession
from millrace.python.training.chief_lease import ChiefHook
from millrace.python.training.chief_lease import ChiefLease
from millrace.python.training.chief_lease import LeasedSessionCreator
from millrace.python.training.chief_lease import RoleHook

__all__ = [
    "ChiefSessionCreator",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "Scaffold",
    "SessionCreator",
    "SingularMonitoredSession",
    "USE_DEFAULT",
    "WorkerSessionCreator",
    "_CoordinatedSession",
    "_HookedSession",
    "_MonitoredSession",
    "_PREEMPTION_ERRORS",
    "_RecoverableSession",
    "_WrappedSession",
]

# Value of arguments that means "not given", since None means "never".
USE_DEFAULT = object()


def _summary_interval(save_summaries_steps: Any, save_summaries_secs: Any) -> tuple[Any, Any]:
    if save_summaries_steps is USE_DEFAULT and save_summaries_secs is USE_DEFAULT:
        return 100, None
    steps = None if save_summaries_steps is USE_DEFAULT else save_summaries_steps
    secs = None if save_summaries_secs is USE_DEFAULT else save_summaries_secs
    return steps, secs


def _checkpoint_interval(save_checkpoint_steps: Any, save_checkpoint_secs: Any) -> tuple[Any, Any]:
    if save_checkpoint_steps is USE_DEFAULT and save_checkpoint_secs is USE_DEFAULT:
        return None, 600
    steps = None if save_checkpoint_steps is USE_DEFAULT else save_checkpoint_steps
    secs = None if save_checkpoint_secs is USE_DEFAULT else save_checkpoint_secs
    return steps, secs


def MonitoredTrainingSession(  # noqa: N802
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Any = None,
    hooks: Any = None,
    chief_only_hooks: Any = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: str | None = None,
) -> MonitoredSession:
    """A MonitoredSession for training, with hooks that save checkpoints and summaries on the chief.

    Args:
      master: target of the session.
      is_chief: whether this process initialises and saves; others wait for it. A ChiefLease (of
        millrace.python.training.chief_lease) lets another worker take over when the chief fails.
      checkpoint_dir: folder of checkpoints to restore from and to save in, or None.
      scaffold: Scaffold; made from the graph if None.
      hooks: list of SessionRunHook.
      chief_only_hooks: more of them, for the chief.
      save_checkpoint_secs, save_checkpoint_steps: how often checkpoints are saved: 600 s by default, None: never.
      save_summaries_steps, save_summaries_secs: how often summaries are: 100 steps by default, None: never.
      config: ConfigProto.
      stop_grace_period_secs: time for threads to end after `close`.
      log_step_count_steps: how often the number of steps per second is logged, None: never.
      max_wait_secs: how long other workers wait for the chief.
      summary_dir: folder of the summaries, `checkpoint_dir` if None.
    """
    from millrace.python.training import basic_session_run_hooks

    save_summaries_steps, save_summaries_secs = _summary_interval(save_summaries_steps, save_summaries_secs)
    save_checkpoint_steps, save_checkpoint_secs = _checkpoint_interval(
        save_checkpoint_steps, save_checkpoint_secs
    )
    scaffold = scaffold or Scaffold()
    lease: Any = is_chief if isinstance(is_chief, ChiefLease) else None
    if not is_chief and lease is None:
        worker_creator = WorkerSessionCreator(
            scaffold=scaffold, master=master, config=config, max_wait_secs=max_wait_secs
        )
        return MonitoredSession(
            session_creator=worker_creator, hooks=hooks or [], stop_grace_period_secs=stop_grace_period_secs
        )
    all_hooks: list[Any] = []
    if chief_only_hooks:
        all_hooks.extend(chief_only_hooks)
    session_creator: SessionCreator = ChiefSessionCreator(
        scaffold=scaffold, checkpoint_dir=checkpoint_dir, master=master, config=config
    )
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir:
        if log_step_count_steps and log_step_count_steps > 0:
            all_hooks.append(
                basic_session_run_hooks.StepCounterHook(
                    output_dir=summary_dir, every_n_steps=log_step_count_steps
                )
            )
        if (save_summaries_steps and save_summaries_steps > 0) or (
            save_summaries_secs and save_summaries_secs > 0
        ):
            all_hooks.append(
                basic_session_run_hooks.SummarySaverHook(
                    scaffold=scaffold,
                    save_steps=save_summaries_steps,
                    save_secs=save_summaries_secs,
                    output_dir=summary_dir,
                )
            )
    if checkpoint_dir and (
        (save_checkpoint_secs and save_checkpoint_secs > 0)
        or (save_checkpoint_steps and save_checkpoint_steps > 0)
    ):
        all_hooks.append(
            basic_session_run_hooks.CheckpointSaverHook(
                checkpoint_dir,
                save_steps=save_checkpoint_steps,
                save_secs=save_checkpoint_secs,
                scaffold=scaffold,
            )
        )
    if lease is not None:
        session_creator = LeasedSessionCreator(lease, scaffold, master, config, checkpoint_dir, max_wait_secs)
        for hook in all_hooks:
            if isinstance(hook, basic_session_run_hooks.CheckpointSaverHook):
                hook._save_guard = session_creator.save_guard
        all_hooks = [RoleHook(session_creator), *(ChiefHook(hook, session_creator) for hook in all_hooks)]
    if hooks:
        all_hooks.extend(hooks)
    return MonitoredSession(
        session_creator=session_creator, hooks=all_hooks, stop_grace_period_secs=stop_grace_period_secs
    )


def _finalized(graph: Any = None) -> bool:
    return bool((graph or ops.get_default_graph()).finalized)
