# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.tracking.base."""
from millrace.python.training.tracking.base import *  # noqa: F401,F403
from millrace.python.training.tracking.base import Trackable as Checkpointable  # noqa: F401
from millrace.python.training.tracking.base import Trackable as CheckpointableBase  # noqa: F401
