# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.tracking.data_structures."""
from millrace.python.training.tracking.data_structures import *  # noqa: F401,F403
