// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "op/op_registry.h"
#include "ops/register.h"

namespace millrace {

// The ops of the engine, for tests of passes that are about particular ops; those of TestOps() are made up.
inline const OpRegistry& AllOps() {
  // The global registry, which element-wise programs use to look up their instructions.
  static const bool registered = RegisterAllOps(OpRegistry::Global()).ok();
  EXPECT_TRUE(registered);
  return OpRegistry::Global();
}

}  // namespace millrace
