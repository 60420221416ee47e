// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "op/node_props.h"

namespace millrace {

// Of a SymbolicGradient: the scope of the computation that it belongs to, "gradients" without it.
inline constexpr std::string_view kGradientScopeAttr = "_gradient_scope";
// Of a function that is registered as a gradient: it computes again what it needs of its function, and the
// nodes that both have are of the same names. Its value is the scope that names its own arrays of gradients.
inline constexpr std::string_view kRecomputesAttr = "_recomputes";
// Of such a function, the name of the other, whose gradient it thereby is.
inline constexpr std::string_view kGradientOfAttr = "_gradient_of";
// Of a node that calls a function by its name: the function that it calls instead, and the types of the
// further outputs that this one has, which the gradient takes.
inline constexpr std::string_view kForwardAttr = "_forward";
inline constexpr std::string_view kKeptTypesAttr = "_kept_types";

// A node that calls a function by its name, with the outputs that kKeptTypesAttr says.
std::shared_ptr<const NodeProps> WithKeptTypes(std::shared_ptr<const NodeProps> props);

}  // namespace millrace
