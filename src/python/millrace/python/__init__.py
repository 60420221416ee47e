# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The modules of the package, where those of TensorFlow 1.15 are."""
from millrace import _absent_modules  # noqa: F401
