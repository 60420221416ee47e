// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

// Registers the ops of all families: signature, shape function and traits. cmake/registrations.py makes it
// from the registering functions in the files of this folder. Calling it twice is fine.
Status RegisterOpFamilies(OpRegistry& registry);

// The families and, as declarations without kernels, all other ops of TensorFlow 1.15.
Status RegisterAllOps(OpRegistry& registry);

}  // namespace millrace
