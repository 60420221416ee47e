// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Code that the kernels of recurrent cells share. All compute in float.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {

inline Status RequireShape(const Tensor& t, const TensorShape& shape, const char* name) {
  if (t.shape() == shape) return Status();
  return errors::InvalidArgument(name, " must have shape ", shape, ", got ", t.shape());
}

// out[m, n] = a[m, k] op(b) (+ out).
inline void MultiplyInto(int64_t m, int64_t n, int64_t k, const float* a, bool trans_a, const float* b,
                         bool trans_b, bool accumulate, float* out, cpu::Parallel& parallel) {
  cpu::GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.trans_a = trans_a;
  shape.trans_b = trans_b;
  shape.accumulate = accumulate;
  if (m > 0 && n > 0) cpu::Gemm(shape, a, b, out, parallel);
}

// Rows of a and b side by side.
inline void JoinRows(int64_t rows, const float* a, int64_t a_size, const float* b, int64_t b_size,
                     float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(a + r * a_size, a_size, out + r * (a_size + b_size));
    std::copy_n(b + r * b_size, b_size, out + r * (a_size + b_size) + a_size);
  }
}

// Outputs as floats, which are converted to half types at the end.
class FloatOutputs {
 public:
  explicit FloatOutputs(KernelContext& context) : context_(context) {}
  StatusOr<float*> Allocate(int i, const TensorShape& shape, bool zeros = true) {
    MR_ASSIGN_OR_RETURN(Tensor * out, context_.AllocateOutput(i, shape));
    Tensor work = *out;
    if (out->dtype() != DataType::kFloat) {
      MR_ASSIGN_OR_RETURN(work, context_.AllocateTemp(DataType::kFloat, shape));
    }
    float* data = work.data<float>();
    if (zeros) std::fill_n(data, shape.num_elements(), 0.0f);
    outputs_.push_back({out, std::move(work)});
    return data;
  }
  void Finish() {
    for (auto& [out, work] : outputs_) {
      if (out->dtype() != DataType::kFloat) FromFloat(context_, work, out);
    }
  }

 private:
  KernelContext& context_;
  std::vector<std::pair<Tensor*, Tensor>> outputs_;
};

}  // namespace millrace
