// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// Enables gradients of functions that are derived from their bodies (graph/function_gradient.h). May be
// called repeatedly.
void RegisterFunctionGradients();

}  // namespace millrace
