// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autodiff/gradient_registry.h"
#include "millrace/status.h"

namespace millrace {

// Registers the gradients of all families of ops; the records of ops without one are marked.
// cmake/registrations.py generates it from the registering functions in the files of this folder. It may be
// called repeatedly.
Status RegisterAllGradients(GradientRegistry& registry);

}  // namespace millrace
