# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Warm starts: variables that begin with values of an earlier model, embeddings by vocabulary."""

from __future__ import annotations

import collections
import re
from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import state_ops
from millrace.python.ops import variable_scope
from millrace.python.ops import variables as variables_lib
from millrace.python.platform import tf_logging as logging
from millrace.python.training import checkpoint_utils
from millrace.python.training import saver as saver_lib


class VocabInfo(
    collections.namedtuple(  # type: ignore[misc]
        "VocabInfo",
        [
            "new_vocab",
            "new_vocab_size",
            "num_oov_buckets",
            "old_vocab",
            "old_vocab_size",
            "backup_initializer",
            "axis",
        ],
    )
):
    """The mapping of rows (axis 0) or columns (axis 1) of a variable from an old vocabulary to a new one.

    new_vocab, old_vocab: files with a word in each line; old_vocab_size: -1 for all; num_oov_buckets: rows for
    words that are in none; backup_initializer: of words that are new.
    """

    def __new__(
        cls,
        new_vocab: Any,
        new_vocab_size: int,
        num_oov_buckets: int,
        old_vocab: Any,
        old_vocab_size: int = -1,
        backup_initializer: Any = None,
        axis: int = 0,
    ) -> Any:
        if axis not in (0, 1):
            raise ValueError(
                "The only supported values for the axis argument are 0 and 1.  Provided axis: {}".format(axis)
            )
        return super().__new__(
            cls,
            new_vocab,
            new_vocab_size,
            num_oov_buckets,
            old_vocab,
            old_vocab_size,
            backup_initializer,
            axis,
        )


def _infer_var_name(var: Any) -> str:
    """The name of a variable, a part, or a list of parts, in checkpoints."""
    name_to_var_dict = saver_lib.BaseSaverBuilder.OpListToDict(var if isinstance(var, list) else [var])
    if len(name_to_var_dict) > 1:
        raise TypeError(
            "`var` = %s passed as arg violates the constraints.  name_to_var_dict = %s"
            % (var, name_to_var_dict)
        )
    return list(name_to_var_dict.keys())[0]


def _get_var_info(var: Any, prev_tensor_name: str | None = None) -> tuple[str, Any]:
    """Name in the checkpoint, and the variable or list of parts."""
    if isinstance(var, variables_lib.PartitionedVariable):
        var = var._get_variable_list()
    if not prev_tensor_name:
        prev_tensor_name = _infer_var_name(var)
    return prev_tensor_name, var


def _warm_start_var_with_vocab(
    var: Any,
    current_vocab_path: Any,
    current_vocab_size: int,
    prev_ckpt: Any,
    prev_vocab_path: Any,
    previous_vocab_size: int = -1,
    current_oov_buckets: int = 0,
    prev_tensor_name: str | None = None,
    initializer: Any = None,
    axis: int = 0,
) -> None:
    """Makes rows (or columns) of an earlier variable, found by words, the initial value of `var`.

    Raises:
      ValueError: if an argument is missing, or the variable has not two dimensions.
    """
    from millrace.python.training import checkpoint_ops

    if not (current_vocab_path and current_vocab_size and prev_ckpt and prev_vocab_path):
        raise ValueError(
            "Invalid args: Must provide all of [current_vocab_path, current_vocab_size, prev_ckpt, prev_vocab_path}."
        )
    parts = [var] if checkpoint_utils._is_variable(var) else list(var)
    if prev_tensor_name is None:
        prev_tensor_name = _infer_var_name(var)
    total_v_first_axis = sum(v.get_shape().as_list()[0] for v in parts)
    for v in parts:
        v_shape = v.get_shape().as_list()
        slice_info = v._get_save_slice_info() if hasattr(v, "_get_save_slice_info") else v._save_slice_info
        partition_info = None
        if slice_info:
            partition_info = variable_scope._PartitionInfo(
                full_shape=slice_info.full_shape, var_offset=slice_info.var_offset
            )
        if axis == 0:
            new_row_vocab_size, new_col_vocab_size = current_vocab_size, v_shape[1]
            old_row_vocab_size = previous_vocab_size
            old_row_vocab_file, new_row_vocab_file = prev_vocab_path, current_vocab_path
            old_col_vocab_file = new_col_vocab_file = None
            num_row_oov_buckets, num_col_oov_buckets = current_oov_buckets, 0
        else:
            new_row_vocab_size, new_col_vocab_size = total_v_first_axis, current_vocab_size
            old_row_vocab_size = -1
            old_row_vocab_file = new_row_vocab_file = None
            old_col_vocab_file, new_col_vocab_file = prev_vocab_path, current_vocab_path
            num_row_oov_buckets, num_col_oov_buckets = 0, current_oov_buckets
        init = checkpoint_ops._load_and_remap_matrix_initializer(
            ckpt_path=checkpoint_utils._get_checkpoint_filename(prev_ckpt),
            old_tensor_name=prev_tensor_name,
            new_row_vocab_size=new_row_vocab_size,
            new_col_vocab_size=new_col_vocab_size,
            old_row_vocab_size=old_row_vocab_size,
            old_row_vocab_file=old_row_vocab_file,
            new_row_vocab_file=new_row_vocab_file,
            old_col_vocab_file=old_col_vocab_file,
            new_col_vocab_file=new_col_vocab_file,
            num_row_oov_buckets=num_row_oov_buckets,
            num_col_oov_buckets=num_col_oov_buckets,
            initializer=initializer,
        )
        new_init_val = ops.convert_to_tensor(init(shape=v_shape, partition_info=partition_info))
        v._initializer_op = state_ops.assign(v, new_init_val)


def _get_grouped_variables(vars_to_warm_start: Any) -> dict[str, list[Any]]:
    """Variables by the names of the wholes that they are parts of.

    Raises:
      ValueError: if `vars_to_warm_start` is of another kind.
    """
    if isinstance(vars_to_warm_start, str) or vars_to_warm_start is None:
        # An expression for names of trainable variables.
        pattern = vars_to_warm_start
        list_of_vars = [
            v
            for v in ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES)
            if pattern and re.match(pattern, v.op.name)
        ]
    elif isinstance(vars_to_warm_start, list):
        if all(isinstance(v, str) for v in vars_to_warm_start):
            everything = variables_lib.global_variables()
            list_of_vars = [v for v in everything if any(re.match(p, v.op.name) for p in vars_to_warm_start)]
        elif all(checkpoint_utils._is_variable(v) for v in vars_to_warm_start):
            list_of_vars = vars_to_warm_start
        else:
            raise ValueError(
                "If `vars_to_warm_start` is a list, it must be all `Variable` or all `str`.  Given types are {}".format(
                    [type(v) for v in vars_to_warm_start]
                )
            )
    else:
        raise ValueError(
            "`vars_to_warm_start must be a `list` or `str`.  Given type is {}".format(
                type(vars_to_warm_start)
            )
        )
    grouped: dict[str, list[Any]] = {}
    for v in list_of_vars:
        info = v._save_slice_info
        grouped.setdefault(info.full_name if info else v.op.name, []).append(v)
    return grouped


def warm_start(
    ckpt_to_initialize_from: Any,
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Any = None,
    var_name_to_prev_var_name: Any = None,
) -> None:
    """Makes values of a checkpoint the initial values of variables.

    Args:
      ckpt_to_initialize_from: checkpoint or folder.
      vars_to_warm_start: expression for names of trainable variables; list of variables, or of expressions for
        names of all; None: only those of `var_name_to_vocab_info`.
      var_name_to_vocab_info: VocabInfo by names of variables.
      var_name_to_prev_var_name: names in the checkpoint by names of variables, where they differ.

    Raises:
      ValueError: if a name is not used, or an argument is not valid.
    """
    logging.info("Warm-starting from: %s", ckpt_to_initialize_from)
    grouped_variables = _get_grouped_variables(vars_to_warm_start)
    var_name_to_vocab_info = var_name_to_vocab_info or {}
    var_name_to_prev_var_name = var_name_to_prev_var_name or {}
    prev_var_name_used, vocab_info_used = set(), set()
    vocabless_vars: dict[str, Any] = {}
    for var_name, variable in grouped_variables.items():
        prev_var_name = var_name_to_prev_var_name.get(var_name)
        if prev_var_name:
            prev_var_name_used.add(var_name)
        vocab_info = var_name_to_vocab_info.get(var_name)
        if vocab_info:
            vocab_info_used.add(var_name)
            _warm_start_var_with_vocab(
                variable,
                current_vocab_path=vocab_info.new_vocab,
                current_vocab_size=vocab_info.new_vocab_size,
                prev_ckpt=ckpt_to_initialize_from,
                prev_vocab_path=vocab_info.old_vocab,
                previous_vocab_size=vocab_info.old_vocab_size,
                current_oov_buckets=vocab_info.num_oov_buckets,
                prev_tensor_name=prev_var_name,
                initializer=vocab_info.backup_initializer,
                axis=vocab_info.axis,
            )
        elif vars_to_warm_start:
            if len(variable) == 1:
                variable = variable[0]
            prev_tensor_name, var = _get_var_info(variable, prev_var_name)
            vocabless_vars[prev_tensor_name] = var
    if vocabless_vars:
        checkpoint_utils.init_from_checkpoint(ckpt_to_initialize_from, vocabless_vars)
    logging.info("Warm-started %d variables.", len(vocabless_vars) + len(vocab_info_used))
    prev_var_name_not_used = set(var_name_to_prev_var_name) - prev_var_name_used
    if prev_var_name_not_used:
        raise ValueError(
            "You provided the following variables in var_name_to_prev_var_name that were not used: {0}.  Perhaps you misspelled them?  Here is the list of viable variable names: {1}".format(
                prev_var_name_not_used, grouped_variables.keys()
            )
        )
    vocab_info_not_used = set(var_name_to_vocab_info) - vocab_info_used
    if vocab_info_not_used:
        raise ValueError(
            "You provided the following variables in var_name_to_vocab_info that were not used: {0}.  Perhaps you misspelled them?  Here is the list of viable variable names: {1}".format(
                vocab_info_not_used, grouped_variables.keys()
            )
        )
