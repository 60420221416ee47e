# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions and what belongs to them."""
from millrace.python.client.session import InteractiveSession, Session  # noqa: F401
from millrace.python.framework import errors  # noqa: F401
from millrace.python.framework.errors import OpError  # noqa: F401
from millrace.python.framework.ops import get_default_session  # noqa: F401
