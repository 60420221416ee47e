# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Log messages that go to the program's log and to a summary writer."""
from __future__ import annotations

import time
from typing import Any

from millrace.core.util import event_pb2
from millrace.python.platform import tf_logging as logging

DEBUG = "DEBUG"
INFO = "INFO"
WARN = "WARN"
ERROR = "ERROR"
FATAL = "FATAL"

_levels = {
    DEBUG: (event_pb2.LogMessage.DEBUGGING, logging.DEBUG),
    INFO: (event_pb2.LogMessage.INFO, logging.INFO),
    WARN: (event_pb2.LogMessage.WARN, logging.WARN),
    ERROR: (event_pb2.LogMessage.ERROR, logging.ERROR),
    FATAL: (event_pb2.LogMessage.FATAL, logging.FATAL),
}
_verbosity = WARN
_writer: Any = None


def _known(level: str) -> None:
    if level not in _levels:
        raise ValueError("Invalid log level: %s (expected one of %s)" % (level, ", ".join(_levels)))


def set_verbosity(verbosity: str) -> None:
    """Lower messages than of this level are dropped; ValueError for an unknown level."""
    global _verbosity
    _known(verbosity)
    _verbosity = verbosity


def get_verbosity() -> str:
    """The level that was set."""
    return _verbosity


def set_summary_writer(summary_writer: Any) -> None:
    """The writer that gets the messages; None: none."""
    global _writer
    _writer = summary_writer


def log(level: str, message: str, *args: Any) -> None:
    """Logs a message with the time of its event.

    Raises:
      ValueError: if the level is unknown.
      RuntimeError: if no writer was set.
    """
    _known(level)
    if _writer is None:
        raise RuntimeError("Must call set_summary_writer before using logging from tensorboard_logging.")
    number, python_level = _levels[level]
    if number < _levels[_verbosity][0]:
        return
    text = message % args if args else message
    _writer.add_event(
        event_pb2.Event(wall_time=time.time(), log_message=event_pb2.LogMessage(level=number, message=text))
    )
    logging.log(python_level, text)


def debug(message: str, *args: Any) -> None:
    """Logs at DEBUG."""
    log(DEBUG, message, *args)


def info(message: str, *args: Any) -> None:
    """Logs at INFO."""
    log(INFO, message, *args)


def warn(message: str, *args: Any) -> None:
    """Logs at WARN."""
    log(WARN, message, *args)


def error(message: str, *args: Any) -> None:
    """Logs at ERROR."""
    log(ERROR, message, *args)


def fatal(message: str, *args: Any) -> None:
    """Logs at FATAL."""
    log(FATAL, message, *args)
