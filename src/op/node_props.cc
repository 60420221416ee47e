// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/node_props.h"

#include <algorithm>
#include <utility>

#include "op/body_props.h"
#include "op/function_attrs.h"

namespace millrace {

StatusOr<std::shared_ptr<const NodeProps>> NodeProps::Make(const OpRegistration& op, AttrMap attrs) {
  MR_ASSIGN_OR_RETURN(std::shared_ptr<const NodeProps> props, MakePropsInBody(op, std::move(attrs)));
  if (!HasPlaceholders(*props)) [[likely]]
    return props;
  for (const AttrDef& attr : op.def.attrs)
    MR_RETURN_IF_ERROR(ValidateAttrValue(attr, *props->attrs.Find(attr.name)));
  return props;
}

StatusOr<std::shared_ptr<const NodeProps>> MakePropsInBody(const OpRegistration& op, AttrMap attrs) {
  auto props = std::make_shared<NodeProps>();
  props->op = &op;
  props->attrs = std::move(attrs);
  MR_RETURN_IF_ERROR(AddDefaultAttrs(op.def, &props->attrs));
  MR_RETURN_IF_ERROR(InferArgTypes(op.def, props->attrs, &props->input_types, &props->output_types));
  props->input_types.shrink_to_fit();
  props->output_types.shrink_to_fit();
  return std::shared_ptr<const NodeProps>(std::move(props));
}

std::shared_ptr<const NodeProps> WithKeptTypes(std::shared_ptr<const NodeProps> props) {
  const AttrValue* value = props->attrs.Find(kKeptTypesAttr);
  const auto* types = value == nullptr ? nullptr : value->As<std::vector<DataType>>();
  if (types == nullptr || types->empty()) return props;
  auto longer = std::make_shared<NodeProps>(*props);
  longer->output_types.insert(longer->output_types.end(), types->begin(), types->end());
  return longer;
}

bool HasPlaceholders(const NodeProps& props) {
  return std::any_of(props.attrs.begin(), props.attrs.end(), [](const AttrMap::Entry& attr) {
    return attr.second.IsPlaceholder() && !attr.first.starts_with("_");
  });
}

}  // namespace millrace
