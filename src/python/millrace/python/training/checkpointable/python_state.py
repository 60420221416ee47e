# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.tracking.python_state."""
from millrace.python.training.tracking.python_state import *  # noqa: F401,F403
