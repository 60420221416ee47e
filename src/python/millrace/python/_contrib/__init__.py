# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of tf.contrib that core has under another name or with another order of arguments."""
