# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of tf.contrib, many of them made of functions of core with other names or arguments."""
