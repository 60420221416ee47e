// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "python/extension/module.h"

namespace millrace::python {

bool ReadyOpSpecType(PyObject* /*module*/) { return true; }

}  // namespace millrace::python
