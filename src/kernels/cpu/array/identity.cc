// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that return their input: Identity and similar ops, Bitcast, CheckNumerics; and ops that do nothing.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/loop.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

class IdentityKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    if (context.input_is_ref(0) && IsRefType(context.output_type(0))) {
      context.ForwardRef(0, 0);
    } else {
      context.set_output(0, context.TakeInput(0));
    }
    return Status();
  }
};

class IdentityNKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    for (int i = 0; i < context.num_inputs(); ++i) context.set_output(i, context.TakeInput(i));
    return Status();
  }
};

class EnsureShapeKernel final : public OpKernel {
 public:
  explicit EnsureShapeKernel(KernelConstruction& c) : OpKernel(c), shape_(c.Attr<PartialShape>("shape")) {}
  Status Compute(KernelContext& context) override {
    const TensorShape& shape = context.input(0).shape();
    if (!shape_.IsCompatibleWith(PartialShape(shape))) {
      return errors::InvalidArgument("Shape of tensor ", name(), " ", shape,
                                     " is not compatible with expected shape ", shape_.ToString(), ".");
    }
    context.set_output(0, context.TakeInput(0));
    return Status();
  }

 private:
  const PartialShape shape_;
};

// The same bytes with another type. A larger element becomes a row of smaller ones, and vice versa.
class BitcastKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    Tensor in = context.TakeInput(0);
    const DataType to = context.output_type(0);
    const auto in_size = static_cast<int64_t>(DataTypeSize(in.dtype()));
    const auto out_size = static_cast<int64_t>(DataTypeSize(to));
    TensorShape shape = in.shape();
    if (in_size > out_size && out_size > 0) {
      MR_RETURN_IF_ERROR(shape.TryAddDim(in_size / out_size));
    } else if (in_size < out_size && in_size > 0) {
      const int last = shape.rank() - 1;
      if (last < 0 || shape.dim(last) != out_size / in_size) return Mismatch(in, to);
      shape.RemoveDim(last);
    } else if (in_size != out_size || in_size == 0) {
      return Mismatch(in, to);
    }
    context.set_output(0, Tensor::FromBuffer(to, shape, ShareRef(in.buffer()), in.raw_data()));
    return Status();
  }

 private:
  static Status Mismatch(const Tensor& in, DataType to) {
    return errors::InvalidArgument("Cannot bitcast from ", DataTypeName(in.dtype()), " to ", DataTypeName(to),
                                   ": shape ", in.shape());
  }
};

class CheckNumericsKernel final : public OpKernel {
 public:
  explicit CheckNumericsKernel(KernelConstruction& c)
      : OpKernel(c), message_(c.Attr<std::string>("message")) {}
  Status Compute(KernelContext& context) override {
    Tensor in = context.TakeInput(0);
    bool nan = false, inf = false;
    VisitReal(in.dtype(), false, [&]<typename T>() {
      if constexpr (std::is_floating_point_v<T> || kIsSmallFloat<T>) {
        if (AllFinite(context, in.data<T>(), in.num_elements())) return true;
        const T* p = in.data<T>();
        for (int64_t i = 0; i < in.num_elements(); ++i) {
          const auto v = static_cast<ComputeType<T>>(p[i]);
          nan |= std::isnan(v);
          inf |= std::isinf(v);
        }
      }
      return true;
    });
    if (nan || inf) {
      return errors::InvalidArgument(message_, " : Tensor had ",
                                     nan && inf ? "Inf and NaN"
                                     : nan      ? "NaN"
                                                : "Inf",
                                     " values");
    }
    context.set_output(0, std::move(in));
    return Status();
  }

 private:
  // A number is not finite if all bits of its exponent are set.
  template <typename T>
  static bool AllFinite(const KernelContext& context, const T* p, int64_t n) {
    using Bits =
        std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
    constexpr Bits kExponent = sizeof(T) == 8                ? static_cast<Bits>(0x7ff0000000000000)
                               : sizeof(T) == 4              ? static_cast<Bits>(0x7f800000)
                               : std::is_same_v<T, bfloat16> ? static_cast<Bits>(0x7f80)
                                                             : static_cast<Bits>(0x7c00);
    std::atomic<bool> finite = true;
    context.ParallelFor(n, 1, [&](int64_t begin, int64_t end) {
      Bits found = 0;
      RunLoop([&]() MR_INLINE_LAMBDA {
        Bits any = 0;
        for (int64_t i = begin; i < end; ++i) {
          Bits bits;
          std::memcpy(&bits, p + i, sizeof(bits));
          any |= static_cast<Bits>((bits & kExponent) == kExponent ? 1 : 0);
        }
        found = any;
      });
      if (found != 0) finite = false;
    });
    return finite;
  }

  const std::string message_;
};

}  // namespace

void RegisterIdentityKernels(KernelRegistry& registry) {
  for (const char* op : {"GuaranteeConst", "Identity", "StopGradient", "PreventGradient",
                         "PlaceholderWithDefault", "RefIdentity", "Snapshot"}) {
    registry.Register<IdentityKernel>(KernelDef(op));
  }
  registry.Register<IdentityNKernel>(KernelDef("IdentityN"));
  registry.Register<EnsureShapeKernel>(KernelDef("EnsureShape"));
  registry.Register<BitcastKernel>(KernelDef("Bitcast"));
  registry.Register<CheckNumericsKernel>(KernelDef("CheckNumerics").Types("T", FloatTypes()));
}

}  // namespace millrace
