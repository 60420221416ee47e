// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "millrace/tensor.h"

namespace millrace {

// The feeds and fetches of one step, by slot: _Arg nodes read args, _Retval nodes write rets. Each ret is written by
// one node, so there is no lock.
struct CallFrame {
  std::span<const Tensor> args;
  std::span<Tensor> rets;
};

}  // namespace millrace
