// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// Lets gradients of functions be derived from their bodies (graph/function_gradient.h). Calling it twice is
// fine.
void RegisterFunctionGradients();

}  // namespace millrace
