# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Options for the distribution of a dataset over workers."""
from __future__ import annotations

from millrace.python.data.util import options


class DistributeOptions(options.OptionsBase):
    """Options of distribution, which have no effect in one process."""

    auto_shard = options.create_option(
        "auto_shard", bool, "Whether each worker reads a shard of the files.", default_factory=lambda: True
    )
    _make_stateless = options.create_option(
        "_make_stateless", bool, "Whether stateful operations are replaced by stateless ones."
    )
    num_devices = options.create_option("num_devices", int, "The number of devices that share the dataset.")
