// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "op/op_registry.h"
#include "ops/register.h"

namespace millrace {

// The ops that the engine has, for tests of passes that are about particular ones; TestOps() are made up.
inline const OpRegistry& AllOps() {
  static const OpRegistry& ops = *[] {
    auto* registry = new OpRegistry;
    EXPECT_TRUE(RegisterAllOps(*registry).ok());
    return registry;
  }();
  return ops;
}

}  // namespace millrace
