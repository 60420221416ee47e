# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Batch normalization (Ioffe and Szegedy, 2015)."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape
from millrace.python.layers import _arguments, base, utils
from millrace.python.ops import array_ops, init_ops, math_ops, nn_impl, state_ops


class BatchNormalization(base.Layer):
    """Normalises inputs by the moments of the batch (training) or by moving averages of them.

    Variables: "gamma", "beta", "moving_mean", "moving_variance". The updates of the averages are in the collection
    `tf.GraphKeys.UPDATE_OPS`. Raises ValueError for invalid or repeated axes and for options that exclude
    each other.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = init_ops.zeros_initializer(),
        gamma_initializer: Any = init_ops.ones_initializer(),
        moving_mean_initializer: Any = init_ops.zeros_initializer(),
        moving_variance_initializer: Any = init_ops.ones_initializer(),
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        fused: Optional[bool] = None,
        trainable: bool = True,
        virtual_batch_size: Optional[int] = None,
        adjustment: Optional[Callable[[Any], Tuple[Any, Any]]] = None,
        name: Any = None,
        **kwargs: Any,
    ):
        super().__init__(name=name, trainable=trainable, **kwargs)
        self.axis: Any = list(axis) if isinstance(axis, (list, tuple)) else axis
        if not isinstance(axis, (list, tuple, int)):
            raise TypeError("axis must be int or list, type given: %s" % type(axis))
        if not isinstance(axis, int) and not axis:
            raise ValueError("axis must name at least one axis")
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = _arguments.get_initializer(beta_initializer)
        self.gamma_initializer = _arguments.get_initializer(gamma_initializer)
        self.moving_mean_initializer = _arguments.get_initializer(moving_mean_initializer)
        self.moving_variance_initializer = _arguments.get_initializer(moving_variance_initializer)
        self.beta_regularizer = beta_regularizer
        self.gamma_regularizer = gamma_regularizer
        self.beta_constraint = beta_constraint
        self.gamma_constraint = gamma_constraint
        self.renorm = renorm
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
        if fused:
            if renorm:
                raise ValueError("Passing both fused=True and renorm=True is unsupported")
            if virtual_batch_size is not None:
                raise ValueError("Passing both fused=True and `virtual_batch_size` is unsupported")
            if adjustment is not None:
                raise ValueError("Passing `adjustment` is not compatible with `fused=True`.")
        self.fused = fused
        if renorm:
            renorm_clipping = renorm_clipping or {}
            if set(renorm_clipping) - {"rmax", "rmin", "dmax"}:
                raise ValueError(
                    "renorm_clipping %s contains keys not in %s" % (renorm_clipping, ["rmax", "rmin", "dmax"])
                )
            self.renorm_clipping = renorm_clipping
            self.renorm_momentum = renorm_momentum
        self.supports_masking = True

    def _normalize_axes(self, ndims: int) -> None:
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        axes = [a + ndims if a < 0 else a for a in axes]
        for axis in axes:
            if axis < 0 or axis >= ndims:
                raise ValueError("Invalid axis: %d" % axis)
        if len(axes) != len(set(axes)):
            raise ValueError("Duplicate axis: %s" % axes)
        self.axis = axes
        if self.virtual_batch_size is not None:
            if self.virtual_batch_size <= 0:
                raise ValueError(
                    "virtual_batch_size must be a positive integer that divides the true batch size of the input Tensor"
                )
            if 0 in self.axis:
                raise ValueError(
                    "When using virtual_batch_size, the batch dimension must be 0 and thus axis cannot include 0"
                )
            if self.adjustment is not None:
                raise ValueError("When using virtual_batch_size, adjustment cannot be specified")
        can_fuse = ndims == 4 and axes in ([1], [3]) and not self.renorm
        can_fuse = can_fuse and self.virtual_batch_size is None and self.adjustment is None
        if self.fused is None:
            self.fused = can_fuse
        elif self.fused and not (ndims == 4 and axes in ([1], [3])):
            raise ValueError("Unsupported axis, fused batch norm only supports axis == [1] or axis == [3]")
        self._data_format = "NCHW" if axes == [1] else "NHWC"

    def build(self, input_shape: Any) -> None:
        input_shape = tensor_shape.TensorShape(input_shape)
        if not input_shape.ndims:
            raise ValueError("Input has undefined rank:", input_shape)
        self._normalize_axes(input_shape.ndims)
        dims = input_shape.as_list()
        for axis in self.axis:
            if dims[axis] is None:
                raise ValueError("Input has undefined `axis` dimension. Input shape: ", input_shape)
        axis_to_dim = {axis: dims[axis] for axis in self.axis}
        self.input_spec = base.InputSpec(ndim=len(dims), axes=axis_to_dim)
        half = self.dtype in ("float16", "bfloat16")
        self._param_dtype = dtypes.float32 if half else dtypes.as_dtype(self.dtype or dtypes.float32)
        param_shape: Tuple[Any, ...]
        if len(axis_to_dim) == 1:
            param_shape = (dims[self.axis[0]],)
        else:
            param_shape = tuple(axis_to_dim.get(i, 1) for i in range(len(dims)))
            if self.virtual_batch_size is not None:
                param_shape = (param_shape[0], 1) + param_shape[1:]
        self._param_shape = param_shape
        self.gamma = self._parameter(
            "gamma", self.scale, self.gamma_initializer, self.gamma_regularizer, self.gamma_constraint
        )
        if not self.scale and self.fused:
            self._gamma_const = constant_op.constant(1.0, dtype=self._param_dtype, shape=param_shape)
        self.beta = self._parameter(
            "beta", self.center, self.beta_initializer, self.beta_regularizer, self.beta_constraint
        )
        if not self.center and self.fused:
            self._beta_const = constant_op.constant(0.0, dtype=self._param_dtype, shape=param_shape)
        partitioner = self._scope.partitioner if self._scope else None
        try:
            if self._scope:
                self._scope.set_partitioner(None)
            self.moving_mean = self._average("moving_mean", param_shape, self.moving_mean_initializer)
            self.moving_variance = self._average(
                "moving_variance", param_shape, self.moving_variance_initializer
            )
            if self.renorm:
                zeros = init_ops.zeros_initializer()
                self.renorm_mean = self._average("renorm_mean", param_shape, zeros)
                self.renorm_mean_weight = self._average("renorm_mean_weight", (), zeros)
                self.renorm_stddev = self._average("renorm_stddev", param_shape, zeros)
                self.renorm_stddev_weight = self._average("renorm_stddev_weight", (), zeros)
        finally:
            if partitioner:
                self._scope.set_partitioner(partitioner)
        self.built = True

    def _parameter(self, name: str, wanted: bool, initializer: Any, regularizer: Any, constraint: Any) -> Any:
        if not wanted:
            return None
        return self.add_weight(
            name=name,
            shape=self._param_shape,
            dtype=self._param_dtype,
            initializer=initializer,
            regularizer=regularizer,
            constraint=constraint,
            trainable=True,
        )

    def _average(self, name: str, shape: Any, initializer: Any) -> Any:
        from millrace.python.ops import variable_scope as vs

        return self.add_weight(
            name=name,
            shape=shape,
            dtype=self._param_dtype,
            initializer=initializer,
            synchronization=vs.VariableSynchronization.ON_READ,
            trainable=False,
            aggregation=vs.VariableAggregation.MEAN,
        )

    def _assign_moving_average(self, variable: Any, value: Any, momentum: Any) -> Any:
        with ops.name_scope("AssignMovingAvg", values=[variable, value, momentum]) as scope:
            with ops.colocate_with(variable):
                decay = ops.convert_to_tensor(1.0 - momentum, name="decay")
                if decay.dtype != variable.dtype.base_dtype:
                    decay = math_ops.cast(decay, variable.dtype.base_dtype)
                delta = (variable - math_ops.cast(value, variable.dtype.base_dtype)) * decay
                return state_ops.assign_sub(variable, delta, name=scope)

    def _fused_batch_norm(self, inputs: Any, training: Any) -> Any:
        beta = self.beta if self.center else self._beta_const
        gamma = self.gamma if self.scale else self._gamma_const

        def for_training() -> Any:
            return nn_impl.fused_batch_norm(
                inputs, gamma, beta, epsilon=self.epsilon, data_format=self._data_format
            )

        def for_inference() -> Any:
            return nn_impl.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                epsilon=self.epsilon,
                is_training=False,
                data_format=self._data_format,
            )

        output, mean, variance = utils.smart_cond(training, for_training, for_inference)
        known = utils.constant_value(training)
        if known is None:
            momentum = utils.smart_cond(training, lambda: self.momentum, lambda: 1.0)
        else:
            momentum = ops.convert_to_tensor(self.momentum)
        if known or known is None:
            self.add_update(
                lambda: self._assign_moving_average(self.moving_mean, mean, momentum), inputs=inputs
            )
            self.add_update(
                lambda: self._assign_moving_average(self.moving_variance, variance, momentum), inputs=inputs
            )
        return output

    def _renorm_variable(self, variable: Any, weight: Any, value: Any, training: Any) -> Any:
        def updated() -> Any:
            new_variable = self._assign_moving_average(variable, value, self.renorm_momentum)
            with ops.control_dependencies([new_variable]):
                new_weight = self._assign_moving_average(weight, 1.0, self.renorm_momentum)
            return new_variable / new_weight

        return utils.smart_cond(training, updated, lambda: array_ops.identity(variable))

    def _renorm_correction_and_moments(
        self, mean: Any, variance: Any, training: Any
    ) -> Tuple[Any, Any, Any, Any]:
        """Returns (r, d, mean, variance) of batch renormalization (Ioffe, 2017)."""
        stddev = math_ops.sqrt(variance + self.epsilon)
        renorm_mean, renorm_stddev = self.renorm_mean, self.renorm_stddev
        mixed_mean = renorm_mean + (1.0 - self.renorm_mean_weight) * mean
        mixed_stddev = renorm_stddev + (1.0 - self.renorm_stddev_weight) * stddev
        r, d = stddev / mixed_stddev, (mean - mixed_mean) / mixed_stddev
        with ops.control_dependencies([r, d]):
            mean, stddev = array_ops.identity(mean), array_ops.identity(stddev)
        rmin, rmax, dmax = (self.renorm_clipping.get(key) for key in ("rmin", "rmax", "dmax"))
        if rmin is not None:
            r = math_ops.maximum(r, rmin)
        if rmax is not None:
            r = math_ops.minimum(r, rmax)
        if dmax is not None:
            d = math_ops.minimum(math_ops.maximum(d, -dmax), dmax)
        r = utils.smart_cond(training, lambda: r, lambda: array_ops.ones_like(r))
        d = utils.smart_cond(training, lambda: d, lambda: array_ops.zeros_like(d))
        with ops.name_scope("renorm_update"):
            new_mean = self._renorm_variable(self.renorm_mean, self.renorm_mean_weight, mean, training)
            new_stddev = self._renorm_variable(
                self.renorm_stddev, self.renorm_stddev_weight, stddev, training
            )
            new_variance = math_ops.square(new_stddev) - self.epsilon
        return array_ops.stop_gradient(r), array_ops.stop_gradient(d), new_mean, new_variance

    def call(self, inputs: Any, training: Any = False) -> Any:  # type: ignore[override]
        if self.virtual_batch_size is not None:
            return self._virtual_batches(inputs, training)
        if self.fused:
            return self._fused_batch_norm(inputs, training)
        outputs = self._normalize(inputs, training, list(self.axis))
        outputs.set_shape(inputs.shape)
        return outputs

    def _virtual_batches(self, inputs: Any, training: Any) -> Any:
        original_shape = array_ops.concat([[-1], array_ops.shape(inputs)[1:]], axis=0)
        expanded = array_ops.concat([[self.virtual_batch_size, -1], array_ops.shape(inputs)[1:]], axis=0)
        static = [self.virtual_batch_size, None] + inputs.shape.as_list()[1:]
        reshaped = array_ops.reshape(inputs, expanded)
        reshaped.set_shape(static)
        outputs = self._normalize(reshaped, training, [a + 1 for a in self.axis])
        outputs = array_ops.reshape(outputs, original_shape)
        outputs.set_shape(inputs.shape)
        return outputs

    def _normalize(self, inputs: Any, training: Any, axes: List[int]) -> Any:
        ndims = inputs.shape.ndims
        dims = inputs.shape.as_list()
        reduction_axes = [i for i in range(ndims) if i not in axes]
        if self.virtual_batch_size is not None:
            reduction_axes.remove(1)
        broadcast_shape = [1] * ndims
        broadcast_shape[axes[0]] = dims[axes[0]]

        def broadcast(v: Any) -> Any:
            if v is not None and v.get_shape().ndims != ndims and reduction_axes != list(range(ndims - 1)):
                return array_ops.reshape(v, broadcast_shape)
            return v

        scale, offset = broadcast(self.gamma), broadcast(self.beta)

        def compose(then_scale: Any, then_offset: Any, scale: Any, offset: Any) -> Tuple[Any, Any]:
            if scale is not None:
                then_scale, then_offset = then_scale * scale, then_offset * scale
            if offset is not None:
                then_offset = then_offset + offset
            return then_scale, then_offset

        known = utils.constant_value(training)
        if known is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            if self.adjustment:
                adj_scale, adj_bias = self.adjustment(array_ops.shape(inputs))
                adj_scale = utils.smart_cond(
                    training, lambda: adj_scale, lambda: array_ops.ones_like(adj_scale)
                )
                adj_bias = utils.smart_cond(
                    training, lambda: adj_bias, lambda: array_ops.zeros_like(adj_bias)
                )
                scale, offset = compose(adj_scale, adj_bias, scale, offset)
            keep_dims = self.virtual_batch_size is not None or len(axes) > 1
            batch_mean, batch_variance = nn_impl.moments(
                math_ops.cast(inputs, self._param_dtype), reduction_axes, keep_dims=keep_dims
            )
            mean = utils.smart_cond(
                training, lambda: batch_mean, lambda: ops.convert_to_tensor(self.moving_mean)
            )
            variance = utils.smart_cond(
                training, lambda: batch_variance, lambda: ops.convert_to_tensor(self.moving_variance)
            )
            new_mean, new_variance = mean, variance
            if self.virtual_batch_size is not None:
                new_mean = math_ops.reduce_mean(mean, axis=1, keepdims=True)
                new_variance = math_ops.reduce_mean(variance, axis=1, keepdims=True)
                if len(axes) == 1:
                    new_mean, new_variance = (
                        array_ops.reshape(v, self._param_shape) for v in (new_mean, new_variance)
                    )
            if self.renorm:
                r, d, new_mean, new_variance = self._renorm_correction_and_moments(
                    new_mean, new_variance, training
                )
                r = broadcast(array_ops.stop_gradient(r, name="renorm_r"))
                d = broadcast(array_ops.stop_gradient(d, name="renorm_d"))
                scale, offset = compose(r, d, scale, offset)
            self._update_averages(new_mean, new_variance, training, inputs)
        mean, variance = math_ops.cast(mean, inputs.dtype), math_ops.cast(variance, inputs.dtype)
        if offset is not None:
            offset = math_ops.cast(offset, inputs.dtype)
        return nn_impl.batch_normalization(
            inputs, broadcast(mean), broadcast(variance), offset, scale, self.epsilon
        )

    def _update_averages(self, new_mean: Any, new_variance: Any, training: Any, inputs: Any) -> None:
        for average, value in ((self.moving_mean, new_mean), (self.moving_variance, new_variance)):

            def update(average: Any = average, value: Any = value) -> Any:
                return utils.smart_cond(
                    training,
                    lambda: self._assign_moving_average(average, value, self.momentum),
                    lambda: ops.convert_to_tensor(average),
                )

            self.add_update(update, inputs=inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def batch_normalization(
    inputs: Any,
    axis: Any = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = init_ops.zeros_initializer(),
    gamma_initializer: Any = init_ops.ones_initializer(),
    moving_mean_initializer: Any = init_ops.zeros_initializer(),
    moving_variance_initializer: Any = init_ops.ones_initializer(),
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: Any = None,
    reuse: Optional[bool] = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: Optional[bool] = None,
    virtual_batch_size: Optional[int] = None,
    adjustment: Any = None,
) -> Any:
    """Applies a `BatchNormalization` layer; run `tf.GraphKeys.UPDATE_OPS` with the steps of training."""
    layer = BatchNormalization(
        axis=axis,
        momentum=momentum,
        epsilon=epsilon,
        center=center,
        scale=scale,
        beta_initializer=beta_initializer,
        gamma_initializer=gamma_initializer,
        moving_mean_initializer=moving_mean_initializer,
        moving_variance_initializer=moving_variance_initializer,
        beta_regularizer=beta_regularizer,
        gamma_regularizer=gamma_regularizer,
        beta_constraint=beta_constraint,
        gamma_constraint=gamma_constraint,
        renorm=renorm,
        renorm_clipping=renorm_clipping,
        renorm_momentum=renorm_momentum,
        fused=fused,
        trainable=trainable,
        virtual_batch_size=virtual_batch_size,
        adjustment=adjustment,
        name=name,
        _reuse=reuse,
        _scope=name,
    )
    return layer.apply(inputs, training=training)


BatchNorm = BatchNormalization
batch_norm = batch_normalization
