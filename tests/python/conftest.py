# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Each test starts with an empty default graph, and programs may call the package `tensorflow`."""
from __future__ import annotations

from collections.abc import Iterator

import pytest

from millrace import _import_hook
from millrace.python.framework import ops

_import_hook.install()


@pytest.fixture(autouse=True)
def empty_default_graph() -> Iterator[None]:
    """Drops the default graph of the test before."""
    ops._default_graph_stack.reset()
    ops._default_session_stack.reset()
    yield
    ops._default_graph_stack.reset()
