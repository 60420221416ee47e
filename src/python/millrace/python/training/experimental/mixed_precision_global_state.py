# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether sessions that are made from now on rewrite their graphs to mixed precision."""

from __future__ import annotations

# Set by enable_mixed_precision_graph_rewrite, read by sessions.
mixed_precision_graph_rewrite_is_enabled = False

# Whether a session was made while the rewrite was off: that session is not rewritten.
non_mixed_precision_session_created = False
