// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/function_body.h"

namespace millrace {

// Types of gradients where those of the tensors don't tell them: a resource has the gradient of its value, or
// none, whose type is that of a resource. Empty: as the tensors.
struct GradientTypes {
  std::vector<DataType> results;     // of f, as they arrive
  std::vector<DataType> parameters;  // of f, as they are wanted
  std::string scope = "gradients";   // of the computation: arrays of gradients are found by its name
};

// Whether a function of the library has kRecomputesAttr.
bool Recomputes(const FunctionLibrary& library, std::string_view function);

// Turns the body of y1, y2, … = f(x1, x2, …) into that of dx1, dx2, … = f'(x1, x2, …, dy1, dy2, …), each of
// the type of what it is the gradient of. Of f it keeps what the gradients are computed from.
using GradientBodyFn = Status (*)(FunctionBody* body, const GradientTypes& types);
// Set once, by what is built in: this folder knows no gradients.
void SetGradientBodyFn(GradientBodyFn fn);

// The function that is registered as the gradient of another and computes again what it needs, in place of
// the SymbolicGradient of that one; another function as it is.
NameAttrList RegisteredFunction(const FunctionLibrary& library, const NameAttrList& f);

// A gradient computes again what it needs of the function. Unimplemented, naming the node, when something of
// `graph`, or of the functions that it calls, must not run again or would give something else.
Status CheckRunsTwice(const Graph& graph);

// What a node may call: a function of the library, an op in place of one, or the gradient of either, written
// SymbolicGradient[f=…]. The gradient is the one that the library registers, else derived from the body.
StatusOr<FunctionBody> InstantiateCallee(const FunctionLibrary& library, const OpRegistry& ops,
                                         const NameAttrList& f);

}  // namespace millrace
