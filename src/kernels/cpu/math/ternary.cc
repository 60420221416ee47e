// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Element-wise functions of three arguments.
#include <algorithm>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/vector/select.h"
#include "kernels/cpu/vector/special_rows.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

constexpr int64_t kBlock = 1024;  // elements

// Each argument is a scalar or has the shape of the others.
class BetaincKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    static constexpr const char* kNames[] = {"a", "b", "x"};
    int shaped = -1;
    for (int i = 0; i < 3; ++i) {
      if (context.input(i).shape().IsScalar()) continue;
      if (shaped < 0) shaped = i;
      if (context.input(i).shape() != context.input(shaped).shape()) {
        return errors::InvalidArgument("Shapes of ", kNames[shaped], " and ", kNames[i],
                                       " are inconsistent: ", context.input(shaped).shape(), " vs. ",
                                       context.input(i).shape());
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, context.input(std::max(shaped, 0)).shape()));
    if (out->dtype() == DataType::kFloat) {
      Run<float>(context, *out);
    } else {
      Run<double>(context, *out);
    }
    if (context.cancellation().IsCancelled())
      return errors::Cancelled("The step was cancelled within Betainc");
    return Status();
  }

 private:
  template <typename T>
  static void Run(const KernelContext& context, Tensor& out) {
    const T* in[3];
    int64_t step[3];
    for (int i = 0; i < 3; ++i) {
      in[i] = context.input(i).data<T>();
      step[i] = context.input(i).shape().IsScalar() ? 0 : 1;
    }
    context.ParallelFor(out.num_elements(), 100, [&](int64_t begin, int64_t end) {
      constexpr int64_t kPart = 64;  // an element may take many steps
      double part[3][kPart], results[kPart];
      for (int64_t at = begin; at < end; at += kPart) {
        if (context.cancellation().IsCancelled()) return;
        const int64_t count = std::min(kPart, end - at);
        for (int i = 0; i < 3; ++i) {
          for (int64_t k = 0; k < count; ++k) part[i][k] = static_cast<double>(in[i][(at + k) * step[i]]);
        }
        cpu::BetaincRow(part[0], part[1], part[2], results, count);
        for (int64_t k = 0; k < count; ++k) out.data<T>()[at + k] = static_cast<T>(results[k]);
      }
    });
  }
};

// The bounds are scalars or have the shape of the values. NaN stays NaN.
class ClipByValueKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const TensorShape shape = context.input(0).shape();
    for (int i = 1; i < 3; ++i) {
      const TensorShape& bound = context.input(i).shape();
      if (!bound.IsScalar() && bound != shape) {
        return errors::InvalidArgument(
            "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. ",
            "input shape: ", shape, "clip_value_min shape: ", context.input(1).shape(),
            "clip_value_max shape: ", context.input(2).shape());
      }
    }
    const void* from = context.input(0).raw_data();
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, shape));
    return VisitReal(out->dtype(), NoSuchType(context, out->dtype()), [&]<typename T>() {
      Run(context, static_cast<const T*>(from), *out);
      return Status();
    });
  }

 private:
  template <typename T>
  static T Clip(T x, T low, T high) {
    const T most = LessThan(high, x) ? high : x;
    return LessThan(most, low) ? low : most;
  }
  template <typename T>
  static void Run(const KernelContext& context, const T* from, Tensor& out) {
    const T* low = context.input(1).data<T>();
    const T* high = context.input(2).data<T>();
    const int64_t low_step = context.input(1).shape().IsScalar() ? 0 : 1;
    const int64_t high_step = context.input(2).shape().IsScalar() ? 0 : 1;
    T* to = out.data<T>();
    const int64_t n = out.num_elements();
    context.ParallelFor((n + kBlock - 1) / kBlock, kBlock, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kBlock, last = std::min(n, end * kBlock);
      if (low_step + high_step == 0) {
        RunLoop([=, l = *low, h = *high]() MR_INLINE_LAMBDA {
          if (from == to) {  // a loop of its own, as loops over two arrays are fast only if these are apart
            for (int64_t i = first; i < last; ++i) to[i] = Clip(to[i], l, h);
          } else {
            for (int64_t i = first; i < last; ++i) to[i] = Clip(from[i], l, h);
          }
        });
        return;
      }
      for (int64_t i = first; i < last; ++i) to[i] = Clip(from[i], low[i * low_step], high[i * high_step]);
    });
  }
};

// condition ? t : e, all broadcast against each other.
class SelectV2Kernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& pick = context.input(0);
    const DataType dtype = context.input(1).dtype();
    MR_ASSIGN_OR_RETURN(const TensorShape values,
                        BroadcastShapes(context.input(1).shape(), context.input(2).shape()));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, BroadcastShapes(pick.shape(), values));
    bool same = !OwnsMemory(dtype);
    for (int i = 0; i < 3; ++i) same = same && context.input(i).shape() == shape;
    const cpu::SelectFn select = same ? cpu::FindSelect(static_cast<int64_t>(ElementSize(dtype))) : nullptr;
    if (select != nullptr) return SelectElements(context, select, shape);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return VisitDataType(dtype, NoSuchType(context, dtype), [&]<typename T>() {
      SelectBroadcast<T>(context, *out);
      return Status();
    });
  }

 private:
  static Status SelectElements(KernelContext& context, cpu::SelectFn select, const TensorShape& shape) {
    const auto size = static_cast<int64_t>(ElementSize(context.input(1).dtype()));
    const char* from[3];
    for (int i = 0; i < 3; ++i) from[i] = static_cast<const char*>(context.input(i).raw_data());
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({1, 2}, 0, TensorShape(shape)));
    char* const to = static_cast<char*>(out->raw_data());
    const int64_t n = out->num_elements();
    context.ParallelFor((n + kBlock - 1) / kBlock, kBlock / 4, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * kBlock;
      select(from[0] + at, from[1] + at * size, from[2] + at * size, to + at * size,
             std::min(n, end * kBlock) - at);
    });
    return Status();
  }

  template <typename T>
  static void SelectBroadcast(const KernelContext& context, Tensor& out) {
    const auto dims = out.shape().dims();
    const int rank = out.rank();
    Dims strides[3];
    for (int i = 0; i < 3; ++i) strides[i] = BroadcastStrides(context.input(i).shape().dims(), dims);
    const bool* pick = context.input(0).data<bool>();
    const T* values[2] = {context.input(1).data<T>(), context.input(2).data<T>()};
    const int64_t last = rank == 0 ? 1 : dims[rank - 1];
    if (out.num_elements() == 0) return;
    // Rows along the last dimension.
    context.ParallelFor(out.num_elements() / last, last + 5, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t at[3] = {}, rest = row;
        for (int d = rank - 2; d >= 0; --d) {
          for (int i = 0; i < 3; ++i) at[i] += rest % dims[d] * strides[i][d];
          rest /= dims[d];
        }
        int64_t step[3] = {};
        for (int i = 0; i < 3 && rank > 0; ++i) step[i] = strides[i][rank - 1];
        T* to = out.data<T>() + row * last;
        for (int64_t k = 0; k < last; ++k) {
          const int which = pick[at[0] + k * step[0]] ? 0 : 1;
          to[k] = values[which][at[which + 1] + k * step[which + 1]];
        }
      }
    });
  }
};

}  // namespace

void RegisterTernaryMathKernels(KernelRegistry& registry) {
  registry.Register<BetaincKernel>(KernelDef("Betainc").Types("T", {DataType::kFloat, DataType::kDouble}));
  registry.Register<ClipByValueKernel>(KernelDef("ClipByValue").Types("T", RealTypes()));
  registry.Register<SelectV2Kernel>(KernelDef("SelectV2"));
}

}  // namespace millrace
