# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The errors of the engine as exceptions, one class for each code."""
from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import Any, Iterator, Optional

from millrace.python import _engine

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """An error of the engine. `op` is the operation that failed, if it is known to Python."""

    _millrace_error_code: Optional[int] = None

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int) -> None:
        super().__init__()
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code

    def __reduce__(self) -> Any:
        if type(self) is OpError:
            return OpError, (self._node_def, None, self._message, self._error_code)
        return type(self), (self._node_def, None, self._message)

    @property
    def message(self) -> str:
        """The engine's message."""
        return self._message

    @property
    def op(self) -> Any:
        """The operation that failed, or None."""
        return self._op

    @property
    def error_code(self) -> int:
        """The number of the kind of the error."""
        return self._error_code

    @property
    def node_def(self) -> Any:
        """The NodeDef of the operation that failed, or None."""
        if self._node_def is None and self._op is not None:
            return self._op.node_def
        return self._node_def

    def __str__(self) -> str:
        if self._op is None:
            return self.message
        lines = ["%s\n\nOriginal stack trace for %r:\n" % (self.message, self._op.name)]
        current: Any = self._op.traceback
        previous: Any = []
        lines += _shortened(current, previous)
        original = self._op._original_op
        seen = {id(self._op)}
        while original is not None and id(original) not in seen:
            seen.add(id(original))
            lines.append("\n...which was originally created as op %r, defined at:\n" % original.name)
            previous, current = current, original.traceback
            lines += _shortened(current, previous)
            original = original._original_op
        return "".join(lines)


def _shortened(stack: Any, common_with: Any) -> list[str]:
    """The lines of a traceback, without the part that another one began with."""
    common = 0
    for mine, theirs in zip(stack, common_with):
        if tuple(mine)[:3] != tuple(theirs)[:3]:
            break
        common += 1
    frames: Any = [tuple(frame)[:4] for frame in stack[max(common - 1, 0) :]]
    lines = traceback.format_list(frames)
    if common > 1:
        lines.insert(0, "[elided %d identical lines from previous traceback]\n" % (common - 1))
    return lines


def _make(name: str, code: int, doc: str) -> Any:
    def __init__(self: Any, node_def: Any, op: Any, message: str) -> None:
        OpError.__init__(self, node_def, op, message, code)

    return type(
        name,
        (OpError,),
        {"__init__": __init__, "__doc__": doc, "_millrace_error_code": code, "__module__": __name__},
    )


CancelledError = _make("CancelledError", CANCELLED, "The step, or the operation, was cancelled.")


class UnknownError(OpError):
    """An error of an unknown kind."""

    _millrace_error_code = UNKNOWN

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int = UNKNOWN) -> None:
        super().__init__(node_def, op, message, error_code)


InvalidArgumentError = _make(
    "InvalidArgumentError", INVALID_ARGUMENT, "An operation got a value that it cannot use."
)
DeadlineExceededError = _make(
    "DeadlineExceededError", DEADLINE_EXCEEDED, "The time was up before the work was done."
)
NotFoundError = _make("NotFoundError", NOT_FOUND, "A file, or another requested object, does not exist.")
AlreadyExistsError = _make("AlreadyExistsError", ALREADY_EXISTS, "The object to be created exists already.")
PermissionDeniedError = _make("PermissionDeniedError", PERMISSION_DENIED, "The caller may not do that.")
UnauthenticatedError = _make("UnauthenticatedError", UNAUTHENTICATED, "The caller sent no valid credentials.")
ResourceExhaustedError = _make(
    "ResourceExhaustedError", RESOURCE_EXHAUSTED, "Memory, or something else, ran out."
)
FailedPreconditionError = _make(
    "FailedPreconditionError",
    FAILED_PRECONDITION,
    "The state does not allow it, such as a variable without a value.",
)
AbortedError = _make("AbortedError", ABORTED, "The operation was ended, as by a concurrent one.")
OutOfRangeError = _make("OutOfRangeError", OUT_OF_RANGE, "The end of the input is reached.")
UnimplementedError = _make("UnimplementedError", UNIMPLEMENTED, "There is no implementation of it.")
InternalError = _make("InternalError", INTERNAL, "The engine found an error of its own.")
UnavailableError = _make("UnavailableError", UNAVAILABLE, "The runtime is not available at the moment.")
DataLossError = _make("DataLossError", DATA_LOSS, "Data were lost or are damaged.")

_CODE_TO_EXCEPTION_CLASS = {
    kind._millrace_error_code: kind
    for kind in (
        CancelledError, UnknownError, InvalidArgumentError, DeadlineExceededError, NotFoundError, AlreadyExistsError,
        PermissionDeniedError, UnauthenticatedError, ResourceExhaustedError, FailedPreconditionError, AbortedError,
        OutOfRangeError, UnimplementedError, InternalError, UnavailableError, DataLossError,
    )
}  # fmt: skip
_EXCEPTION_CLASS_TO_CODE = {kind: code for code, kind in _CODE_TO_EXCEPTION_CLASS.items()}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class of the errors with a code."""
    return _CODE_TO_EXCEPTION_CLASS[error_code]


def error_code_from_exception_type(cls: type) -> Any:
    """The code of the errors of a class; UnknownError's for a class that is none of them."""
    return _EXCEPTION_CLASS_TO_CODE.get(cls, UNKNOWN)


def _make_specific_exception(node_def: Any, op: Any, message: str, error_code: int) -> OpError:
    kind = _CODE_TO_EXCEPTION_CLASS.get(error_code)
    if kind is None:
        return OpError(node_def, op, message, error_code)
    return kind(node_def, op, message)  # type: ignore[call-arg]


@contextmanager
def raise_exception_on_not_ok_status() -> Iterator[None]:
    """A context without effect, for programs that use the C API: calls raise exceptions themselves."""
    yield


_engine.register("error_classes", _CODE_TO_EXCEPTION_CLASS)
