# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification: loss and decoders (Graves et al., 2006)."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

from millrace.python.framework import dtypes, ops, sparse_tensor
from millrace.python.ops import array_ops, functional_ops, gen_ctc_ops, math_ops
from millrace.python.ops._ctc_states import (  # noqa: F401
    _scan,
    _state_to_olabel,
    _state_to_olabel_unique,
    _sum_states,
)
from millrace.python.util import deprecation


def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Any:
    """Returns the negative log probabilities [batch] of the sparse int32 `labels` ([batch, time]).

    `inputs` are logits [time, batch, classes] (or [batch, time, classes]); the blank is the last class. Raises TypeError
    when `labels` are not sparse.
    """
    inputs = deprecation.deprecated_argument_lookup("logits", logits, "inputs", inputs)
    return _ctc_loss_impl(
        labels,
        inputs,
        sequence_length,
        preprocess_collapse_repeated,
        ctc_merge_repeated,
        ignore_longer_outputs_than_inputs,
        time_major,
    )


def _ctc_loss_impl(
    labels: Any,
    inputs: Any,
    sequence_length: Any,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
) -> Any:
    if not isinstance(labels, sparse_tensor.SparseTensor):
        raise TypeError("Expected labels (first argument) to be a SparseTensor")
    inputs = ops.convert_to_tensor(inputs, name="logits")
    if not time_major:
        inputs = array_ops.transpose(inputs, [1, 0, 2])
    loss, _ = gen_ctc_ops.ctc_loss(
        inputs,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    return loss


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True
) -> Tuple[List[Any], Any]:
    """Returns ([decoded sparse tensor], negative sum of the chosen logits [batch, 1])."""
    index, values, shape, log_probabilities = gen_ctc_ops.ctc_greedy_decoder(
        inputs, sequence_length, merge_repeated=merge_repeated
    )
    return [sparse_tensor.SparseTensor(index, values, shape)], log_probabilities


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> Tuple[List[Any], Any]:
    """Returns (list of `top_paths` decoded sparse tensors, their log probabilities [batch, top_paths])."""
    indices, values, shapes, log_probabilities = gen_ctc_ops.ctc_beam_search_decoder(
        inputs, sequence_length, beam_width=beam_width, top_paths=top_paths, merge_repeated=merge_repeated
    )
    decoded = [sparse_tensor.SparseTensor(i, v, s) for i, v, s in zip(indices, values, shapes)]
    return decoded, log_probabilities


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> Tuple[List[Any], Any]:
    """As `ctc_beam_search_decoder`, repeated labels kept."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


def _move_blank_to_end(labels: Any, logits: Any, blank_index: Any) -> Tuple[Any, Any]:
    """Returns sparse labels and logits with the blank as the last class."""
    if blank_index < 0:
        blank_index += _num_classes(logits)
    logits = array_ops.concat(
        [
            logits[:, :, :blank_index],
            logits[:, :, blank_index + 1 :],
            logits[:, :, blank_index : blank_index + 1],
        ],
        axis=2,
    )
    values = array_ops.where(labels.values < blank_index, labels.values, labels.values - 1)
    return sparse_tensor.SparseTensor(labels.indices, values, labels.dense_shape), logits


def _num_classes(logits: Any) -> Any:
    static = logits.get_shape().as_list()[2]
    return static if static is not None else array_ops.shape(logits)[2]


def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns the negative log probabilities [batch] of `labels`, dense [batch, max length] or sparse.

    The blank is class `blank_index` (default 0 for dense labels; must be given for sparse ones). `unique`, the result of
    `ctc_unique_labels`, is not needed. Raises ValueError for sparse labels without `blank_index`.
    """
    if isinstance(labels, sparse_tensor.SparseTensor):
        if blank_index is None:
            raise ValueError("blank_index must be given when using SparseTensor labels.")
        with ops.name_scope(name, "ctc_loss", [logits]):
            logits = ops.convert_to_tensor(logits, name="logits")
            if not logits_time_major:
                logits = array_ops.transpose(logits, [1, 0, 2])
            labels, logits = _move_blank_to_end(labels, logits, blank_index)
            return ctc_loss(labels=labels, inputs=logits, sequence_length=logit_length, time_major=True)
    if blank_index is None:
        blank_index = 0
    return ctc_loss_dense(
        labels=labels,
        logits=logits,
        label_length=label_length,
        logit_length=logit_length,
        logits_time_major=logits_time_major,
        unique=unique,
        blank_index=blank_index,
        name=name,
    )


def ctc_loss_dense(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int = 0,
    name: Optional[str] = None,
) -> Any:
    """As `ctc_loss_v2` for dense labels."""
    with ops.name_scope(name, "ctc_loss_dense", [logits, labels, label_length, logit_length]):
        logits = ops.convert_to_tensor(logits, name="logits")
        labels = math_ops.cast(ops.convert_to_tensor(labels, name="labels"), dtypes.int32)
        label_length = math_ops.cast(ops.convert_to_tensor(label_length, name="label_length"), dtypes.int32)
        logit_length = math_ops.cast(ops.convert_to_tensor(logit_length, name="logit_length"), dtypes.int32)
        if not logits_time_major:
            logits = array_ops.transpose(logits, perm=[1, 0, 2])
        sparse_labels = dense_labels_to_sparse(labels, label_length)
        sparse_labels, logits = _move_blank_to_end(sparse_labels, logits, blank_index)
        return ctc_loss(labels=sparse_labels, inputs=logits, sequence_length=logit_length, time_major=True)


def dense_labels_to_sparse(dense: Any, length: Any) -> Any:
    """Returns the first `length` elements of each row of `dense` as a sparse tensor."""
    dense = ops.convert_to_tensor(dense)
    shape = array_ops.shape(dense)
    inside = array_ops.sequence_mask(length, maxlen=shape[1])
    indices = array_ops.where(inside)
    values = array_ops.gather_nd(dense, indices)
    return sparse_tensor.SparseTensor(indices, values, math_ops.cast(shape, dtypes.int64))


_ctc_label_dense_to_sparse = dense_labels_to_sparse


def collapse_repeated(labels: Any, seq_length: Any, name: Optional[str] = None) -> Tuple[Any, Any]:
    """Returns (labels with runs of equal labels merged and padded with zeros, their new lengths)."""
    with ops.name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels = ops.convert_to_tensor(labels, name="labels")
        seq_length = ops.convert_to_tensor(seq_length, name="seq_length")
        label_mask = array_ops.concat(
            [
                array_ops.ones_like(labels[:, :1], dtypes.bool),
                math_ops.not_equal(labels[:, 1:], labels[:, :-1]),
            ],
            axis=1,
        )
        maxlen = array_ops.shape(labels)[1]
        label_mask = math_ops.logical_and(label_mask, array_ops.sequence_mask(seq_length, maxlen=maxlen))
        new_len = math_ops.reduce_sum(math_ops.cast(label_mask, dtypes.int32), axis=1)
        new_maxlen = math_ops.reduce_max(new_len)
        target = array_ops.where(array_ops.sequence_mask(new_len, maxlen=new_maxlen))
        values = array_ops.boolean_mask(labels, label_mask)
        shape = math_ops.cast(array_ops.stack([array_ops.shape(labels)[0], new_maxlen]), dtypes.int64)
        collapsed = array_ops.scatter_nd(target, values, shape)
        new_len = math_ops.cast(new_len, seq_length.dtype)
        collapsed.set_shape([labels.get_shape().as_list()[0] if labels.get_shape().ndims else None, None])
        return collapsed, new_len


def ctc_unique_labels(labels: Any, name: Optional[str] = None) -> Tuple[Any, Any]:
    """Returns (unique labels of each row, padded with 0; index into them of each label), of the shape of `labels`."""
    with ops.name_scope(name, "ctc_unique_labels", [labels]):
        labels = ops.convert_to_tensor(labels, name="labels")

        def unique_row(row: Any) -> List[Any]:
            found = array_ops.unique(row)
            y = array_ops.pad(found.y, [[0, array_ops.shape(row)[0] - array_ops.shape(found.y)[0]]])
            return [y, math_ops.cast(found.idx, dtypes.int64)]

        results = functional_ops.map_fn(unique_row, labels, dtype=[labels.dtype, dtypes.int64])
        for result in results:
            result.set_shape(labels.get_shape())
        return results[0], results[1]


def ctc_state_log_probs(seq_lengths: Any, max_seq_length: Any) -> Tuple[Any, Any]:
    """Returns the log probabilities (0 or log(0)) of the initial and of the final states of the label automaton."""
    batch_size = array_ops.shape(seq_lengths)[0]
    log_0 = -1e9
    num_label_states = max_seq_length + 1
    num_states = 2 * num_label_states
    initial = array_ops.concat(
        [
            array_ops.zeros(array_ops.stack([batch_size, 1])),
            array_ops.ones(array_ops.stack([batch_size, num_label_states - 1])) * log_0,
            array_ops.zeros(array_ops.stack([batch_size, 1])),
            array_ops.ones(array_ops.stack([batch_size, num_label_states - 1])) * log_0,
        ],
        axis=1,
    )
    final_mask = array_ops.one_hot(seq_lengths, depth=num_label_states, on_value=0.0, off_value=log_0)
    final = array_ops.concat([final_mask, final_mask], axis=1)
    return initial, array_ops.reshape(final, array_ops.stack([batch_size, num_states]))
