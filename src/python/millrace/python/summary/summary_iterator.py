# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Events of an event file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millrace.python.lib.io import tf_record


def summary_iterator(path: Any) -> Iterator[Any]:
    """Yields the Event messages of an event file."""
    from millrace.core.util import event_pb2

    for r in tf_record.tf_record_iterator(path):
        yield event_pb2.Event.FromString(r)
