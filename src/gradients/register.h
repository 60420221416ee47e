// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/gradient_registry.h"
#include "millrace/status.h"

namespace millrace {

// Registers the gradients of all families of ops; ops without one say so in their records.
// cmake/registrations.py makes it from the registering functions in the files of this folder. Calling it
// twice is fine.
Status RegisterAllGradients(GradientRegistry& registry);

}  // namespace millrace
