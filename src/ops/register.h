// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

// The ops of a part of a family: signature, shape function and traits. Calling it twice is fine.
struct OpFamily {
  const char* name;  // a folder of src/ops
  Status (*register_ops)(OpRegistry& registry);
};

// All registering functions in the files of this folder, by family; cmake/registrations.py makes it.
std::span<const OpFamily> OpFamilies();

// The ops of all families and, as declarations without kernels, all other ops of TensorFlow 1.15.
Status RegisterAllOps(OpRegistry& registry);

}  // namespace millrace
