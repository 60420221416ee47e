// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "eager/eager_tensor.h"
#include "millrace/ref.h"
#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

class EagerContext;

// An op or a call of a function, under construction. One thread at a time.
class EagerOp {
 public:
  // Makes it an op without inputs and attributes.
  void Reset(EagerContext* context, const OpRegistration* op, bool is_function);
  // Drops everything it holds.
  void Clear();

  EagerContext* context() const { return context_; }
  const OpRegistration* op() const { return op_; }
  const std::string& name() const { return op_->def.name; }
  bool is_function() const { return is_function_; }
  Device* device() const { return device_; }  // null: the first CPU
  void set_device(Device* device) { device_ = device; }

  void SetAttr(std::string_view name, AttrValue value);
  // The first error of calls of SetAttr; the execution fails with it.
  void SetError(const Status& status) { status_.Update(status); }
  const Status& status() const { return status_; }
  // The next argument of the op.
  void AddInput(EagerTensor* tensor);
  void AddInputList(std::span<EagerTensor* const> tensors);

  const std::vector<AttrMap::Entry>& attrs() const { return attrs_; }
  const std::vector<RefPtr<EagerTensor>>& inputs() const { return inputs_; }
  // The number of tensors that each call has added.
  const std::vector<int>& groups() const { return groups_; }

  // The attributes that were set, and those that follow from types and numbers of the inputs. InvalidArgument
  // for a number of inputs that the op does not have, when `complete`.
  StatusOr<AttrMap> InferAttrs(bool complete) const;
  // The length of the argument, as far as known; the text is TensorFlow's: "Input 'x' not found".
  StatusOr<int> ArgLength(std::string_view name, bool input) const;

 private:
  EagerContext* context_ = nullptr;
  const OpRegistration* op_ = nullptr;
  bool is_function_ = false;
  Device* device_ = nullptr;
  Status status_;
  std::vector<AttrMap::Entry> attrs_;
  std::vector<RefPtr<EagerTensor>> inputs_;
  std::vector<int> groups_;
};

}  // namespace millrace
