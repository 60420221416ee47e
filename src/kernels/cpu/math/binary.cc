// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <string>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/math/elementwise.h"
#include "kernels/cpu/math/integer_error.h"
#include "kernels/cpu/stored_type.h"
#include "kernels/cpu/vector/binary.h"
#include "kernels/cpu/vector/broadcast.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

// Fewer elements than this are computed on this thread without the pool.
constexpr int64_t kSmall = 4096;

bool IsGradient(cpu::BinaryOp op) { return op >= cpu::BinaryOp::kSigmoidGrad; }

// Gradients that TensorFlow's kernels compute without checking shapes: the result has the shape of the first
// input.
bool IgnoresShapes(cpu::BinaryOp op) {
  return op == cpu::BinaryOp::kSigmoidGrad || op == cpu::BinaryOp::kTanhGrad ||
         op == cpu::BinaryOp::kSqrtGrad || op == cpu::BinaryOp::kRsqrtGrad ||
         op == cpu::BinaryOp::kReciprocalGrad;
}

class BinaryKernel final : public OpKernel {
 public:
  BinaryKernel(KernelConstruction& c, cpu::BinaryOp op)
      : OpKernel(c),
        fns_(cpu::FindBinary(op, StoredType(input_type(0)))),
        in_size_(static_cast<int64_t>(ElementSize(input_type(0)))),
        out_size_(static_cast<int64_t>(ElementSize(output_type(0)))),
        cost_ns_(cpu::BinaryCostNs(op, StoredType(input_type(0)))),
        op_(op) {
    if (fns_ == nullptr) {
      c.SetError(
          errors::Unimplemented("Op ", op_name(), " has no CPU kernel for ", DataTypeName(input_type(0))));
    } else {
      same_ = fns_->same;
    }
  }

  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    if (a.shape() != b.shape()) {
      const bool elements_alone = IgnoresShapes(op_) && a.num_elements() == b.num_elements();
      if (!elements_alone) return ComputeBroadcast(context);
    }
    const int64_t n = a.num_elements();
    const void* pa = a.raw_data();
    const void* pb = b.raw_data();
    Tensor* out = context.TryForward(0, 0);
    if (out == nullptr && a.shape() == b.shape()) out = context.TryForward(1, 0);
    if (out == nullptr) {
      MR_ASSIGN_OR_RETURN(out, context.AllocateOutput(0, a.shape()));
    }
    const bool fine =
        n <= kSmall ? same_(pa, pb, out->raw_data(), n) : RunSame(context, pa, pb, out->raw_data(), n);
    if (!fine) [[unlikely]]
      return BadInteger(op_name());
    return Status();
  }

 private:
  bool RunSame(KernelContext& context, const void* a, const void* b, void* out, int64_t n) const {
    std::atomic<bool> fine{true};
    const double block_ns = cost_ns_ * kBlock;
    context.ParallelFor((n + kBlock - 1) / kBlock, static_cast<int64_t>(block_ns) + 1,
                        [&](int64_t begin, int64_t end) {
                          const int64_t from = begin * kBlock;
                          const int64_t count = std::min(end * kBlock, n) - from;
                          const bool ok = same_(static_cast<const char*>(a) + from * in_size_,
                                                static_cast<const char*>(b) + from * in_size_,
                                                static_cast<char*>(out) + from * out_size_, count);
                          // Relaxed: read after ParallelFor has joined.
                          if (!ok) fine.store(false, std::memory_order_relaxed);
                        });
    return fine.load(std::memory_order_relaxed);
  }

  Status ComputeBroadcast(KernelContext& context) const {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    if (IsGradient(op_)) {
      return errors::InvalidArgument("Inputs to operation ", name(), " of type ", op_name(),
                                     " must have the same size and shape.  Input 0: ", a.shape(),
                                     " != input 1: ", b.shape());
    }
    const void* pa = a.raw_data();
    const void* pb = b.raw_data();
    bool fine = true;
    if (b.num_elements() == 1 && b.rank() <= a.rank() && a.num_elements() <= kSmall) {
      const int64_t n = a.num_elements();
      MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0}, 0, TensorShape(a.shape())));
      fine = fns_->scalar_right(pa, pb, out->raw_data(), n);
    } else if (a.num_elements() == 1 && a.rank() <= b.rank() && b.num_elements() <= kSmall) {
      const int64_t n = b.num_elements();
      MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({1}, 0, TensorShape(b.shape())));
      fine = fns_->scalar_left(pa, pb, out->raw_data(), n);
    } else {
      const auto plan = cpu::Broadcast::Make(a.shape().dims(), b.shape().dims());
      if (!plan.has_value()) {
        MR_RETURN_IF_ERROR(BroadcastShapes(a.shape(), b.shape()).status());
        return errors::InvalidArgument("Incompatible shapes: ", a.shape(), " vs. ", b.shape());
      }
      MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(plan->output_shape()));
      Tensor* out = a.shape() == shape ? context.TryForward(0, 0) : nullptr;
      if (out == nullptr && context.input(1).shape() == shape) out = context.TryForward(1, 0);
      if (out == nullptr) {
        MR_ASSIGN_OR_RETURN(out, context.AllocateOutput(0, shape));
      }
      ContextParallel parallel(context);
      fine = plan->Run(*fns_, pa, pb, in_size_, out->raw_data(), out_size_, cost_ns_, parallel);
    }
    return fine ? Status() : BadInteger(op_name());
  }

  static constexpr int64_t kBlock = 1024;  // elements

  const cpu::BinaryFns* const fns_;
  cpu::BinaryFn same_ = nullptr;
  const int64_t in_size_, out_size_;
  const double cost_ns_;
  const cpu::BinaryOp op_;
};

// Calls fn(index in a, index in b) for each element of the broadcast shape, in order.
template <typename Fn>
void ForEachPair(const TensorShape& a, const TensorShape& b, const TensorShape& out, Fn fn) {
  const Dims as = BroadcastStrides(a.dims(), out.dims()), bs = BroadcastStrides(b.dims(), out.dims());
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t rest = i, ia = 0, ib = 0;
    for (int d = out.rank() - 1; d >= 0; --d) {
      ia += rest % out.dim(d) * as[d];
      ib += rest % out.dim(d) * bs[d];
      rest /= out.dim(d);
    }
    fn(i, ia, ib);
  }
}

// Add, Equal and NotEqual of strings.
class StringBinaryKernel final : public OpKernel {
 public:
  StringBinaryKernel(KernelConstruction& c, cpu::BinaryOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, BroadcastShapes(a.shape(), b.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const auto *pa = a.data<std::string>(), *pb = b.data<std::string>();
    ForEachPair(a.shape(), b.shape(), shape, [&](int64_t i, int64_t ia, int64_t ib) {
      if (op_ == cpu::BinaryOp::kAdd) {
        out->data<std::string>()[i] = pa[ia] + pb[ib];
      } else {
        out->data<bool>()[i] = (pa[ia] == pb[ib]) == (op_ == cpu::BinaryOp::kEqual);
      }
    });
    return Status();
  }

 private:
  const cpu::BinaryOp op_;
};

class ApproximateEqualKernel final : public OpKernel {
 public:
  explicit ApproximateEqualKernel(KernelConstruction& c)
      : OpKernel(c), tolerance_(c.Attr<float>("tolerance")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    if (a.shape() != b.shape()) {
      return errors::InvalidArgument("x and y must be of the same shape. x shape: ", a.shape(),
                                     ". y shape: ", b.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, a.shape()));
    return VisitNumber(a.dtype(), NoSuchType(context, a.dtype()), [&]<typename T>() {
      constexpr int64_t kCostNs = 1;
      context.ParallelFor(a.num_elements(), kCostNs, [&](int64_t begin, int64_t end) {
        RunLoop([=, x = a.data<T>(), y = b.data<T>(), to = out->data<bool>(), tolerance = tolerance_]()
                    MR_INLINE_LAMBDA {
                      for (int64_t i = begin; i < end; ++i) to[i] = Near(x[i], y[i], tolerance);
                    });
      });
      return Status();
    });
  }

 private:
  template <typename T>
  static bool Near(T a, T b, float tolerance) {
    if constexpr (kIsSmallFloat<T>) {
      return std::abs(float(a) - float(b)) < tolerance;
    } else if constexpr (std::is_integral_v<T>) {
      // The difference of any two integers fits the unsigned type.
      const auto distance = a < b ? static_cast<uint64_t>(b) - static_cast<uint64_t>(a)
                                  : static_cast<uint64_t>(a) - static_cast<uint64_t>(b);
      return static_cast<double>(distance) < tolerance;
    } else {
      return std::abs(a - b) < tolerance;
    }
  }
  const float tolerance_;
};

// The types that an op supports, if there are functions for them.
enum class Types { kNumbers, kReals, kInexact, kComparable, kIntegers, kFloats, kPlainFloats, kFixed };

struct Row {
  std::string_view op;
  cpu::BinaryOp routine;
  Types types;
};

using enum cpu::BinaryOp;

constexpr Row kRows[] = {
#define MR_BINARY_ROW(name, types, ns, ...) {#name, k##name, Types::k##types},
    MR_BINARY_OPS(MR_BINARY_ROW)
#undef MR_BINARY_ROW
    // Other names of functions above.
    {"AddV2", kAdd, Types::kNumbers},
    {"RealDiv", kDiv, Types::kInexact},
    {"TruncateDiv", kDiv, Types::kIntegers},
    {"TruncateMod", kMod, Types::kReals},
    {"InvGrad", kReciprocalGrad, Types::kInexact},
};

TypeList ListOf(Types types) {
  switch (types) {
    case Types::kReals:
      return RealTypes();
    case Types::kInexact:
      return Concat(FloatTypes(), ComplexTypes());
    case Types::kComparable:
      return Concat(NumberTypes(), {DataType::kBool, DataType::kQint8, DataType::kQuint8, DataType::kQint16,
                                    DataType::kQuint16, DataType::kQint32});
    case Types::kIntegers:
      return IntegerTypes();
    case Types::kFloats:
      return FloatTypes();
    case Types::kPlainFloats:
      return {DataType::kFloat, DataType::kDouble};
    default:
      return NumberTypes();
  }
}

void Register(KernelRegistry& registry, const Row& row) {
  const cpu::BinaryOp routine = row.routine;
  KernelDef def{std::string(row.op)};
  if (row.types != Types::kFixed) {
    def.Types("T", Filter(ListOf(row.types), [routine](DataType t) {
                return cpu::FindBinary(routine, StoredType(t)) != nullptr;
              }));
  }
  registry.Register(std::move(def),
                    [routine](KernelConstruction& c) { return std::make_unique<BinaryKernel>(c, routine); });
}

void AddString(KernelRegistry& registry, const char* op, cpu::BinaryOp what) {
  registry.Register(KernelDef(op).Type<std::string>("T"),
                    [what](KernelConstruction& c) { return std::make_unique<StringBinaryKernel>(c, what); });
}

}  // namespace

cpu::BinaryOp BinaryOpOf(std::string_view op) {
  const auto* const row = std::ranges::find(kRows, op, &Row::op);
  return row == std::end(kRows) ? kCount : row->routine;
}

void RegisterBinaryMathKernels(KernelRegistry& registry) {
  for (const Row& row : kRows) Register(registry, row);
  AddString(registry, "Add", kAdd);
  AddString(registry, "Equal", kEqual);
  AddString(registry, "NotEqual", kNotEqual);
  registry.Register<ApproximateEqualKernel>(KernelDef("ApproximateEqual").Types("T", NumberTypes()));
}

}  // namespace millrace
