# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions whose calls are batched."""
from __future__ import annotations

from typing import Any, Callable, Optional, TYPE_CHECKING

from millrace.python.framework import function, ops
from millrace.python.ops import gen_batch_ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names of gen_batch_ops that this module does not define."""

else:
    from millrace.python.ops.gen_batch_ops import *  # noqa: F401,F403


def batch_function(
    num_batch_threads: int,
    max_batch_size: int,
    batch_timeout_micros: int,
    allowed_batch_sizes: Optional[list[int]] = None,
    max_enqueued_batches: int = 10,
    autograph: bool = True,
) -> Callable[[Any], Any]:
    """Returns a decorator that batches calls of a function: they run as one call with concatenated arguments.

    Args:
      num_batch_threads: threads that run batches.
      max_batch_size: the most rows of a batch.
      batch_timeout_micros: how long the first call of a batch waits.
      allowed_batch_sizes: sizes that batches are padded to, in ascending order, the last being `max_batch_size`.
      max_enqueued_batches: the most batches that may wait; further calls fail with UnavailableError.
      autograph: has no effect.

    Returns:
      A decorator for functions of tensors [rows, ...] that return tensors [rows, ...]. There is no gradient.
    """
    del autograph

    def decorator(fn: Any) -> Any:
        def decorated(*args: Any) -> Any:
            with ops.name_scope("batch") as name:
                tensors = [ops.convert_to_tensor(a) for a in args]

                @function.Defun(*[t.dtype for t in tensors])
                def computation(*computation_args: Any) -> Any:
                    for arg, tensor in zip(computation_args, tensors):
                        arg.set_shape([None] + tensor.shape.as_list()[1:] if tensor.shape.ndims else None)
                    return fn(*computation_args)

                computation.add_to_graph(ops.get_default_graph())
                result = gen_batch_ops.batch_function(
                    num_batch_threads=num_batch_threads,
                    max_batch_size=max_batch_size,
                    batch_timeout_micros=batch_timeout_micros,
                    allowed_batch_sizes=allowed_batch_sizes,
                    max_enqueued_batches=max_enqueued_batches,
                    shared_name=name,
                    f=computation,
                    in_tensors=tensors,
                    captured_tensors=computation.captured_inputs,
                    Tout=[o.type for o in computation.definition.signature.output_arg],
                )
                if len(result) == 1:
                    return result[0]
                return result

        return decorated

    return decorator


nondifferentiable_batch_function = batch_function
