// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "op/node_props.h"

namespace millrace {

// On a SymbolicGradient: the scope of its gradient computation, "gradients" without it.
inline constexpr std::string_view kGradientScopeAttr = "_gradient_scope";
// On a function that is registered as a gradient: it recomputes values of its function, and common nodes have
// the same names. Its value is the scope that names its own arrays of gradients.
inline constexpr std::string_view kRecomputesAttr = "_recomputes";
// On such a function: the name of the function whose gradient it is.
inline constexpr std::string_view kGradientOfAttr = "_gradient_of";
// On a node that calls a function by its name: the function that it calls instead, and the types of its
// additional outputs, which the gradient uses.
inline constexpr std::string_view kForwardAttr = "_forward";
inline constexpr std::string_view kKeptTypesAttr = "_kept_types";

// A node that calls a function by its name, with the additional outputs of kKeptTypesAttr.
std::shared_ptr<const NodeProps> WithKeptTypes(std::shared_ptr<const NodeProps> props);

}  // namespace millrace
