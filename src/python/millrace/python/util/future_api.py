# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""An empty module: the names of version 2 are in tf.compat.v2."""
