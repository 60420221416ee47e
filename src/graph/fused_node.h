// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

// Attribute of a node that replaces a product and the nodes after it: the name of the product's node, if
// errors can only be about the product.
inline constexpr char kProductAttr[] = "_product";

}  // namespace millrace
