// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/node_props.h"

#include <utility>

namespace millrace {

StatusOr<std::shared_ptr<const NodeProps>> NodeProps::Make(const OpRegistration& op, AttrMap attrs) {
  auto props = std::make_shared<NodeProps>();
  props->op = &op;
  props->attrs = std::move(attrs);
  MR_RETURN_IF_ERROR(AddDefaultAttrs(op.def, &props->attrs));
  MR_RETURN_IF_ERROR(InferArgTypes(op.def, props->attrs, &props->input_types, &props->output_types));
  props->input_types.shrink_to_fit();
  props->output_types.shrink_to_fit();
  return std::shared_ptr<const NodeProps>(std::move(props));
}

}  // namespace millrace
