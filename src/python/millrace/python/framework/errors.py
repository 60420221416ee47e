# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Exception types for errors of the engine."""
from millrace.python.framework import errors_impl as _impl
from millrace.python.framework.errors_impl import *  # noqa: F401,F403
from millrace.python.framework.errors_impl import (  # noqa: F401
    _make_specific_exception,
    error_code_from_exception_type,
    exception_type_from_error_code,
)
