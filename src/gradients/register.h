// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/gradient_registry.h"
#include "millrace/status.h"

namespace millrace {

// Registers the gradients of all families of ops. cmake/registrations.py makes it from the registering
// functions in the files of this folder. Calling it twice is fine.
Status RegisterAllGradients(GradientRegistry& registry);

}  // namespace millrace
