# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Paths of the file functions, and errors of the system as errors of the client."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import Any

from millrace.python.framework import errors_impl

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")


def local_path(path: Any) -> str:
    """`path` (str, bytes or PathLike) as a path of the system.

    Raises:
      TypeError: if `path` has another type.
      UnimplementedError: for a scheme other than file.
    """
    if hasattr(path, "__fspath__"):
        path = path.__fspath__()
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str):
        raise TypeError("Expected binary or unicode string, got %r" % (path,))
    scheme = _SCHEME.match(path)
    if scheme is None:
        return path
    if scheme.group(1) == "file":
        return path[len("file://") :]
    raise errors_impl.UnimplementedError(
        None, None, "File system scheme '%s' not implemented (file: '%s')" % (scheme.group(1), path)
    )


_CLASSES: dict[int, Any] = {
    errno.ENOENT: errors_impl.NotFoundError,
    errno.ENOTDIR: errors_impl.FailedPreconditionError,
    errno.EISDIR: errors_impl.FailedPreconditionError,
    errno.ENOTEMPTY: errors_impl.FailedPreconditionError,
    errno.EEXIST: errors_impl.AlreadyExistsError,
    errno.EACCES: errors_impl.PermissionDeniedError,
    errno.EPERM: errors_impl.PermissionDeniedError,
    errno.EROFS: errors_impl.PermissionDeniedError,
    errno.ENOSPC: errors_impl.ResourceExhaustedError,
    errno.EMFILE: errors_impl.ResourceExhaustedError,
    errno.ENFILE: errors_impl.ResourceExhaustedError,
    errno.EINVAL: errors_impl.InvalidArgumentError,
    errno.ENAMETOOLONG: errors_impl.InvalidArgumentError,
    errno.EAGAIN: errors_impl.UnavailableError,
    errno.EBUSY: errors_impl.UnavailableError,
}


def error_of(path: Any, e: OSError) -> Exception:
    """The client's error for one of the system."""
    error: Exception = _CLASSES.get(e.errno or 0, errors_impl.UnknownError)(
        None, None, "%s; %s" % (path, e.strerror or e)
    )
    return error


@contextlib.contextmanager
def raising(path: Any) -> Iterator[None]:
    """Context in which errors of the system about `path` become the client's."""
    try:
        yield
    except OSError as e:
        raise error_of(path, e) from None
    except ValueError as e:
        # The path contains a zero byte.
        raise errors_impl.InvalidArgumentError(None, None, "%s; %s" % (path, e)) from None
