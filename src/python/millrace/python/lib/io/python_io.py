# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Record files: the module behind tf.python_io."""

from millrace.python.lib.io.tf_record import *  # noqa: F401,F403
