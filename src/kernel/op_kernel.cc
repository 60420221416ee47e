// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/op_kernel.h"

#include "millrace/status.h"

namespace millrace {

Status AsyncOpKernel::Compute(KernelContext&) {
  return errors::Internal("Asynchronous kernel of op ", op_name(), " was run as a synchronous one");
}

}  // namespace millrace
