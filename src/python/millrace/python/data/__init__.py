# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.data: input pipelines."""
from millrace.python.data.ops.dataset_ops import (
    Dataset,
    Options,
)  # noqa: F401  # isort: skip: first, for the others need it
from millrace.python.data import experimental  # noqa: F401
from millrace.python.data.ops._spec import DatasetSpec  # noqa: F401
from millrace.python.data.ops._spec import get_legacy_output_classes as get_output_classes  # noqa: F401
from millrace.python.data.ops._spec import get_legacy_output_shapes as get_output_shapes  # noqa: F401
from millrace.python.data.ops._spec import get_legacy_output_types as get_output_types  # noqa: F401
from millrace.python.data.ops.iterator_ops import Iterator  # noqa: F401
from millrace.python.data.ops.readers import (
    FixedLengthRecordDataset,
    TextLineDataset,
    TFRecordDataset,
)  # noqa: F401
