// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "op/node_props.h"

namespace millrace {

// NodeProps::Make for a node of the body of a future function: attributes may be placeholders, which stand
// for attributes of that function. InvalidArgument when a type depends on one.
StatusOr<std::shared_ptr<const NodeProps>> MakePropsInBody(const OpRegistration& op, AttrMap attrs);
// Whether some attribute that the op declares is a placeholder.
bool HasPlaceholders(const NodeProps& props);

}  // namespace millrace
