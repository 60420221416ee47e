// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "millrace/status.h"
#include "op/op_builder.h"

namespace millrace {

// Parses declarations of ops in text form: the op's name (with a summary, as in OpBuilder) on a line of its
// own, then an indented line for each part, in the registration language of OpBuilder:
//   MatMul
//     in a: T
//     out product: T
//     attr T: {half, float}
//     flag is_commutative deprecated@16
//     why Use BatchMatMul                    (in place of a deprecated op)
// InvalidArgument names the op and the line with the error. The ops have no shape function and unknown
// traits; those with state have side effects.
StatusOr<std::vector<OpRegistration>> ParseOpTable(std::string_view text);

}  // namespace millrace
