# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading MNIST, and the small model of the tutorials."""
from millrace.examples.tutorials.mnist import input_data  # noqa: F401
from millrace.examples.tutorials.mnist import mnist  # noqa: F401
