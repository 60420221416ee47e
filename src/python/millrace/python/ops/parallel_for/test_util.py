# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of tests of pfor."""
from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.ops import variables
from millrace.python.ops.parallel_for import control_flow_ops as pfor_control_flow_ops
from millrace.python.platform import test
from millrace.python.util import nest


class PForTestCase(test.TestCase):
    """Compares pfor with a loop, step by step."""

    def _run_targets(self, targets1: Any, targets2: Any = None, run_init: bool = True) -> Any:
        targets1 = nest.flatten(targets1)
        targets2 = [] if targets2 is None else nest.flatten(targets2)
        assert len(targets1) == len(targets2) or not targets2
        if run_init:
            self.evaluate(variables.global_variables_initializer())
        return self.evaluate(targets1 + targets2)

    def run_and_assert_equal(
        self, targets1: Any, targets2: Any, rtol: float = 1e-4, atol: float = 1e-5
    ) -> None:
        """Asserts that two lists of tensors have the same values."""
        outputs = [np.array(x) for x in self._run_targets(targets1, targets2)]
        half = len(outputs) // 2
        for one, other in zip(outputs[:half], outputs[half:]):
            self.assertAllClose(one, other, rtol=rtol, atol=atol)

    def _test_loop_fn(
        self, loop_fn: Any, iters: int, loop_fn_dtypes: Any = None, parallel_iterations: Any = None
    ) -> None:
        """Asserts that pfor and for_loop of a function have the same results."""
        t1 = pfor_control_flow_ops.pfor(loop_fn, iters=iters, parallel_iterations=parallel_iterations)
        t2 = pfor_control_flow_ops.for_loop(
            loop_fn, loop_fn_dtypes, iters=iters, parallel_iterations=parallel_iterations
        )
        self.run_and_assert_equal(t1, t2)
