# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the base classes of tf.layers have their home; Keras itself is not part of the package."""
