# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions on arrays, tensors and nested structures of them."""

from __future__ import annotations

import collections
import math
from typing import Any

import numpy as np

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework._test_decorators import py_func_if_in_function
from millrace.python.platform import googletest


class ArrayAssertions(googletest.TestCase):
    """Assertions for values that `evaluate` converts to arrays."""

    def evaluate(self, tensors: Any) -> Any:
        raise NotImplementedError

    def _GetNdArray(self, a: Any) -> Any:  # noqa: N802
        """`a` as an array; tensors are evaluated."""
        if isinstance(a, (ops.Tensor,)) or hasattr(a, "_in_graph_mode") or hasattr(a, "initialized_value"):
            a = self.evaluate(a)
        if not isinstance(a, np.ndarray):
            return np.array(a)
        return a

    @py_func_if_in_function
    def assertNear(self, f1: Any, f2: Any, err: Any, msg: Any = None) -> None:  # noqa: N802
        """|f1 - f2| <= err."""
        self.assertTrue(
            f1 == f2 or math.fabs(f1 - f2) <= err,
            "%f != %f +/- %f%s" % (f1, f2, err, " (%s)" % msg if msg is not None else ""),
        )

    @py_func_if_in_function
    def assertArrayNear(self, farray1: Any, farray2: Any, err: Any, msg: Any = None) -> None:  # noqa: N802
        """Two lists of the same length, whose elements are near."""
        self.assertEqual(len(farray1), len(farray2), msg=msg)
        for f1, f2 in zip(farray1, farray2):
            self.assertNear(float(f1), float(f2), err, msg=msg)

    def _NDArrayNear(self, ndarray1: Any, ndarray2: Any, err: Any) -> bool:  # noqa: N802
        return bool(np.linalg.norm(ndarray1 - ndarray2) < err)

    @py_func_if_in_function
    def assertNDArrayNear(
        self, ndarray1: Any, ndarray2: Any, err: Any, msg: Any = None
    ) -> None:  # noqa: N802
        """The norm of the difference is below `err`."""
        self.assertTrue(self._NDArrayNear(ndarray1, ndarray2, err), msg=msg)

    def _assertArrayLikeAllClose(  # noqa: N802
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None
    ) -> None:
        a, b = self._GetNdArray(a), self._GetNdArray(b)
        # Arrays of different shapes are not close, even if they broadcast.
        if a.size <= 3 or b.size <= 3:
            shapes = "Shape mismatch: expected %s, got %s: %r and %r." % (a.shape, b.shape, a, b)
        else:
            shapes = "Shape mismatch: expected %s, got %s." % (a.shape, b.shape)
        self.assertEqual(a.shape, b.shape, shapes)
        a, b = _plain_floats(a), _plain_floats(b)
        if np.allclose(a, b, rtol=rtol, atol=atol):
            return
        cond = np.logical_or(np.abs(a - b) > atol + rtol * np.abs(b), np.isnan(a) != np.isnan(b))
        if a.ndim:
            where, x, y = np.where(cond), a[np.where(cond)], b[np.where(cond)]
        else:
            where, x, y = (), a, b
        lines = [
            msg or "",
            "",
            "Mismatched value: a is different from b.",
            "not close where = %s" % (where,),
            "not close lhs = %s" % (x,),
            "not close rhs = %s" % (y,),
            "not close dif = %s" % (np.abs(x - y),),
            "not close tol = %s" % (atol + rtol * np.abs(y),),
            "dtype = %s, shape = %s" % (a.dtype, a.shape),
        ]
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg="\n".join(lines), equal_nan=True)

    def _assertAllCloseRecursive(  # noqa: N802
        self, a: Any, b: Any, rtol: float, atol: float, path: list[Any], msg: Any
    ) -> None:
        path_str = "".join("[%s]" % (p,) for p in path)
        msg = msg if msg else ""
        if isinstance(a, ops.IndexedSlices) or _is_sparse(a):
            a, b = self.evaluate(a), self.evaluate(b)
        if hasattr(a, "_asdict"):
            a = a._asdict()
        if hasattr(b, "_asdict"):
            b = b._asdict()
        a_is_dict = isinstance(a, collections.abc.Mapping)
        if a_is_dict != isinstance(b, collections.abc.Mapping):
            raise ValueError("Can't compare dict to non-dict, a%s vs b%s. %s" % (path_str, path_str, msg))
        if a_is_dict:
            self.assertCountEqual(
                a.keys(),
                b.keys(),
                msg="mismatched keys: a%s has keys %s, but b%s has keys %s. %s"
                % (path_str, a.keys(), path_str, b.keys(), msg),
            )
            for k in a:
                self._assertAllCloseRecursive(a[k], b[k], rtol, atol, path + [str(k)], msg)
        elif isinstance(a, (list, tuple)):
            try:
                a_as_ndarray, b_as_ndarray = self._try_array(a), self._try_array(b)
                if a_as_ndarray is None or b_as_ndarray is None:
                    raise ValueError
                self._assertArrayLikeAllClose(
                    a_as_ndarray,
                    b_as_ndarray,
                    rtol,
                    atol,
                    "Mismatched value: a%s is different from b%s. %s" % (path_str, path_str, msg),
                )
            except (ValueError, TypeError):
                if len(a) != len(b):
                    raise ValueError(
                        "Mismatched length: a%s has %d items, but b%s has %d items. %s"
                        % (path_str, len(a), path_str, len(b), msg)
                    )
                for i, (a_ele, b_ele) in enumerate(zip(a, b)):
                    self._assertAllCloseRecursive(a_ele, b_ele, rtol, atol, path + [str(i)], msg)
        else:
            try:
                self._assertArrayLikeAllClose(
                    a,
                    b,
                    rtol,
                    atol,
                    "Mismatched value: a%s is different from b%s. %s" % (path_str, path_str, msg),
                )
            except TypeError as e:
                self.fail(
                    "Error: a%s has %s, but b%s has %s: %s. %s"
                    % (path_str, type(a), path_str, type(b), e, msg)
                )

    def _try_array(self, a: Any) -> Any:
        """A list as an array of numbers, or None where it is not rectangular."""
        if not isinstance(a, (list, tuple)):
            return self._GetNdArray(a)
        try:
            flat = [self._GetNdArray(x) if not isinstance(x, (list, tuple, dict)) else x for x in a]
            if any(isinstance(x, dict) for x in flat):
                return None
            array = np.array(flat)
        except ValueError:
            return None
        return None if array.dtype == object else array

    @py_func_if_in_function
    def assertAllClose(  # noqa: N802
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None
    ) -> None:
        """Two arrays, tensors or structures of them have the same shape and near values.

        Near means |a - b| <= atol + rtol * |b|; the tolerances are per element.
        """
        self._assertAllCloseRecursive(a, b, rtol, atol, [], msg)

    @py_func_if_in_function
    def assertAllCloseAccordingToType(  # noqa: N802
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: Any = None,
    ) -> None:
        """As `assertAllClose`, with wider tolerances for narrower types."""
        a, b = self._GetNdArray(a), self._GetNdArray(b)
        for kinds, r, t in (
            ((np.float32, np.complex64), float_rtol, float_atol),
            ((np.float16,), half_rtol, half_atol),
            ((dtypes.bfloat16.as_numpy_dtype,), bfloat16_rtol, bfloat16_atol),
        ):
            if a.dtype in [np.dtype(k) for k in kinds] or b.dtype in [np.dtype(k) for k in kinds]:
                rtol, atol = max(rtol, r), max(atol, t)
        self.assertAllClose(a, b, rtol=rtol, atol=atol, msg=msg)

    @py_func_if_in_function
    def assertNotAllClose(self, a: Any, b: Any, **kwargs: Any) -> None:  # noqa: N802
        """Some elements are not near."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        raise AssertionError("The two values are close at all elements")

    @py_func_if_in_function
    def assertAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:  # noqa: N802
        """Two arrays or tensors have the same shape and values; NaN equals NaN."""
        if _is_ragged(a) or _is_ragged(b):
            self.assertEqual(_to_list(a), _to_list(b), msg)
            return
        a, b = self._GetNdArray(a), self._GetNdArray(b)
        self.assertEqual(
            a.shape,
            b.shape,
            "Shape mismatch: expected %s, got %s. Contents: %r. %s" % (a.shape, b.shape, b, msg or ""),
        )
        a, b = _bytes_alike(a, b)
        same = a == b
        if a.dtype.kind in "fc" or (a.dtype.kind == "V" and a.dtype != object):
            same = np.logical_or(same, np.logical_and(a != a, b != b))
        if np.all(same):
            return
        where = np.where(np.logical_not(same)) if a.ndim else ()
        x, y = (a[where], b[where]) if a.ndim else (a, b)
        lines = [msg or "", "not equal where = {}".format(where)] if a.ndim else [msg or ""]
        lines += ["not equal lhs = {}".format(x), "not equal rhs = {}".format(y)]
        raise AssertionError("\nArrays are not equal\n" + "\n".join(lines))

    @py_func_if_in_function
    def assertNotAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:  # noqa: N802
        """Some elements differ."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise AssertionError("The two values are equal at all elements. %s" % (msg or ""))

    @py_func_if_in_function
    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:  # noqa: N802
        """Fails unless an array, or each of a list, has a type."""
        target = self._GetNdArray(target)
        for array in target if isinstance(target, list) else [target]:
            self.assertEqual(array.dtype, expected_dtype)

    @py_func_if_in_function
    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        self.assertGreater(np.min(self._GetNdArray(a)), comparison_target)

    @py_func_if_in_function
    def assertAllLess(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        self.assertLess(np.max(self._GetNdArray(a)), comparison_target)

    @py_func_if_in_function
    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        self.assertGreaterEqual(np.min(self._GetNdArray(a)), comparison_target)

    @py_func_if_in_function
    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        self.assertLessEqual(np.max(self._GetNdArray(a)), comparison_target)

    @py_func_if_in_function
    def assertAllInRange(  # noqa: N802
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """All elements are within bounds, which belong to the range unless they are open."""
        target = self._GetNdArray(target)
        if not (np.issubdtype(target.dtype, np.floating) or np.issubdtype(target.dtype, np.integer)):
            raise AssertionError(
                "The value of %s does not have an ordered numeric type, instead it has type: %s"
                % (target, target.dtype)
            )
        nan_subscripts = np.where(np.isnan(target))
        if np.size(nan_subscripts):
            raise AssertionError(
                "%d of the %d element(s) are NaN. Subscripts(s) and value(s) of the NaN element(s):\n"
                % (len(nan_subscripts[0]), np.size(target))
                + "\n".join(self._format_subscripts(nan_subscripts, target))
            )
        bad = target <= lower_bound if open_lower_bound else target < lower_bound
        bad = np.logical_or(bad, target >= upper_bound if open_upper_bound else target > upper_bound)
        subscripts = np.where(bad)
        if np.any(bad):
            opening, closing = "(" if open_lower_bound else "[", ")" if open_upper_bound else "]"
            raise AssertionError(
                "%d of the %d element(s) are outside the range %s%s, %s%s. "
                % (np.sum(bad), np.size(target), opening, lower_bound, upper_bound, closing)
                + "Subscript(s) and value(s) of the offending elements:\n"
                + "\n".join(self._format_subscripts(subscripts, target))
            )

    def _format_subscripts(self, subscripts: Any, value: Any, limit: int = 10, indent: int = 2) -> list[str]:
        """A line for each of the first elements at `subscripts`, as np.where returns them."""
        prefix = " " * indent
        if np.ndim(value) == 0:
            return [prefix + "[0] : " + str(value)]
        places = np.transpose(subscripts)
        lines = ["%s%s : %s" % (prefix, place, value[tuple(place)]) for place in places[:limit]]
        return lines + [prefix + "..."] if len(places) > limit else lines

    @py_func_if_in_function
    def assertAllInSet(self, target: Any, expected_set: Any) -> None:  # noqa: N802
        """All elements are of a set."""
        diff = np.setdiff1d(self._GetNdArray(target).flatten(), list(expected_set))
        if np.size(diff):
            raise AssertionError(
                "%d unique element(s) are not in the set %s: %s" % (np.size(diff), expected_set, diff)
            )

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any, msg: Any = None) -> None:  # noqa: N802
        """An array has the static shape of a tensor."""
        if not isinstance(np_array, (np.ndarray, np.generic)):
            raise TypeError("np_array must be a Numpy ndarray or Numpy scalar")
        if not isinstance(tf_tensor, ops.Tensor):
            raise TypeError("tf_tensor must be a Tensor")
        self.assertAllEqual(np_array.shape, tf_tensor.get_shape().as_list(), msg=msg)

    def assertDtypeEqual(self, target: Any, expected_dtype: Any) -> None:  # noqa: N802
        target = self._GetNdArray(target)
        if not isinstance(target, list):
            self.assertEqual(target.dtype, dtypes.as_dtype(expected_dtype).as_numpy_dtype)

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: Any = None) -> None:  # noqa: N802
        """Two devices are the same, however they are written."""
        from millrace.python.framework import device as pydev

        self.assertEqual(
            pydev.canonical_name(device1),
            pydev.canonical_name(device2),
            "Devices %s and %s are not equal. %s" % (device1, device2, msg or ""),
        )


def _plain_floats(a: Any) -> Any:
    """bfloat16 as float32, integers and the rest as they are."""
    return a.astype(np.float32) if a.dtype == dtypes.bfloat16.as_numpy_dtype else a


def _is_sparse(a: Any) -> bool:
    from millrace.python.framework import sparse_tensor

    return isinstance(a, sparse_tensor.SparseTensor)


def _is_ragged(a: Any) -> bool:
    return hasattr(a, "to_list") and hasattr(a, "row_splits")


def _to_list(a: Any) -> Any:
    return a.to_list() if hasattr(a, "to_list") else a.tolist() if hasattr(a, "tolist") else a


def _bytes_alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Arrays of str compared with arrays of bytes, as both mean strings."""

    def as_bytes(x: Any) -> Any:
        encode = np.vectorize(lambda s: s.encode() if isinstance(s, str) else s, otypes=[object])
        return encode(x) if x.dtype.kind in "SUO" and x.size else x

    if a.dtype.kind in "SUO" and b.dtype.kind in "SUO":
        return as_bytes(a), as_bytes(b)
    return a, b
