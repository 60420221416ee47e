// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "eager/eager_op.h"

#include <utility>

namespace millrace {

void EagerOp::Reset(EagerContext* context, const OpRegistration* op, bool is_function) {
  context_ = context;
  op_ = op;
  is_function_ = is_function;
  device_ = nullptr;
}

void EagerOp::Clear() {
  if (!status_.ok()) status_ = Status();
  attrs_.clear();
  inputs_.clear();
  groups_.clear();
}

void EagerOp::SetAttr(std::string_view name, AttrValue value) {
  for (AttrMap::Entry& entry : attrs_) {
    if (entry.first != name) continue;
    entry.second = std::move(value);
    return;
  }
  attrs_.emplace_back(std::string(name), std::move(value));
}

void EagerOp::AddInput(EagerTensor* tensor) {
  inputs_.push_back(ShareRef(tensor));
  groups_.push_back(1);
}

void EagerOp::AddInputList(std::span<EagerTensor* const> tensors) {
  for (EagerTensor* tensor : tensors) inputs_.push_back(ShareRef(tensor));
  groups_.push_back(static_cast<int>(tensors.size()));
}

StatusOr<AttrMap> EagerOp::InferAttrs(bool complete) const {
  AttrMap attrs = AttrMap::FromEntries(attrs_);
  const std::vector<ArgDef>& args = op_->def.inputs;
  // For a list added tensor by tensor the caller gives its length; without one the list is the rest.
  const bool grouped = groups_.size() <= args.size();
  size_t next = 0;
  for (size_t a = 0; a < args.size(); ++a) {
    const ArgDef& arg = args[a];
    if (!complete && (grouped ? a >= groups_.size() : next >= inputs_.size())) break;
    size_t count = grouped && a < groups_.size() ? static_cast<size_t>(groups_[a]) : 1;
    if (!arg.number_attr.empty() || !arg.type_list_attr.empty()) {
      const auto number = attrs.Get<int64_t>(arg.number_attr);
      const AttrValue* types = arg.type_list_attr.empty() ? nullptr : attrs.Find(arg.type_list_attr);
      const auto* list = types == nullptr ? nullptr : types->As<std::vector<DataType>>();
      if (number.ok()) {
        count = *number < 0 ? 0 : static_cast<size_t>(*number);
      } else if (types != nullptr) {
        count = list == nullptr ? 0 : list->size();
      } else if (!grouped) {
        const size_t behind = args.size() - a - 1;
        count = inputs_.size() > next + behind ? inputs_.size() - next - behind : 0;
      } else if (a >= groups_.size()) {
        count = 0;
      }
      if (!arg.number_attr.empty() && !number.ok()) attrs.Set(arg.number_attr, static_cast<int64_t>(count));
      if (!arg.type_list_attr.empty() && types == nullptr) {
        std::vector<DataType> found;
        for (size_t i = next; i < next + count && i < inputs_.size(); ++i)
          found.push_back(inputs_[i]->dtype());
        attrs.Set(arg.type_list_attr, std::move(found));
      }
    }
    if (!arg.type_attr.empty() && attrs.Find(arg.type_attr) == nullptr && next < inputs_.size() &&
        count > 0) {
      attrs.Set(arg.type_attr, inputs_[next]->dtype());
    }
    next += count;
  }
  if (complete && next != inputs_.size()) {
    return errors::InvalidArgument("expected ", next, " inputs, got ", inputs_.size());
  }
  return attrs;
}

StatusOr<int> EagerOp::ArgLength(std::string_view name, bool input) const {
  MR_ASSIGN_OR_RETURN(AttrMap attrs, InferAttrs(false));
  for (const AttrDef& attr : op_->def.attrs) {
    if (attr.default_value.IsSet() && attrs.Find(attr.name) == nullptr)
      attrs.Set(attr.name, attr.default_value);
  }
  // The other arguments may not be known yet.
  for (const ArgDef& arg : input ? op_->def.inputs : op_->def.outputs) {
    if (arg.name != name) continue;
    std::vector<ArgRange> ranges;
    MR_RETURN_IF_ERROR(InferArgRanges({arg}, attrs, &ranges));
    return ranges[0].end;
  }
  return errors::InvalidArgument(input ? "Input '" : "Output '", name, "' not found");
}

}  // namespace millrace
