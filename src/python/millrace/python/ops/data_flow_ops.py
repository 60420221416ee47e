# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""State that steps share: queues, barriers, staging areas, accumulators."""

from __future__ import annotations

from millrace.python.ops.gen_data_flow_ops import *  # noqa: F401,F403
from millrace.python.ops._data_flow_accumulators import ConditionalAccumulator  # noqa: F401
from millrace.python.ops._data_flow_accumulators import ConditionalAccumulatorBase  # noqa: F401
from millrace.python.ops._data_flow_accumulators import SparseConditionalAccumulator  # noqa: F401
from millrace.python.ops._data_flow_queues import FIFOQueue  # noqa: F401
from millrace.python.ops._data_flow_queues import GPUCompatibleFIFOQueue  # noqa: F401
from millrace.python.ops._data_flow_queues import PaddingFIFOQueue  # noqa: F401
from millrace.python.ops._data_flow_queues import PriorityQueue  # noqa: F401
from millrace.python.ops._data_flow_queues import QueueBase  # noqa: F401
from millrace.python.ops._data_flow_queues import RandomShuffleQueue  # noqa: F401
from millrace.python.ops._data_flow_queues import _as_name_list  # noqa: F401
from millrace.python.ops._data_flow_queues import _as_shape_list  # noqa: F401
from millrace.python.ops._data_flow_queues import _as_type_list  # noqa: F401
from millrace.python.ops._data_flow_staging import Barrier  # noqa: F401
from millrace.python.ops._data_flow_staging import BaseStagingArea  # noqa: F401
from millrace.python.ops._data_flow_staging import MapStagingArea  # noqa: F401
from millrace.python.ops._data_flow_staging import RecordInput  # noqa: F401
from millrace.python.ops._data_flow_staging import StagingArea  # noqa: F401
