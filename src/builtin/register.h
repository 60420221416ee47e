// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"

namespace millrace {

// Puts everything that ships with the engine into the global registries: ops, gradients, kernels, device
// factories. Does it once, however often and from however many threads it is called; every call returns the
// outcome.
Status RegisterBuiltins();

}  // namespace millrace
