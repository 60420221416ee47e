// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/op_library.h"

#include "op/op_library.h"

namespace millrace {

StatusOr<std::vector<std::string>> LoadLibrary(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::vector<const OpRegistration*> ops, LoadOpLibrary(path));
  std::vector<std::string> names;
  names.reserve(ops.size());
  for (const OpRegistration* op : ops) names.push_back(op->def.name);
  return names;
}

}  // namespace millrace
