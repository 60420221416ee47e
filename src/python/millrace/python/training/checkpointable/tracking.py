# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.tracking.tracking."""
from millrace.python.training.tracking.tracking import *  # noqa: F401,F403
from millrace.python.training.tracking.tracking import AutoTrackable as AutoCheckpointable  # noqa: F401
from millrace.python.training.tracking.tracking import AutoTrackable as Checkpointable  # noqa: F401
