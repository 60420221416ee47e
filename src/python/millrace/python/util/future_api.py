# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing: the names of later interfaces are in tf.compat.v2."""
