# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.tracking.graph_view."""
from millrace.python.training.tracking.graph_view import *  # noqa: F401,F403
