// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "millrace/layers.h"
#include "millrace/scope.h"

// Common code of the layers.
namespace millrace::layers {

#pragma GCC visibility push(hidden)

// The scope of variables and nodes of a layer.
Scope EnterLayer(const Scope& scope, const std::string& name, const char* default_name);

// Sizes of all axes of `x`, which must have the layer's rank and a known last size.
Status CheckInput(const Scope& scope, const char* layer, const Output& x, int rank);
// `wanted` numbers: those given, or one repeated for each axis.
StatusOr<std::vector<int64_t>> PerAxis(const char* layer, const char* what, const std::vector<int64_t>& given,
                                       size_t wanted);

GetVariableOptions KernelOptions(const Output& x, const WeightOptions& options);
// x + bias, passed through the activation.
Output Finish(const Scope& scope, const Output& x, int64_t units, const WeightOptions& options);

// The value of a condition if it is known when the graph is built; unset otherwise.
std::optional<bool> KnownCondition(const Input& condition);

#pragma GCC visibility pop

}  // namespace millrace::layers
