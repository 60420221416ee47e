# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.tracking.util."""
from millrace.python.training.tracking.util import *  # noqa: F401,F403
from millrace.python.training.tracking.util import TrackableSaver as CheckpointableSaver  # noqa: F401
