# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The functions of tf.initializers."""
from millrace.python.ops import lookup_ops, variables

global_variables = variables.global_variables_initializer
local_variables = variables.local_variables_initializer
tables_initializer = lookup_ops.tables_initializer
variables = variables.variables_initializer  # type: ignore[assignment]
