# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""optimize_loss and the summaries of tf.contrib.layers."""
from __future__ import annotations

import functools
import re
from typing import Any

from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import (
    array_ops,
    clip_ops,
    control_flow_ops,
    init_ops,
    math_ops,
    nn,
    random_ops,
    variable_scope,
    variables,
)
from millrace.python.summary import summary
from millrace.python.training import (
    adagrad,
    adam,
    ftrl,
    gradient_descent,
    momentum,
    moving_averages,
    optimizer as optimizer_lib,
    rmsprop,
    training_util,
)

OPTIMIZER_CLS_NAMES: dict[str, Any] = {
    "Adagrad": adagrad.AdagradOptimizer,
    "Adam": adam.AdamOptimizer,
    "Ftrl": ftrl.FtrlOptimizer,
    "Momentum": functools.partial(momentum.MomentumOptimizer, momentum=0.9),
    "RMSProp": rmsprop.RMSPropOptimizer,
    "SGD": gradient_descent.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = [
    "learning_rate", "loss", "loss.simple", "gradients", "gradient_norm", "global_gradient_norm",
]  # fmt: skip


def _make_optimizer(optimizer: Any, learning_rate: Any) -> Any:
    """The optimizer that a name, class, object or function represents."""
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                "Optimizer name should be one of [%s], you provided %s."
                % (", ".join(OPTIMIZER_CLS_NAMES), optimizer)
            )
        if learning_rate is None:
            raise ValueError("Learning rate is None, but should be specified if optimizer is a string")
        return OPTIMIZER_CLS_NAMES[optimizer](learning_rate=learning_rate)
    if isinstance(optimizer, type) and issubclass(optimizer, optimizer_lib.Optimizer):
        if learning_rate is None:
            raise ValueError("Learning rate is None, but should be specified if optimizer is a class")
        kind: Any = optimizer
        return kind(learning_rate=learning_rate)
    if isinstance(optimizer, optimizer_lib.Optimizer):
        return optimizer
    if callable(optimizer):
        make: Any = optimizer
        made = make(learning_rate) if learning_rate is not None else make()
        if not isinstance(made, optimizer_lib.Optimizer):
            raise ValueError(
                "Optimizer should be either str, subclass of Optimizer, instance of Optimizer or callable, "
                "got %s." % made
            )
        return made
    raise ValueError(
        "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer "
        "or function with one argument. Got %s." % str(optimizer)
    )


def optimize_loss(
    loss: Any, global_step: Any, learning_rate: Any, optimizer: Any, gradient_noise_scale: Any = None,
    gradient_multipliers: Any = None, clip_gradients: Any = None, learning_rate_decay_fn: Any = None,
    update_ops: Any = None, variables: Any = None, name: Any = None, summaries: Any = None,  # noqa: F811
    colocate_gradients_with_ops: bool = False, increment_global_step: bool = True,
) -> Any:  # fmt: skip
    """Returns a training op whose value is the loss; gradients may be scaled, clipped, or get noise.

    Args:
      loss: a scalar tensor.
      global_step: the variable, or None: that of the graph.
      learning_rate: a number, tensor, or None.
      optimizer: a name of OPTIMIZER_CLS_NAMES, a class, an object, or a function of the learning rate.
      gradient_noise_scale: the scale of normal noise added to gradients.
      gradient_multipliers: factors by variables or their names.
      clip_gradients: the largest global norm, or a function of the pairs of gradients and variables.
      learning_rate_decay_fn: a function of the learning rate and the global step.
      update_ops: ops that run before; None: the collection UPDATE_OPS.
      variables: those to be trained; None: TRAINABLE_VARIABLES.
      name: the variable scope, "OptimizeLoss".
      summaries: names of OPTIMIZER_SUMMARIES.
      colocate_gradients_with_ops: see `tf.gradients`.
      increment_global_step: whether the op increments the global step.

    Raises:
      ValueError: an argument has an invalid type or value.
    """
    loss = ops.convert_to_tensor(loss)
    loss.get_shape().assert_is_compatible_with([])
    global_step = training_util.get_global_step() if global_step is None else global_step
    if global_step is not None:
        training_util.assert_global_step(global_step)
    with variable_scope.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        update_ops = set(ops.get_collection(ops.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
        if update_ops:
            loss = control_flow_ops.with_dependencies(list(update_ops), loss)
        lr = _learning_rate(learning_rate, learning_rate_decay_fn, global_step, name)
        summaries = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
        for summ in summaries:
            if summ not in OPTIMIZER_SUMMARIES:
                raise ValueError(
                    "Summaries should be one of [%s], you provided %s."
                    % (", ".join(OPTIMIZER_SUMMARIES), summ)
                )
        if lr is not None and learning_rate_decay_fn is not None and "learning_rate" in summaries:
            summary.scalar("learning_rate", lr)
        opt = _make_optimizer(optimizer, lr)
        if variables is None:
            variables = _trainable()
        gradients = opt.compute_gradients(
            loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        if gradient_noise_scale is not None:
            gradients = _with_noise(gradients, gradient_noise_scale)
        if gradient_multipliers is not None:
            gradients = _multiplied(gradients, gradient_multipliers)
        if "global_gradient_norm" in summaries or "gradient_norm" in summaries:
            summary.scalar("global_norm/gradient_norm", clip_ops.global_norm([g for g, _ in gradients]))
        if isinstance(clip_gradients, float):
            gradients = _clipped(gradients, clip_gradients)
        elif callable(clip_gradients):
            gradients = clip_gradients(gradients)
        elif clip_gradients is not None:
            raise ValueError("Unknown type %s for clip_gradients" % type(clip_gradients))
        if "loss" in summaries or "loss.simple" in summaries:
            summary.scalar("loss", loss)
        _summarize_gradients(gradients, summaries)
        if clip_gradients is not None and (
            "global_gradient_norm" in summaries or "gradient_norm" in summaries
        ):
            summary.scalar(
                "global_norm/clipped_gradient_norm", clip_ops.global_norm([g for g, _ in gradients])
            )
        step = global_step if increment_global_step else None
        applied = opt.apply_gradients(gradients, global_step=step, name="train")
        return control_flow_ops.with_dependencies([applied], loss)


def _trainable() -> Any:
    return variables.trainable_variables()


def _learning_rate(learning_rate: Any, decay_fn: Any, global_step: Any, name: Any) -> Any:
    lr = None
    if learning_rate is not None:
        if isinstance(learning_rate, ops.Tensor) and learning_rate.get_shape().ndims == 0:
            lr = learning_rate
        elif isinstance(learning_rate, float):
            if learning_rate < 0.0:
                raise ValueError("Invalid learning_rate %s." % learning_rate)
            lr = variable_scope.get_variable(
                "learning_rate", [], trainable=False, initializer=init_ops.constant_initializer(learning_rate)
            )
        else:
            raise ValueError(
                "Learning rate should be 0d Tensor or float. Got %s of type %s"
                % (str(learning_rate), str(type(learning_rate)))
            )
    if decay_fn is not None:
        if learning_rate is None:
            raise ValueError("learning_rate must be specified for learning_rate_decay_fn.")
        if global_step is None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        lr = decay_fn(lr, global_step)
    return lr


def _with_noise(pairs: Any, scale: Any) -> Any:
    noisy = []
    for grad, var in pairs:
        if grad is not None:
            dense = grad.dense_shape if isinstance(grad, ops.IndexedSlices) else grad.get_shape()
            grad = grad + random_ops.truncated_normal(dense) * scale
        noisy.append((grad, var))
    return noisy


def _scaled(grad: Any, factor: Any) -> Any:
    if isinstance(grad, ops.IndexedSlices):
        return ops.IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
    return grad * math_ops.cast(factor, grad.dtype)


def _multiplied(pairs: Any, multipliers: Any) -> Any:
    result = []
    for grad, var in pairs:
        factor = next(
            (f for key, f in multipliers.items() if key is var or key == getattr(var, "name", None)), None
        )
        if grad is not None and factor is not None:
            grad = _scaled(grad, constant_op.constant(factor, dtype=dtypes.float32))
        result.append((grad, var))
    return result


def _clipped(pairs: Any, clip_norm: float) -> Any:
    gradients, variables_ = zip(*pairs)
    clipped, _ = clip_ops.clip_by_global_norm(gradients, clip_norm)
    return list(zip(clipped, variables_))


def _summarize_gradients(pairs: Any, summaries: Any) -> None:
    for grad, var in pairs:
        values = grad.values if isinstance(grad, ops.IndexedSlices) else grad
        if values is None:
            continue
        name = var.name.replace(":", "_")
        if "gradients" in summaries:
            summary.histogram("gradients/%s" % name, values)
        if "gradient_norm" in summaries:
            summary.scalar("gradient_norm/%s" % name, clip_ops.global_norm([values]))


def adaptive_clipping_fn(
    std_factor: float = 2.0, decay: float = 0.95, static_max_norm: Any = None, global_step: Any = None,
    report_summary: bool = False, epsilon: float = 1e-8, name: Any = None,
) -> Any:  # fmt: skip
    """A function for `clip_gradients`: the largest norm follows mean and deviation of earlier ones."""

    def gradient_clipping(pairs: Any) -> Any:
        gradients, variables_ = zip(*pairs)
        norm = clip_ops.global_norm(gradients)
        with variable_scope.variable_scope(name, "AdaptiveMaxNorm", [norm]):
            log_norm = math_ops.log(norm + epsilon)

            def average(what: str, value: Any) -> Any:
                variable = variable_scope.get_variable(
                    what,
                    shape=value.get_shape(),
                    dtype=value.dtype,
                    initializer=init_ops.zeros_initializer(),
                    trainable=False,
                )
                if global_step is not None:
                    n = math_ops.cast(global_step, dtypes.float32)
                    rate = math_ops.minimum(decay, n / (n + 1.0))
                else:
                    rate = decay
                return moving_averages.assign_moving_average(variable, value, rate, zero_debias=False)

            mean = average("mean", log_norm)
            sq_mean = average("sq_mean", math_ops.square(log_norm))
            deviation = math_ops.sqrt(math_ops.maximum(epsilon, sq_mean - math_ops.square(mean)))
            max_norm = math_ops.exp(mean + std_factor * deviation)
            if static_max_norm is not None:
                max_norm = math_ops.minimum(max_norm, static_max_norm)
        if report_summary:
            summary.scalar("global_norm/adaptive_max_gradient_norm", max_norm)
        factor = array_ops.where(norm < max_norm, array_ops.ones_like(norm), math_ops.exp(log_norm) / norm)
        factor = array_ops.where(norm < max_norm, factor, max_norm / norm)
        return [(None if g is None else _scaled(g, factor), v) for g, v in zip(gradients, variables_)]

    return gradient_clipping


def _unique_tag(op: Any) -> str:
    """The name of an op, made readable in summaries."""
    return str(op.name).replace(":", "_")


def summarize_activation(op: Any) -> Any:
    """A histogram of the outputs of a layer, and for relu, sigmoid and tanh the fraction of extreme values."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        summary.scalar("%s/zeros" % op.op.name, nn.zero_fraction(op))
    if op.op.type == "Relu6":
        summary.scalar(
            "%s/sixes" % op.op.name, math_ops.reduce_mean(math_ops.cast(math_ops.equal(op, 6), "float32"))
        )
    return summary.histogram("%s/activation" % op.op.name, op)


def summarize_tensor(tensor: Any, tag: Any = None) -> Any:
    """A scalar summary of a scalar, else a histogram."""
    if (
        tensor.get_shape().is_fully_defined()
        and tensor.get_shape().num_elements() == 1
        or tensor.get_shape().ndims == 0
    ):
        return summary.scalar(tag or _unique_tag(tensor.op), tensor)
    return summary.histogram(tag or _unique_tag(tensor.op), tensor)


def summarize_tensors(tensors: Any, summarizer: Any = summarize_tensor) -> list[Any]:
    """A summary of each tensor."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(
    collection: Any, name_filter: Any = None, summarizer: Any = summarize_tensor
) -> list[Any]:
    """A summary of each tensor of a collection whose name matches."""
    return [
        summarizer(t)
        for t in ops.get_collection(collection)
        if name_filter is None or re.match(name_filter, t.op.name)
    ]


def summarize_variables(name_filter: Any = None, summarizer: Any = summarize_tensor) -> list[Any]:
    """A summary of each global variable."""
    return summarize_collection(ops.GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_weights(name_filter: Any = r".*/weights", summarizer: Any = summarize_tensor) -> list[Any]:
    """A summary of each variable "weights"."""
    return summarize_collection(ops.GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_biases(name_filter: Any = r".*/biases", summarizer: Any = summarize_tensor) -> list[Any]:
    """A summary of each variable "biases"."""
    return summarize_collection(ops.GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_activations(name_filter: Any = None, summarizer: Any = summarize_activation) -> list[Any]:
    """A summary of each tensor in the collection ACTIVATIONS."""
    return summarize_collection(ops.GraphKeys.ACTIVATIONS, name_filter, summarizer)
