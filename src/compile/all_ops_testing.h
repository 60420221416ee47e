// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "op/op_registry.h"
#include "ops/register.h"

namespace millrace {

// The ops that the engine has, for tests of passes that are about particular ones; TestOps() are made up.
inline const OpRegistry& AllOps() {
  // The global registry, in which element-wise programs look up their instructions.
  static const bool registered = RegisterAllOps(OpRegistry::Global()).ok();
  EXPECT_TRUE(registered);
  return OpRegistry::Global();
}

}  // namespace millrace
