# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Another name of training.saving.saveable_object, which it had in TensorFlow 1.13."""
from millrace.python.training.saving.saveable_object import SaveableObject, SaveSpec  # noqa: F401
