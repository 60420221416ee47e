# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Limits of the threads of a pipeline."""
from __future__ import annotations

from millrace.python.data.util import options


class ThreadingOptions(options.OptionsBase):
    """Options of threads."""

    max_intra_op_parallelism = options.create_option(
        "max_intra_op_parallelism", int, "The number of threads of one operation."
    )
    private_threadpool_size = options.create_option(
        "private_threadpool_size", int, "The number of threads of the dataset's private pool."
    )
