# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Comparison of protocol buffers."""
from __future__ import annotations

import collections.abc
import math
from typing import Any


def _fields(message: Any) -> Any:
    return {descriptor.number: (descriptor, value) for descriptor, value in message.ListFields()}


def _values_equal(a: Any, b: Any, treat_nans_as_equal: bool) -> bool:
    if (
        isinstance(a, float)
        and isinstance(b, float)
        and treat_nans_as_equal
        and math.isnan(a)
        and math.isnan(b)
    ):
        return True
    if hasattr(a, "ListFields") and hasattr(b, "ListFields"):
        return ProtoEq(a, b, treat_nans_as_equal)
    if isinstance(a, collections.abc.Mapping) or hasattr(a, "keys") and hasattr(b, "keys"):
        return set(a.keys()) == set(b.keys()) and all(
            _values_equal(a[k], b[k], treat_nans_as_equal) for k in a
        )
    if not isinstance(a, (str, bytes)) and hasattr(a, "__len__") and hasattr(b, "__len__"):
        return len(a) == len(b) and all(_values_equal(x, y, treat_nans_as_equal) for x, y in zip(a, b))
    return bool(a == b)


def ProtoEq(a: Any, b: Any, treat_nans_as_equal: bool = True) -> bool:  # pylint: disable=invalid-name
    """True when two messages have the same fields with the same values; NaN equals NaN."""
    if not hasattr(a, "ListFields") or not hasattr(b, "ListFields"):
        return _values_equal(a, b, treat_nans_as_equal)
    if a.DESCRIPTOR.full_name != b.DESCRIPTOR.full_name:
        return False
    fields_a, fields_b = _fields(a), _fields(b)
    if set(fields_a) != set(fields_b):
        return False
    return all(_values_equal(fields_a[n][1], fields_b[n][1], treat_nans_as_equal) for n in fields_a)


def NormalizeNumberFields(pb: Any) -> Any:  # pylint: disable=invalid-name
    """Rounds the floating-point fields of a message to the precision of their type; returns the message."""
    for descriptor, value in pb.ListFields():
        repeated = descriptor.label == descriptor.LABEL_REPEATED
        if descriptor.cpp_type in (descriptor.CPPTYPE_FLOAT, descriptor.CPPTYPE_DOUBLE):
            digits = 6 if descriptor.cpp_type == descriptor.CPPTYPE_FLOAT else 15
            if repeated:
                rounded = [round(x, digits) for x in value]
                del value[:]
                value.extend(rounded)
            else:
                setattr(pb, descriptor.name, round(value, digits))
        elif descriptor.cpp_type == descriptor.CPPTYPE_MESSAGE:
            if repeated and descriptor.message_type.GetOptions().map_entry:
                for item in value.values():
                    if hasattr(item, "ListFields"):
                        NormalizeNumberFields(item)
            elif repeated:
                for item in value:
                    NormalizeNumberFields(item)
            else:
                NormalizeNumberFields(value)
    return pb


def isClose(x: Any, y: Any, relative_tolerance: float) -> bool:  # pylint: disable=invalid-name
    """Whether numbers differ by at most `relative_tolerance` times the larger; equal infinities do not."""
    if math.isinf(x) or math.isinf(y):
        return bool(x == y)
    return bool(abs(x - y) <= relative_tolerance * max(abs(x), abs(y)))


def assertProtoEqual(  # pylint: disable=invalid-name
    self: Any,
    a: Any,
    b: Any,
    check_initialized: bool = True,
    normalize_numbers: bool = False,
    msg: Any = None,
) -> None:
    """Fails the test case `self` when the messages differ; `a` may be in text format."""
    from google.protobuf import text_format

    if isinstance(a, str):
        a = text_format.Merge(a, b.__class__())
    for pb in a, b:
        if check_initialized:
            errors = pb.FindInitializationErrors()
            if errors:
                self.fail("Initialization errors: %s\n%s" % (errors, pb))
        if normalize_numbers:
            NormalizeNumberFields(pb)
    if not ProtoEq(a, b):
        self.assertMultiLineEqual(
            text_format.MessageToString(a, descriptor_pool=None), text_format.MessageToString(b), msg=msg
        )


class ProtoAssertions:
    """Gives test cases the method `assertProtoEqual`."""

    def assertProtoEqual(self, *args: Any, **kwargs: Any) -> None:  # pylint: disable=invalid-name
        assertProtoEqual(self, *args, **kwargs)
