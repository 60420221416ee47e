# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of TensorFlow's extension module that programs use."""
from __future__ import annotations

from typing import Any

from millrace.python.lib.io.file_io import FileIO  # noqa: F401
from millrace.python.lib.io.tf_record import tf_record_iterator  # noqa: F401
from millrace.python.training.py_checkpoint_reader import NewCheckpointReader  # noqa: F401


def __getattr__(name: str) -> Any:
    if name == "EventsWriter":
        from millrace.python.summary.writer import event_file_writer

        return event_file_writer.EventFileWriter
    raise AttributeError("module 'tensorflow.python.pywrap_tensorflow' has no attribute %r" % name)


def IsGoogleCudaEnabled() -> bool:  # noqa: N802
    """Whether there is an engine for GPUs."""
    from millrace.python.framework import test_util

    return test_util.IsGoogleCudaEnabled()


def IsMklEnabled() -> bool:  # noqa: N802
    return False


def IsBuiltWithROCm() -> bool:  # noqa: N802
    return False


