# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A test of ops that the engine has no kernel of yet says so and is skipped."""
from __future__ import annotations

from typing import Callable

import pytest


@pytest.fixture
def need() -> Callable[..., None]:
    """Returns a function that skips the test unless there is a kernel of each op that it is given."""
    from millrace.python.framework import kernels

    def check(*names: str) -> None:
        for name in names:
            if not kernels.get_registered_kernels_for_op(name).kernel:
                pytest.skip("there is no kernel of %s" % name)

    return check
