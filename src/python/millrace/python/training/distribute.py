# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.distribution_strategy_context."""
from millrace.python.training.distribution_strategy_context import *  # noqa: F401,F403
