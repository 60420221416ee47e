// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/function_body.h"

namespace millrace {

// Types of gradients that do not follow from the types of the tensors: a resource has the gradient of its
// value, or none, with the type of a resource. Empty: as the tensors.
struct GradientTypes {
  std::vector<DataType> results;     // of f's results, incoming
  std::vector<DataType> parameters;  // of f's parameters, requested
  std::string scope = "gradients";   // of the computation: arrays of gradients are found by its name
};

// Whether a function of the library has kRecomputesAttr.
bool Recomputes(const FunctionLibrary& library, std::string_view function);

// Turns the body of y1, y2, … = f(x1, x2, …) into that of dx1, dx2, … = f'(x1, x2, …, dy1, dy2, …), each with
// the type of its x. It keeps the part of f from which the gradients are computed.
using GradientBodyFn = Status (*)(FunctionBody* body, const GradientTypes& types);
// Set once, by builtin/: this folder has no gradients.
void SetGradientBodyFn(GradientBodyFn fn);

// If another function that recomputes is registered as the gradient, that function in place of the
// SymbolicGradient; any other function unchanged.
NameAttrList RegisteredFunction(const FunctionLibrary& library, const NameAttrList& f);

// A gradient recomputes values of the function. Unimplemented, naming the node, when a node of `graph`, or of
// the functions that it calls, must not run again or would give another result.
Status CheckRunsTwice(const Graph& graph);

// The callee of a node: a function of the library, an op in place of one, or the gradient of either, written
// SymbolicGradient[f=…]. The gradient is the one registered in the library, else derived from the body.
StatusOr<FunctionBody> InstantiateCallee(const FunctionLibrary& library, const OpRegistry& ops,
                                         const NameAttrList& f);

}  // namespace millrace
