// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/cast.h"

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// Bits of the mantissa; 0 for types that are not floating-point.
int MantissaBits(DataType t) {
  switch (t) {
    case DataType::kDouble:
      return 52;
    case DataType::kFloat:
      return 23;
    case DataType::kHalf:
      return 10;
    case DataType::kBfloat16:
      return 7;
    default:
      return 0;
  }
}

// Clears the lowest `dropped` bits of numbers with `mantissa` bits, so that a rounding conversion truncates.
// NaN stays NaN.
template <typename Bits>
void CutMantissas(const void* in, void* out, int64_t n, int mantissa, int dropped) {
  const auto* x = static_cast<const Bits*>(in);
  auto* y = static_cast<Bits*>(out);
  const Bits kept = static_cast<Bits>(~((Bits{1} << dropped) - 1));
  const Bits fraction = static_cast<Bits>((Bits{1} << mantissa) - 1);
  const Bits magnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  const Bits infinity = static_cast<Bits>(magnitude & static_cast<Bits>(~fraction));
  const Bits quiet = static_cast<Bits>(Bits{1} << (mantissa - 1));
  for (int64_t i = 0; i < n; ++i) {
    const bool nan = static_cast<Bits>(x[i] & magnitude) > infinity;
    y[i] = static_cast<Bits>((x[i] & kept) | (nan ? quiet : Bits{0}));
  }
}

class CastKernel final : public OpKernel {
 public:
  explicit CastKernel(KernelConstruction& c) : OpKernel(c), from_(input_type(0)), to_(output_type(0)) {
    if (from_ == to_) return;
    fn_ = cpu::FindCast(from_, to_);
    if (fn_ == nullptr) {
      c.SetError(errors::Unimplemented("Cast ", DataTypeName(from_), " to ", DataTypeName(to_),
                                       " is not supported"));
    }
    if (c.Attr<bool>("Truncate") && MantissaBits(to_) > 0) dropped_ = MantissaBits(from_) - MantissaBits(to_);
  }
  Status Compute(KernelContext& context) override {
    if (fn_ == nullptr) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    Tensor in = context.input(0);
    if (dropped_ > 0) {
      MR_ASSIGN_OR_RETURN(in, Cut(context, in));
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    ContextParallel parallel(context);
    cpu::RunUnary(fn_, in.raw_data(), static_cast<int64_t>(ElementSize(from_)), out->raw_data(),
                  static_cast<int64_t>(ElementSize(to_)), in.num_elements(), 0.5, parallel);
    return Status();
  }

 private:
  StatusOr<Tensor> Cut(KernelContext& context, const Tensor& in) const {
    MR_ASSIGN_OR_RETURN(Tensor cut, context.AllocateTemp(from_, in.shape()));
    const size_t size = ElementSize(from_);
    const auto fn = size == 8   ? CutMantissas<uint64_t>
                    : size == 4 ? CutMantissas<uint32_t>
                                : CutMantissas<uint16_t>;
    context.ParallelFor(in.num_elements(), 1, [&](int64_t begin, int64_t end) {
      const size_t at = static_cast<size_t>(begin) * size;
      fn(static_cast<const char*>(in.raw_data()) + at, static_cast<char*>(cut.raw_data()) + at, end - begin,
         MantissaBits(from_), dropped_);
    });
    return cut;
  }

  const DataType from_, to_;
  cpu::UnaryFn fn_ = nullptr;
  int dropped_ = 0;  // number of mantissa bits that are truncated rather than rounded
};

}  // namespace

void RegisterCastKernels(KernelRegistry& registry) { registry.Register<CastKernel>(KernelDef("Cast")); }

}  // namespace millrace
