# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The exceptions of tf.errors and their codes."""
from __future__ import annotations

import pickle
import warnings

import pytest

import millrace as tf
from millrace.core.lib.core import error_codes_pb2
from millrace.python.framework import errors, errors_impl

CLASSES = {
    errors.CANCELLED: errors.CancelledError, errors.UNKNOWN: errors.UnknownError,
    errors.INVALID_ARGUMENT: errors.InvalidArgumentError, errors.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    errors.NOT_FOUND: errors.NotFoundError, errors.ALREADY_EXISTS: errors.AlreadyExistsError,
    errors.PERMISSION_DENIED: errors.PermissionDeniedError, errors.UNAUTHENTICATED: errors.UnauthenticatedError,
    errors.RESOURCE_EXHAUSTED: errors.ResourceExhaustedError, errors.FAILED_PRECONDITION: errors.FailedPreconditionError,
    errors.ABORTED: errors.AbortedError, errors.OUT_OF_RANGE: errors.OutOfRangeError,
    errors.UNIMPLEMENTED: errors.UnimplementedError, errors.INTERNAL: errors.InternalError,
    errors.UNAVAILABLE: errors.UnavailableError, errors.DATA_LOSS: errors.DataLossError,
}  # fmt: skip


def test_codes_are_those_of_the_messages() -> None:
    for name, number in error_codes_pb2.Code.items():
        if name not in ("OK",) and not name.startswith("DO_NOT_USE"):
            assert getattr(errors, name) == number and number in CLASSES
    assert errors.OK == 0


@pytest.mark.parametrize("code", sorted(CLASSES))
def test_each_code_has_a_class(code: int) -> None:
    kind = CLASSES[code]
    error = kind(None, None, "text")
    assert (
        isinstance(error, tf.OpError)
        and error.error_code == code
        and error.message == "text"
        and error.op is None
    )
    assert error.node_def is None and str(error) == "text"
    assert (
        errors.error_code_from_exception_type(kind) == code
        and errors.exception_type_from_error_code(code) is kind
    )
    made = errors_impl._make_specific_exception(None, None, "text", code)
    assert type(made) is kind
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and copy.message == "text"


def test_unknown_codes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = errors_impl._make_specific_exception(None, None, "text", 37)
    assert error.error_code == 37 and isinstance(error, tf.OpError)


def test_texts_say_where_the_operation_was_made() -> None:
    op = tf.constant(1.0, name="here").op
    text = str(errors.UnimplementedError(op.node_def, op, "sorry"))
    assert text.startswith("sorry") and "here" in text and __file__ in text and "tf.constant(1.0" in text


def test_status_context() -> None:
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.Open("/nonexistent/file", "r").read()
    with pytest.raises(tf.errors.OpError):
        tf.train.load_checkpoint("/nonexistent/checkpoint")
