// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_checks.h"

namespace millrace {
namespace {

TEST(DebugShapes, IdentitiesAndNumbers) {
  for (const char* op : {"Copy", "CopyHost", "DebugIdentity", "DebugGradientIdentity"}) ExpectUnchanged(op);
  Expect(Op("DebugNanCount"), "[2,3]", "[1]");
  Expect(Op("DebugNumericSummary"), "[2,3]", "[?]");
}

}  // namespace
}  // namespace millrace
