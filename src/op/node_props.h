// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/status.h"
#include "op/op_builder.h"

namespace millrace {

// The properties of a node except name, device and edges. Immutable once shared: copies of a graph and the
// kernels made from it share it. The registration must outlive it.
struct NodeProps {
  const OpRegistration* op = nullptr;
  AttrMap attrs;
  std::vector<DataType> input_types;
  std::vector<DataType> output_types;

  // Sets default attributes, checks all of them and infers the types.
  static StatusOr<std::shared_ptr<const NodeProps>> Make(const OpRegistration& op, AttrMap attrs);
};

}  // namespace millrace
