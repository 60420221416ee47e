# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks for everyday use: logging, stopping, checkpoints, summaries, counting of steps, traces."""

from __future__ import annotations

from millrace.python.training._hooks_saving import CheckpointSaverHook
from millrace.python.training._hooks_saving import CheckpointSaverListener
from millrace.python.training._hooks_saving import ProfilerHook
from millrace.python.training._hooks_saving import StepCounterHook
from millrace.python.training._hooks_saving import SummarySaverHook
from millrace.python.training._hooks_simple import FeedFnHook
from millrace.python.training._hooks_simple import FinalOpsHook
from millrace.python.training._hooks_simple import GlobalStepWaiterHook
from millrace.python.training._hooks_simple import LoggingTensorHook
from millrace.python.training._hooks_simple import NanLossDuringTrainingError
from millrace.python.training._hooks_simple import NanTensorHook
from millrace.python.training._hooks_simple import NeverTriggerTimer
from millrace.python.training._hooks_simple import SecondOrStepTimer
from millrace.python.training._hooks_simple import StopAtStepHook
from millrace.python.training._hooks_simple import _as_graph_element
from millrace.python.training._hooks_simple import _HookTimer
from millrace.python.training._hooks_simple import _MultiStepStopAtStepHook
from millrace.python.training._hooks_simple import get_or_create_steps_per_run_variable

__all__ = [
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LoggingTensorHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NeverTriggerTimer",
    "ProfilerHook",
    "SecondOrStepTimer",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "_HookTimer",
    "_MultiStepStopAtStepHook",
    "_as_graph_element",
    "get_or_create_steps_per_run_variable",
]
