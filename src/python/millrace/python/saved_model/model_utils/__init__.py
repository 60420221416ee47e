# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Signatures of models that are exported."""
from millrace.python.saved_model.model_utils.export_output import (  # noqa: F401
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
    TrainOutput,
)
from millrace.python.saved_model.model_utils.export_utils import (  # noqa: F401
    EXPORT_TAG_MAP,
    build_all_signature_defs,
    export_outputs_for_mode,
    get_export_outputs,
    get_temp_export_dir,
    get_timestamped_export_dir,
)
