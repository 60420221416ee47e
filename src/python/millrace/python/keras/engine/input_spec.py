# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The requirements of a layer on its inputs."""

from millrace.python.layers._input_spec import InputSpec  # noqa: F401
