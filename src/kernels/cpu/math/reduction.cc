// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/vector/reduce.h"
#include "kernels/cpu/vector/unary.h"

namespace millrace {
namespace {

using AxisSet = SmallVector<bool, 8>;

StatusOr<AxisSet> ReadAxes(const TensorShape& shape, const Tensor& axes) {
  AxisSet reduced;
  reduced.resize(static_cast<uint32_t>(shape.rank()), false);
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    const int64_t given = IntValue(axes, i);
    if (given < -shape.rank() || given >= shape.rank()) {
      return errors::InvalidArgument("Invalid reduction dimension (", given, " for input with ", shape.rank(),
                                     " dimension(s)");
    }
    // An axis that is given twice is reduced once, as TensorFlow 1.15.5 does (tests/golden).
    reduced[given < 0 ? given + shape.rank() : given] = true;
  }
  return reduced;
}

// Takes the root of the sum of the squares for the Euclidean norm.
class ReduceKernel final : public OpKernel {
 public:
  ReduceKernel(KernelConstruction& c, cpu::ReduceOp op, bool euclidean = false)
      : OpKernel(c), op_(op), keep_dims_(c.Attr<bool>("keep_dims")), euclidean_(euclidean) {}

  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const AxisSet reduced, ReadAxes(in.shape(), context.input(1)));
    TensorShape shape;
    bool trivial = true;  // only sizes of 1 are reduced
    for (int i = 0; i < in.rank(); ++i) {
      if (!reduced[i]) {
        MR_RETURN_IF_ERROR(shape.TryAddDim(in.dim(i)));
      } else {
        trivial &= in.dim(i) == 1;
        if (keep_dims_) MR_RETURN_IF_ERROR(shape.TryAddDim(1));
      }
    }
    if (euclidean_) return EuclideanNorm(context, reduced, shape);
    if (trivial) {
      context.set_output(0, context.TakeInput(0).WithShape(shape));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    cpu::ReduceAxes(op_, in.dtype(), in.shape().dims(), reduced, in.raw_data(), out->raw_data(), parallel);
    return Status();
  }

 private:
  // The square of the magnitude of x.
  template <typename T>
  static T Square(T x) {
    if constexpr (kIsComplex<T>) {
      return T(std::norm(x));
    } else {
      return Times(x, x);
    }
  }
  template <typename T>
  static T Root(T x) {
    if constexpr (kIsComplex<T>) {
      return T(std::sqrt(x.real()));
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(std::sqrt(static_cast<double>(x < T{0} ? T{0} : x)));
    } else {
      return static_cast<T>(std::sqrt(static_cast<ComputeType<T>>(x)));
    }
  }
  Status EuclideanNorm(KernelContext& context, const AxisSet& reduced, const TensorShape& shape) const {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor squares, context.AllocateTemp(in.dtype(), in.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return VisitNumber(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() {
      ContextParallel parallel(context);
      const auto map = [&](const T* from, T* to, int64_t n, cpu::UnaryOp op, T (*f)(T)) {
        if constexpr (std::is_floating_point_v<T>) {
          const cpu::UnaryFn fn = cpu::FindUnary(op, in.dtype());
          return cpu::RunUnary(fn, from, sizeof(T), to, sizeof(T), n, cpu::UnaryCostNs(op, in.dtype()),
                               parallel);
        }
        context.ParallelFor(n, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
        });
      };
      map(in.data<T>(), squares.data<T>(), in.num_elements(), cpu::UnaryOp::kSquare, Square<T>);
      cpu::ReduceAxes(cpu::ReduceOp::kSum, in.dtype(), in.shape().dims(), reduced, squares.raw_data(),
                      out->raw_data(), parallel);
      map(out->data<T>(), out->data<T>(), out->num_elements(), cpu::UnaryOp::kSqrt, Root<T>);
      return Status();
    });
  }

  const cpu::ReduceOp op_;
  const bool keep_dims_;
  const bool euclidean_;
};

}  // namespace

void RegisterReductionKernels(KernelRegistry& registry) {
  using Op = cpu::ReduceOp;
  for (const auto& [name, op] :
       {std::pair("Sum", Op::kSum), std::pair("Prod", Op::kProd), std::pair("Mean", Op::kMean),
        std::pair("Max", Op::kMax), std::pair("Min", Op::kMin)}) {
    const TypeList types = Filter(NumberTypes(), [op = op](DataType t) { return cpu::HasReduce(op, t); });
    registry.Register(KernelDef(name).Types("T", types),
                      [op = op](KernelConstruction& c) { return std::make_unique<ReduceKernel>(c, op); });
  }
  registry.Register(KernelDef("EuclideanNorm").Types("T", NumberTypes()),
                    [](KernelConstruction& c) { return std::make_unique<ReduceKernel>(c, Op::kSum, true); });
  for (const auto& [name, op] : {std::pair("All", Op::kAll), std::pair("Any", Op::kAny)}) {
    registry.Register(KernelDef(name),
                      [op = op](KernelConstruction& c) { return std::make_unique<ReduceKernel>(c, op); });
  }
}

}  // namespace millrace
