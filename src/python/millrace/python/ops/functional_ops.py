# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Higher-order functions: foldl, foldr, scan; calls of functions in the graph's library."""

from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import control_flow_ops
from millrace.python.ops import gen_functional_ops
from millrace.python.ops import tensor_array_ops
from millrace.python.ops._functional_scopes import caching_variables
from millrace.python.ops.gen_functional_ops import fake_param, stateful_partitioned_call  # noqa: F401
from millrace.python.ops.gen_functional_ops import remote_call, stateless_if, stateless_while  # noqa: F401
from millrace.python.ops.gen_functional_ops import symbolic_gradient  # noqa: F401
from millrace.python.ops.map_fn import map_fn  # noqa: F401
from millrace.python.util import nest


def _tensors_of(elems: list[Any]) -> list[Any]:
    if not elems:
        raise ValueError("elems must have one or more tensors, got none.")
    return [ops.convert_to_tensor(elem, name="elem") for elem in elems]


def _first_size(elem: Any) -> Any:
    """The size of the first axis: a number where it is known, else a tensor."""
    ndims = elem.shape.ndims
    return (elem.shape.dims[0].value if ndims else None) or array_ops.shape(elem)[0]


def _unstacked(elems_flat: Any, n: Any) -> Any:
    return [
        tensor_array_ops.TensorArray(dtype=elem.dtype, size=n, dynamic_size=False, infer_shape=True).unstack(
            elem
        )
        for elem in elems_flat
    ]


def foldl(
    fn: Any,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Returns fn(... fn(fn(initializer, elems[0]), elems[1]) ...) over the first axis of `elems`.

    Args:
      fn: a function (accumulated value, element).
      elems: a tensor or a structure of tensors with equal first sizes.
      initializer: the first accumulated value; by default the first element.
      parallel_iterations, back_prop, swap_memory: see `while_loop`.
      name: name scope.

    Raises:
      TypeError: `fn` is not callable.
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with ops.name_scope(name, "foldl", nest.flatten(elems)), caching_variables():
        elems_flat = _tensors_of(nest.flatten(elems))
        n = _first_size(elems_flat[0])
        elems_ta = _unstacked(elems_flat, n)

        def read(i: Any) -> Any:
            return nest.pack_sequence_as(elems, [ta.read(i) for ta in elems_ta])

        if initializer is None:
            a = read(0)
            i = constant_op.constant(1)
        else:
            a = initializer
            i = constant_op.constant(0)

        def compute(i: Any, a: Any) -> Any:
            return [i + 1, fn(a, read(i))]

        _, r_a = control_flow_ops.while_loop(
            lambda i, a: i < n,
            compute,
            [i, a],
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=n,
        )
        return r_a


foldl_v2 = foldl


def foldr(
    fn: Any,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Returns what `foldl` returns, from the last element to the first."""
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with ops.name_scope(name, "foldr", nest.flatten(elems)), caching_variables():
        elems_flat = _tensors_of(nest.flatten(elems))
        n = _first_size(elems_flat[0])
        elems_ta = _unstacked(elems_flat, n)

        def read(i: Any) -> Any:
            return nest.pack_sequence_as(elems, [ta.read(i) for ta in elems_ta])

        if initializer is None:
            i = n - 1
            a = read(i)
        else:
            i = n
            a = initializer

        def compute(i: Any, a: Any) -> Any:
            i -= 1
            return [i, fn(a, read(i))]

        _, r_a = control_flow_ops.while_loop(
            lambda i, a: i > 0,
            compute,
            [i, a],
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=n,
        )
        return r_a


foldr_v2 = foldr


def scan(
    fn: Any,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Returns all accumulated values of a fold over the first axis of `elems`, packed.

    Args:
      fn: a function (accumulated value, element) that returns a structure like the accumulated value.
      elems: a tensor or a structure of tensors with equal first sizes.
      initializer: the first accumulated value; by default the first element, which is then the first result.
      parallel_iterations, back_prop, swap_memory: see `while_loop`.
      infer_shape, reverse: whether all values have one shape; whether to begin with the last element.
      name: name scope.

    Raises:
      TypeError: `fn` is not callable, or structures differ. ValueError: an element has no first axis.
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")

    def input_pack(x: Any) -> Any:
        return nest.pack_sequence_as(elems, x) if nest.is_sequence(elems) else x[0]

    def output_pack(x: Any) -> Any:
        if initializer is None:
            return input_pack(x)
        return nest.pack_sequence_as(initializer, x) if nest.is_sequence(initializer) else x[0]

    elems_flat = nest.flatten(elems)
    with ops.name_scope(name, "scan", elems_flat), caching_variables():
        elems_flat = _tensors_of(elems_flat)
        if elems_flat[0].shape.ndims == 0:
            raise ValueError("elems must be a 1+ dimensional Tensor, not a scalar")
        n = _first_size(elems_flat[0])
        elems_ta = _unstacked(elems_flat, n)
        if initializer is None:
            a_flat = [elem.read(n - 1 if reverse else 0) for elem in elems_ta]
            i = 1
        else:
            a_flat = [ops.convert_to_tensor(init) for init in nest.flatten(initializer)]
            i = 0
        accs_ta = [
            tensor_array_ops.TensorArray(
                dtype=init.dtype,
                size=n,
                element_shape=init.shape if infer_shape else None,
                dynamic_size=False,
                infer_shape=infer_shape,
            )
            for init in a_flat
        ]
        if initializer is None:
            accs_ta = [acc_ta.write(n - 1 if reverse else 0, a) for acc_ta, a in zip(accs_ta, a_flat)]

        def compute(i: Any, a_flat: Any, tas: Any) -> Any:
            packed_elems = input_pack([elem_ta.read(i) for elem_ta in elems_ta])
            packed_a = output_pack(a_flat)
            a_out = fn(packed_a, packed_elems)
            nest.assert_same_structure(elems if initializer is None else initializer, a_out)
            flat_a_out = nest.flatten(a_out)
            tas = [ta.write(i, value) for ta, value in zip(tas, flat_a_out)]
            return (i - 1 if reverse else i + 1, flat_a_out, tas)

        if reverse:
            initial_i: Any = n - 1 - i

            def condition(i: Any, unused_a: Any, unused_ta: Any) -> Any:
                return i >= 0

        else:
            initial_i = i

            def condition(i: Any, unused_a: Any, unused_ta: Any) -> Any:
                return i < n

        _, _, r_a = control_flow_ops.while_loop(
            condition,
            compute,
            (initial_i, a_flat, accs_ta),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=n,
        )
        results_flat = [r.stack() for r in r_a]
        first: Any = tensor_shape.Dimension(None)
        for elem in elems_flat:
            if elem.shape.ndims is not None:
                first = first.merge_with(elem.get_shape().dims[0])
        for r in results_flat:
            r.set_shape(tensor_shape.TensorShape(first).concatenate(r.get_shape()[1:]))
        return output_pack(results_flat)


scan_v2 = scan


def If(cond: Any, inputs: Any, then_branch: Any, else_branch: Any, name: str | None = None) -> Any:
    """Calls one of two functions of the graph's library by `cond`; returns the list of results.

    Args:
      cond: a scalar; numbers other than zero and strings that are not empty are true.
      inputs: tensors that both functions take.
      then_branch, else_branch: functions of one signature (results of `Defun`).
      name: name of the op.
    """
    Tout = [dtypes.DType(arg.type) for arg in then_branch.definition.signature.output_arg]
    if getattr(then_branch, "stateful_ops", None) or getattr(else_branch, "stateful_ops", None):
        return gen_functional_ops._if(
            cond, inputs, Tout=Tout, then_branch=then_branch, else_branch=else_branch, name=name
        )
    return gen_functional_ops.stateless_if(
        cond, inputs, Tout=Tout, then_branch=then_branch, else_branch=else_branch, name=name
    )


def _captured(function: Any) -> list[Any]:
    return list(getattr(function, "captured_inputs", None) or [])


def _LoopBodyCaptureWrapper(func: Any) -> Any:
    """A function that takes the captures of `func` as further arguments, and returns them as well."""
    from millrace.python.framework import function

    @function.Defun(*func.declared_input_types, func_name="%s_Wrapper" % func.name)
    def Wrapper(*args: Any) -> Any:
        result = func(*args)
        extra_args = tuple(function.get_extra_args())
        if isinstance(result, ops.Operation):
            return extra_args
        return (result if isinstance(result, tuple) else (result,)) + extra_args

    return Wrapper


def _set_host_memory(ret: Any, hostmem: Any) -> None:
    from millrace.core.framework import attr_value_pb2

    input_attr = attr_value_pb2.AttrValue()
    input_attr.list.i.extend(hostmem)
    op = ret.op if isinstance(ret, ops.Tensor) else ret[0].op
    op._set_attr("_input_hostmem", input_attr)
    op._set_attr("_output_hostmem", input_attr)


def While(input_: Any, cond: Any, body: Any, name: str | None = None, hostmem: Any = None) -> Any:
    """Calls the function `body` of the graph's library while the function `cond` returns true.

    Args:
      input_: the first arguments.
      cond, body: functions (results of `Defun`) of these arguments; `body` returns the next ones.
      name: name of the op.
      hostmem: positions of arguments that must be in host memory.

    Returns:
      the list of the last values.

    Raises:
      ValueError: `cond` captures tensors, or the functions have different arguments.
    """
    from millrace.python.framework import function

    if _captured(cond):
        raise ValueError("While op 'cond' argument must be a function without implicitly captured inputs.")
    cond_types: Any = getattr(cond, "declared_input_types", None)
    types: Any = getattr(body, "declared_input_types", None)
    if cond_types is not None and types is not None and list(cond_types) != list(types):
        raise ValueError("While op 'cond' and 'body' signatures do not match. %r vs %r" % (cond_types, types))
    input_ = list(input_)
    captured = _captured(body)
    if captured:
        count = len(types)

        @function.Defun(*(list(types) + [t.dtype for t in captured]), func_name="%s_Wrapper" % cond.name)
        def CondWrapper(*args: Any) -> Any:
            return cond(*args[:count])

        ret = gen_functional_ops._while(
            input_ + captured, CondWrapper, _LoopBodyCaptureWrapper(body), name=name
        )
        ret = ret[: -len(captured)]
    else:
        stateful = getattr(cond, "stateful_ops", None) or getattr(body, "stateful_ops", None)
        fn = gen_functional_ops._while if stateful else gen_functional_ops.stateless_while
        ret = fn(input_, cond, body, name=name)
    if hostmem:
        _set_host_memory(ret, hostmem)
    return ret


def _ForUsingWhile(
    start: Any, limit: Any, delta: Any, inputs: Any, forbody: Any, name: Any, hostmem: Any
) -> Any:
    """`For` made of a While, with the number of iterations as its first variable."""
    from millrace.python.framework import function
    from millrace.python.ops import math_ops

    d = math_ops.abs(delta)
    n = math_ops.cast(
        math_ops.cast(math_ops.abs(limit - start) + d - 1, dtypes.float32) / math_ops.cast(d, dtypes.float32),
        dtypes.int32,
    )
    body_types = [dtypes.int32] * 4 + list(forbody.declared_input_types)[1:]

    @function.Defun(*body_types, func_name="%s_Cond" % forbody.name)
    def WhileCond(i: Any, n: Any, *args: Any) -> Any:
        del args
        return i < n

    @function.Defun(*body_types, func_name="%s_Body" % forbody.name)
    def WhileBody(i: Any, n: Any, start: Any, delta: Any, *args: Any) -> Any:
        result = forbody(start + i * delta, *args)
        if isinstance(result, ops.Operation):
            result = ()
        elif isinstance(result, ops.Tensor):
            result = (result,)
        return (i + 1, n, start, delta) + tuple(result)

    memory = [0, 1, 2, 3] + [4 + i for i in hostmem] if hostmem is not None else [0, 1, 2, 3]
    results = While(
        input_=[0, n, start, delta] + list(inputs), cond=WhileCond, body=WhileBody, name=name, hostmem=memory
    )
    return list(results[4 : len(results)])


def For(
    start: Any,
    limit: Any,
    delta: Any,
    inputs: Any,
    body: Any,
    name: str | None = None,
    hostmem: Any = None,
    rewrite_with_while: Any = None,
) -> Any:
    """Calls the function `body(i, *values)` of the graph's library for i from `start` to `limit` by steps of `delta`.

    Args:
      start, limit, delta: int32 scalars.
      inputs: the first values.
      body: a function (a result of `Defun`) that returns the next ones.
      name: name of the op.
      hostmem: positions of arguments that must be in host memory.
      rewrite_with_while: whether a While replaces the op.

    Returns:
      the list of the last values.
    """
    if rewrite_with_while:
        return _ForUsingWhile(start, limit, delta, inputs, body, name, hostmem)
    captured = _captured(body)
    if captured:
        ret = gen_functional_ops._for(
            start, limit, delta, list(inputs) + captured, _LoopBodyCaptureWrapper(body), name=name
        )
        ret = ret[: -len(captured)]
    else:
        ret = gen_functional_ops._for(start, limit, delta, inputs, body, name=name)
    if hostmem and ret:
        _set_host_memory(ret, hostmem)
    return ret


def Gradient(inputs: Any, f: Any, name: str | None = None) -> Any:  # noqa: N802
    """The gradients of the arguments of the function `f` (a result of `Defun`).

    Args:
      inputs: the arguments, followed by the gradients of the results.
      f: the function.
      name: name of the op.
    """
    types = [arg.type for arg in f.definition.signature.input_arg]
    return symbolic_gradient(input=inputs, Tout=types, f=f, name=name)


def partitioned_call(
    args: Any,
    f: Any,
    tout: Any = None,
    executing_eagerly: Any = None,
    config: Any = None,
    executor_type: str | None = None,
) -> Any:
    """Calls the function `f` of the graph's library; returns its results (an Operation if there are none).

    Args:
      args: the arguments.
      f: a function (a result of `Defun`).
      tout: types of the results, by default those of the function.
      executing_eagerly: ignored.
      config: a serialised ConfigProto for the call.
      executor_type: the executor to use.
    """
    del executing_eagerly
    if tout is None:
        tout = tuple(dtypes.DType(x.type) for x in f.definition.signature.output_arg)
    args = [ops.convert_to_tensor(x) for x in args]
    if config is not None and not isinstance(config, (str, bytes)):
        config = config.SerializeToString()
    stateful = getattr(f, "stateful_ops", None)
    fn = gen_functional_ops.stateful_partitioned_call if stateful else gen_functional_ops.partitioned_call
    return fn(args=args, Tout=tout, f=f, config_proto=config or "", executor_type=executor_type or "")
