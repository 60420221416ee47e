// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gradients/family.h"

// What the gradients of calls, branches and loops share.
namespace millrace::gradients {

// Types of the gradients of the inputs from `first` on. The gradient of a resource is that of its value,
// whose type must be known where it is wanted.
std::vector<DataType> TypesOfGradients(GradientContext& c, int first);

// f's gradient in the computation, as a function.
NameAttrList GradientOf(const GradientContext& c, const NameAttrList& f, const std::vector<DataType>& from,
                        const std::vector<DataType>& to);

// Whether a gradient that runs one of `functions` again is refused, as that has effects or is random.
// `gradients`: of the functions.
bool MustSplit(const GradientContext& c, const std::vector<NameAttrList>& functions,
               const std::vector<NameAttrList>& gradients);

// The gradient of a call or condition, whose functions then also give what their gradients need: the node
// gets more outputs. `attrs` name the functions; inputs below `first` select.
struct SplitCall {
  int first = 0;
  std::vector<const char*> attrs;  // one for each function, or one that has a list of them
  std::vector<NameAttrList> functions;
};
Status SplitCallGradient(GradientContext& c, const SplitCall& call);

// The gradient of a loop, which then also keeps, in lists, what the gradient of its body needs: the node gets
// more variables.
Status SplitLoopGradient(GradientContext& c);

}  // namespace millrace::gradients
