# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.saved_model.signature_def_utils."""

from millrace.python.saved_model.signature_def_utils_impl import build_signature_def
from millrace.python.saved_model.signature_def_utils_impl import classification_signature_def
from millrace.python.saved_model.signature_def_utils_impl import is_valid_signature
from millrace.python.saved_model.signature_def_utils_impl import load_op_from_signature_def
from millrace.python.saved_model.signature_def_utils_impl import op_signature_def
from millrace.python.saved_model.signature_def_utils_impl import predict_signature_def
from millrace.python.saved_model.signature_def_utils_impl import regression_signature_def
from millrace.python.saved_model.signature_def_utils_impl import supervised_eval_signature_def
from millrace.python.saved_model.signature_def_utils_impl import supervised_train_signature_def

__all__ = [
    "build_signature_def",
    "classification_signature_def",
    "is_valid_signature",
    "load_op_from_signature_def",
    "op_signature_def",
    "predict_signature_def",
    "regression_signature_def",
    "supervised_eval_signature_def",
    "supervised_train_signature_def",
]
