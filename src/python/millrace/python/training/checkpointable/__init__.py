# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow 1.15 has in training.tracking, under the name that it had in 1.13."""
