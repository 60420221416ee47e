// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Linking this object file registers everything that is built in before main() runs. Programs that want to
// choose leave it out and call RegisterBuiltins themselves.
#include "base/logging.h"
#include "builtin/register.h"

namespace millrace {

// Has a name, so that a program that links libmillrace.a can ask the linker for this file.
extern const bool builtins_registered;
const bool builtins_registered = [] {
  const Status status = RegisterBuiltins();
  if (!status.ok()) MR_LOG(Error) << "Registration of the built-in ops failed: " << status;
  return status.ok();
}();

}  // namespace millrace
