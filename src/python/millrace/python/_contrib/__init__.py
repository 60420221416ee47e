# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""What names of tf.contrib stand for where core has the same under another name or in another order of arguments."""
