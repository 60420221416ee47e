// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python/extension/common.h"

namespace millrace::python {

// Makes the NumPy type bfloat16: its scalars, casts to and from NumPy's numbers, comparisons and arithmetic.
// Puts the class of its scalars into the module; false with an exception. Once, after ImportNumpy.
bool ReadyBfloat16(PyObject* module);

}  // namespace millrace::python
