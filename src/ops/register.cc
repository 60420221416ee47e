// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/register.h"

namespace millrace {
namespace {

// The ops of TensorFlow 1.15 that no family registers.
constexpr std::string_view kDeclaredOps =
#include "ops/declared_ops.def"
    ;

}  // namespace

Status RegisterAllOps(OpRegistry& registry) {
  for (const OpFamily& family : OpFamilies()) MR_RETURN_IF_ERROR(family.register_ops(registry));
  registry.Declare(kDeclaredOps);
  return Status();
}

}  // namespace millrace
