// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/cast.h"

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/register.h"

namespace millrace {
namespace {

// Keeps the upper half of each float. A NaN whose payload lies in the lower half alone stays one.
void TruncateToBfloat16(const void* in, void* out, int64_t n) {
  const auto* x = static_cast<const uint32_t*>(in);
  auto* y = static_cast<uint16_t*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const bool nan = (x[i] & 0x7fffffffu) > 0x7f800000u;
    y[i] = static_cast<uint16_t>(x[i] >> 16 | (nan ? 0x40u : 0u));
  }
}

class CastKernel final : public OpKernel {
 public:
  explicit CastKernel(KernelConstruction& c) : OpKernel(c), from_(input_type(0)), to_(output_type(0)) {
    if (from_ == to_) return;
    fn_ = cpu::FindCast(from_, to_);
    // Set by the partitioner on values that travel (graph_options.enable_bfloat16_sendrecv).
    if (from_ == DataType::kFloat && to_ == DataType::kBfloat16 &&
        c.attrs().Get<bool>("_Truncate").value_or(false))
      fn_ = TruncateToBfloat16;
    if (fn_ == nullptr) {
      c.SetError(errors::Unimplemented("Cast ", DataTypeName(from_), " to ", DataTypeName(to_),
                                       " is not supported"));
    }
  }
  Status Compute(KernelContext& context) override {
    if (fn_ == nullptr) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    ContextParallel parallel(context);
    cpu::RunUnary(fn_, in.raw_data(), static_cast<int64_t>(ElementSize(from_)), out->raw_data(),
                  static_cast<int64_t>(ElementSize(to_)), in.num_elements(), 0.5, parallel);
    return Status();
  }

 private:
  const DataType from_, to_;
  cpu::UnaryFn fn_ = nullptr;
};

}  // namespace

void RegisterCastKernels(KernelRegistry& registry) { registry.Register<CastKernel>(KernelDef("Cast")); }

}  // namespace millrace
