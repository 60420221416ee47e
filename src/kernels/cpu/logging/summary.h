// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"

namespace tensorflow {
class Summary;
}

namespace millrace {

// Output 0: the message, serialized.
Status SetSummary(KernelContext& context, const tensorflow::Summary& summary);

}  // namespace millrace
