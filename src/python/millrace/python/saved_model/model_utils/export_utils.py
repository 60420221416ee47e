# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Signatures and folders of models that are exported."""
from __future__ import annotations

import os
import time
from typing import Any

from millrace.python.platform import gfile
from millrace.python.platform import tf_logging as logging
from millrace.python.saved_model import signature_constants, signature_def_utils, tag_constants
from millrace.python.saved_model.model_utils import export_output as export_output_lib
from millrace.python.saved_model.model_utils import mode_keys
from millrace.python.util import compat

EXPORT_TAG_MAP = mode_keys.ModeKeyMap(
    predict=[tag_constants.SERVING], train=[tag_constants.TRAINING], test=["eval"]
)
SIGNATURE_KEY_MAP = mode_keys.ModeKeyMap(
    predict=signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY, train="train", test="eval"
)
MAX_DIRECTORY_CREATION_ATTEMPTS = 10


def build_all_signature_defs(
    receiver_tensors: Any,
    export_outputs: Any,
    receiver_tensors_alternatives: Any = None,
    serving_only: bool = True,
) -> dict[str, Any]:
    """The valid signatures of outputs, by name; the output of key None is the default one.

    Raises:
      ValueError: if `export_outputs` is no dict, or the alternatives are none.
    """
    if not isinstance(receiver_tensors, dict):
        receiver_tensors = {"input": receiver_tensors}
    if export_outputs is None or not isinstance(export_outputs, dict):
        raise ValueError("export_outputs must be a dict and not" "{}".format(type(export_outputs)))
    found: dict[str, Any] = {}
    excluded: dict[str, str] = {}

    def make(output: Any, tensors: Any, name: str) -> None:
        try:
            found[name] = output.as_signature_def(tensors)
        except ValueError as e:
            excluded[name] = str(e)

    for key, output in export_outputs.items():
        make(output, receiver_tensors, key or signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY)
    if receiver_tensors_alternatives:
        if not isinstance(receiver_tensors_alternatives, dict):
            raise ValueError(
                "receiver_tensors_alternatives must be a dict and not %s"
                % type(receiver_tensors_alternatives)
            )
        for receiver_name, tensors in receiver_tensors_alternatives.items():
            tensors = tensors if isinstance(tensors, dict) else {"input": tensors}
            for key, output in export_outputs.items():
                make(output, tensors, "{}:{}".format(receiver_name or "None", key or "None"))
    for name, why in excluded.items():
        logging.warning("Export of signature %s is not possible: %s", name, why)
    return {k: v for k, v in found.items() if not serving_only or signature_def_utils.is_valid_signature(v)}


def get_timestamped_export_dir(export_dir_base: Any) -> bytes:
    """A path below a folder that is named by the time and does not exist; RuntimeError after ten attempts."""
    for _ in range(MAX_DIRECTORY_CREATION_ATTEMPTS):
        name = str(int(time.time()))
        result = os.path.join(compat.as_bytes(export_dir_base), compat.as_bytes(name))
        if not gfile.Exists(result):
            return result
        time.sleep(1)
        logging.warning("Directory %s already exists; retrying", compat.as_str(result))
    raise RuntimeError(
        "Failed to obtain a unique export directory name after {} attempts.".format(
            MAX_DIRECTORY_CREATION_ATTEMPTS
        )
    )


def get_temp_export_dir(timestamped_export_dir: bytes) -> bytes:
    """The temporary path next to it, used while the model is written."""
    folder, name = os.path.split(timestamped_export_dir)
    return os.path.join(compat.as_bytes(folder), compat.as_bytes("temp-" + compat.as_str(name)))


def export_outputs_for_mode(
    mode: str,
    serving_export_outputs: Any = None,
    predictions: Any = None,
    loss: Any = None,
    metrics: Any = None,
) -> Any:
    """The outputs of a mode; ValueError for an unknown one."""
    if mode not in SIGNATURE_KEY_MAP:
        raise ValueError(
            "Export output type not found for mode: {}. Expected one of: {}.".format(
                mode, list(SIGNATURE_KEY_MAP)
            )
        )
    key = SIGNATURE_KEY_MAP[mode]
    if mode_keys.is_predict(mode):
        return get_export_outputs(serving_export_outputs, predictions)
    if mode_keys.is_train(mode):
        return {key: export_output_lib.TrainOutput(loss=loss, predictions=predictions, metrics=metrics)}
    return {key: export_output_lib.EvalOutput(loss=loss, predictions=predictions, metrics=metrics)}


def get_export_outputs(export_outputs: Any, predictions: Any) -> dict[Any, Any]:
    """The outputs of predictions with a default one.

    Raises:
      TypeError: if they are no dict of ExportOutputs.
      ValueError: if there are several and none is the default.
    """
    default = signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if export_outputs is None:
        export_outputs = {default: export_output_lib.PredictOutput(predictions)}
    if not isinstance(export_outputs, dict):
        raise TypeError("export_outputs must be dict, given: {}".format(export_outputs))
    for value in export_outputs.values():
        if not isinstance(value, export_output_lib.ExportOutput):
            raise TypeError(
                "Values in export_outputs must be ExportOutput objects. Given: {}".format(export_outputs)
            )
    if len(export_outputs) == 1:
        ((key, value),) = export_outputs.items()
        if key != default:
            export_outputs[default] = value
    if len(export_outputs) > 1 and default not in export_outputs:
        raise ValueError(
            "Multiple export_outputs were provided, but none of them is specified as the default.  Do this "
            "by naming "
            "one of them with signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY."
        )
    return export_outputs
