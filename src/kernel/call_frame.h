// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "millrace/tensor.h"

namespace millrace {

// The feeds and fetches of one step, by slot: _Arg nodes read args, _Retval nodes write rets. Each ret is
// written by one node, so there is no lock. The tensors belong to whoever runs the step.
struct CallFrame {
  std::span<const Tensor* const> args;
  std::span<Tensor> rets;

  int num_args() const { return static_cast<int>(args.size()); }
  int num_rets() const { return static_cast<int>(rets.size()); }
  const Tensor& arg(int i) const { return *args[i]; }
  void set_ret(int i, const Tensor& value) const { rets[i] = value; }
};

}  // namespace millrace
