# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The modules of the base classes of tf.layers; Keras itself is not part of the package."""
