// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "millrace/status.h"

namespace tensorflow {
class GraphDef;
}

namespace millrace {

// The ops that a task refuses (ServerOptions::denied_ops).
class DeniedOps {
 public:
  // NotFound for a name that is neither a group nor a known op.
  static StatusOr<DeniedOps> Parse(const std::vector<std::string>& names);
  // PermissionDenied, naming the first node of the graph or of a function in it that is or calls a denied op.
  Status Check(const tensorflow::GraphDef& graph) const;
  bool Has(const std::string& op) const { return ops_.contains(op); }

 private:
  std::set<std::string, std::less<>> ops_;
};

}  // namespace millrace
