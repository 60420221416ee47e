// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"

namespace millrace {

// Registers everything that is part of the engine in the global registries: ops, gradients, kernels,
// device factories. It does so once, for any number of calls and threads; every call returns the
// result.
Status RegisterBuiltins();

}  // namespace millrace
