# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The fixture `eager`: a test whose ops are executed at once."""
import pytest

from millrace.python.eager import context


@pytest.fixture
def eager():
    with context.eager_mode():
        yield
