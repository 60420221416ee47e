# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""How a graph parses examples, as ExampleParserConfiguration."""
from __future__ import annotations

from typing import Any

from millrace.core.example import example_parser_configuration_pb2
from millrace.python.framework import tensor_shape, tensor_util


def extract_example_parser_configuration(parse_example_op: Any, sess: Any) -> Any:
    """The configuration of an operation ParseExample or ParseExampleV2.

    Args:
      parse_example_op: the operation.
      sess: a session that computes keys and defaults.

    Raises:
      ValueError: if it is another operation.
    """
    if parse_example_op.type == "ParseExample":
        return _extract(parse_example_op, sess, dense_begin=2)
    if parse_example_op.type == "ParseExampleV2":
        return _extract_v2(parse_example_op, sess)
    raise ValueError("Unexpected op type: %s" % parse_example_op.type)


def _extract(op: Any, sess: Any, dense_begin: int) -> Any:
    num_sparse, num_dense = op.get_attr("Nsparse"), op.get_attr("Ndense")
    inputs = list(op.inputs)
    end = dense_begin + num_sparse
    fetched = sess.run(inputs[dense_begin:])
    sparse_keys = [k.decode() for k in fetched[:num_sparse]]
    dense_keys = [k.decode() for k in fetched[num_sparse : num_sparse + num_dense]]
    defaults = fetched[num_sparse + num_dense :]
    assert end <= len(inputs)
    return _configuration(op, sparse_keys, dense_keys, defaults)


def _extract_v2(op: Any, sess: Any) -> Any:
    sparse_keys, dense_keys = sess.run([op.inputs[2], op.inputs[3]])
    defaults = sess.run(list(op.inputs)[5:])
    return _configuration(op, [k.decode() for k in sparse_keys], [k.decode() for k in dense_keys], defaults)


def _configuration(op: Any, sparse_keys: Any, dense_keys: Any, defaults: Any) -> Any:
    config = example_parser_configuration_pb2.ExampleParserConfiguration()
    num_sparse, num_dense = len(sparse_keys), len(dense_keys)
    outputs = [t.name for t in op.outputs]
    for i, key in enumerate(dense_keys):
        dense = config.feature_map[key].fixed_len_feature
        dense.default_value.CopyFrom(
            tensor_util.make_tensor_proto(defaults[i], dtype=op.get_attr("Tdense")[i])
        )
        shape = tensor_shape.as_shape(op.get_attr("dense_shapes")[i])
        dense.shape.CopyFrom(shape.as_proto())
        dense.dtype = op.get_attr("Tdense")[i].as_datatype_enum
        dense.values_output_tensor_name = outputs[3 * num_sparse + i]
    assert len(outputs) == 3 * num_sparse + num_dense
    for i, key in enumerate(sparse_keys):
        sparse = config.feature_map[key].var_len_feature
        sparse.dtype = op.get_attr("sparse_types")[i].as_datatype_enum
        sparse.indices_output_tensor_name = outputs[i]
        sparse.values_output_tensor_name = outputs[num_sparse + i]
        sparse.shapes_output_tensor_name = outputs[2 * num_sparse + i]
    return config
