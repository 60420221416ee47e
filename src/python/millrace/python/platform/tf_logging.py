# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The log of the client: a Python logger named "tensorflow", with levels of its own names and helpers for rare messages."""

from __future__ import annotations

import logging as _logging
import os as _os
import sys as _sys
import threading
import time as _time
from collections.abc import Callable
from typing import Any

DEBUG = _logging.DEBUG
ERROR = _logging.ERROR
FATAL = _logging.CRITICAL
INFO = _logging.INFO
WARN = _logging.WARNING

_level_names = {FATAL: "FATAL", ERROR: "ERROR", WARN: "WARN", INFO: "INFO", DEBUG: "DEBUG"}
_logger: _logging.Logger | None = None
_logger_lock = threading.Lock()
_log_counter_per_token: dict[Any, int] = {}


def _is_interactive() -> bool:
    return hasattr(_sys, "ps1") or bool(_sys.flags.interactive)


def get_logger() -> _logging.Logger:
    """The logger, with a handler for stderr unless the program has set up logging."""
    global _logger
    if _logger is not None:
        return _logger
    with _logger_lock:
        if _logger is not None:
            return _logger
        logger = _logging.getLogger("tensorflow")
        # A level set by the program before this module was imported stays.
        if logger.level == _logging.NOTSET:
            logger.setLevel(WARN)
        if not _logging.getLogger().handlers and not logger.handlers:
            if _is_interactive():
                logger.setLevel(INFO)
                target = _sys.stdout
            else:
                target = _sys.stderr
            handler = _logging.StreamHandler(target)
            handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT, None))
            logger.addHandler(handler)
        _logger = logger
        return logger


_get_logger = get_logger


def log(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at `level`."""
    get_logger().log(level, msg, *args, **kwargs)


def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    get_logger().debug(msg, *args, **kwargs)


def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    get_logger().error(msg, *args, **kwargs)


def fatal(msg: Any, *args: Any, **kwargs: Any) -> None:
    get_logger().fatal(msg, *args, **kwargs)


def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    get_logger().info(msg, *args, **kwargs)


def warn(msg: Any, *args: Any, **kwargs: Any) -> None:
    get_logger().warning(msg, *args, **kwargs)


def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    get_logger().warning(msg, *args, **kwargs)


def exception(msg: Any, *args: Any, **kwargs: Any) -> None:
    get_logger().exception(msg, *args, **kwargs)


def vlog(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs debug messages; higher levels are more detailed."""
    get_logger().log(level, msg, *args, **kwargs)


def TaskLevelStatusMessage(msg: Any) -> None:  # noqa: N802
    error(msg)


def flush() -> None:
    """Does nothing: handlers write immediately."""


def _get_next_log_count_per_token(token: Any) -> int:
    """The number of earlier calls with `token`."""
    count = _log_counter_per_token.get(token, -1) + 1
    _log_counter_per_token[token] = count
    return count


_GetNextLogCountPerToken = _get_next_log_count_per_token


def _caller() -> tuple[str, int]:
    """File and line of the caller of the function that calls this one."""
    frame = _sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno


def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs the first, the n+1-th, the 2n+1-th, ... of the messages that come from the calling line."""
    count = _get_next_log_count_per_token(_caller())
    log_if(level, msg, not (count % n), *args)


def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs the first n of the messages that come from the calling line."""
    count = _get_next_log_count_per_token(_caller())
    log_if(level, msg, count < n, *args)


def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """Logs `msg` if `condition` is true."""
    if condition:
        log(level, msg, *args)


def _GetFileAndLine() -> tuple[str, int]:  # noqa: N802
    """Name of the file and line of the first caller outside of this module."""
    frame: Any = _sys._getframe()
    while frame:
        if frame.f_code.co_filename != __file__:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "(unknown file)", 0


def google2_log_prefix(
    level: int, timestamp: float | None = None, file_and_line: tuple[str, int] | None = None
) -> str:
    """The prefix "I1122 23:58:34.123456 1234 file.py:12] " of a message in the style of glog."""
    now = timestamp or _time.time()
    now_tuple = _time.localtime(now)
    filename, line = file_and_line or _GetFileAndLine()
    severity = _level_names[level][0] if level in _level_names else "I"
    return "%c%02d%02d %02d:%02d:%02d.%06d %5d %s:%d] " % (
        severity,
        now_tuple[1],
        now_tuple[2],
        now_tuple[3],
        now_tuple[4],
        now_tuple[5],
        int(1e6 * (now % 1.0)),
        _get_thread_id(),
        _os.path.basename(filename),
        line,
    )


def get_verbosity() -> int:
    """The minimum level that is logged."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: Any) -> None:
    """Sets the minimum level that is logged: DEBUG, INFO, WARN, ERROR or FATAL."""
    get_logger().setLevel(v)


_THREAD_ID_MASK = 2 * _sys.maxsize + 1


def _get_thread_id() -> int:
    return threading.get_ident() & _THREAD_ID_MASK


_LogFunction = Callable[..., None]
