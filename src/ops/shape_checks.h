// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "op/shape_fn_testing.h"
#include "ops/register.h"

// For the tests of this folder.
namespace millrace {

// A tester of a registered op.
inline ShapeTester Op(std::string name) {
  static const Status registered = RegisterAllOps(OpRegistry::Global());
  EXPECT_TRUE(registered.ok()) << registered;
  return ShapeTester(std::move(name));
}

// See ShapeTester::Check. The text of a failure names the op and the inputs.
inline void Expect(ShapeTester op, std::string_view inputs, std::string_view expected) {
  EXPECT_EQ(op.Check(inputs, expected), "");
}

inline void ExpectUnchanged(const char* op) {
  Expect(Op(op), "?", "in0");
  Expect(Op(op), "[]", "in0");
  Expect(Op(op), "[2,?,3]", "in0");
}

}  // namespace millrace
