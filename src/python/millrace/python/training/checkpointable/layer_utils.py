# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.tracking.layer_utils."""
from millrace.python.training.tracking.layer_utils import *  # noqa: F401,F403
