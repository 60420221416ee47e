# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.linalg."""
from __future__ import annotations

from millrace.python.ops.linalg import registrations  # noqa: F401
from millrace.python.ops.linalg.linalg_impl import *  # noqa: F401,F403
from millrace.python.ops.linalg.linear_operator import LinearOperator  # noqa: F401
from millrace.python.ops.linalg.linear_operator_adjoint import LinearOperatorAdjoint  # noqa: F401
from millrace.python.ops.linalg.linear_operator_block_diag import LinearOperatorBlockDiag  # noqa: F401
from millrace.python.ops.linalg.linear_operator_circulant import (  # noqa: F401
    LinearOperatorCirculant,
    LinearOperatorCirculant2D,
    LinearOperatorCirculant3D,
)
from millrace.python.ops.linalg.linear_operator_composition import LinearOperatorComposition  # noqa: F401
from millrace.python.ops.linalg.linear_operator_diag import LinearOperatorDiag  # noqa: F401
from millrace.python.ops.linalg.linear_operator_full_matrix import LinearOperatorFullMatrix  # noqa: F401
from millrace.python.ops.linalg.linear_operator_householder import LinearOperatorHouseholder  # noqa: F401
from millrace.python.ops.linalg.linear_operator_identity import (  # noqa: F401
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
)
from millrace.python.ops.linalg.linear_operator_inversion import LinearOperatorInversion  # noqa: F401
from millrace.python.ops.linalg.linear_operator_kronecker import LinearOperatorKronecker  # noqa: F401
from millrace.python.ops.linalg.linear_operator_low_rank_update import (
    LinearOperatorLowRankUpdate,
)  # noqa: F401
from millrace.python.ops.linalg.linear_operator_lower_triangular import (
    LinearOperatorLowerTriangular,
)  # noqa: F401
from millrace.python.ops.linalg.linear_operator_toeplitz import LinearOperatorToeplitz  # noqa: F401
from millrace.python.ops.linalg.linear_operator_zeros import LinearOperatorZeros  # noqa: F401
