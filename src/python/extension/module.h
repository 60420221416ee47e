// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python/extension/common.h"

namespace millrace::python {

// What the files of the extension put into the module.
bool ReadySessionTypes(PyObject* module);
bool StartShutdown();
PyObject* SetPyFunc(PyObject* module, PyObject* function);
PyObject* HasGradient(PyObject* module, PyObject* name);

}  // namespace millrace::python
