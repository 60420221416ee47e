// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/unary.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/math/elementwise.h"
#include "kernels/cpu/vector/transpose.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

// Fewer elements than this are computed on this thread without the pool.
constexpr int64_t kSmall = 4096;

class UnaryKernel final : public OpKernel {
 public:
  UnaryKernel(KernelConstruction& c, cpu::UnaryOp op)
      : OpKernel(c),
        fn_(cpu::FindUnary(op, input_type(0))),
        in_size_(static_cast<int64_t>(ElementSize(input_type(0)))),
        out_size_(static_cast<int64_t>(ElementSize(output_type(0)))),
        cost_ns_(cpu::UnaryCostNs(op, input_type(0))) {
    if (fn_ == nullptr || cpu::UnaryResultType(op, input_type(0)) != output_type(0)) {
      c.SetError(errors::InvalidArgument("Op ", op_name(), " doesn't map ", DataTypeName(input_type(0)),
                                         " to ", DataTypeName(output_type(0))));
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const void* from = in.raw_data();
    const int64_t n = in.num_elements();
    Tensor* out = context.TryForward(0, 0);
    if (out == nullptr) {
      MR_ASSIGN_OR_RETURN(out, context.AllocateOutput(0, in.shape()));
    }
    if (n <= kSmall) {
      fn_(from, out->raw_data(), n);
    } else {
      ContextParallel parallel(context);
      cpu::RunUnary(fn_, from, in_size_, out->raw_data(), out_size_, n, cost_ns_, parallel);
    }
    return Status();
  }

 private:
  const cpu::UnaryFn fn_;
  const int64_t in_size_, out_size_;
  const double cost_ns_;
};

// The types that an op supports, if there are functions for them.
enum class Types { kAll, kReal, kComplex, kInexact, kFixed };

struct Row {
  std::string_view op;
  cpu::UnaryOp routine;
  Types types;
};

constexpr Row kRows[] = {
#define MR_UNARY_ROW(name, types, ns, ...) {#name, cpu::UnaryOp::k##name, Types::k##types},
    MR_UNARY_OPS(MR_UNARY_ROW)
#undef MR_UNARY_ROW
    // Other names of functions above.
    {"ComplexAbs", cpu::UnaryOp::kAbs, Types::kComplex},
    {"Inv", cpu::UnaryOp::kReciprocal, Types::kAll},
};

TypeList ListOf(Types types) {
  switch (types) {
    case Types::kReal:
      return RealTypes();
    case Types::kComplex:
      return ComplexTypes();
    case Types::kInexact:
      return Concat(FloatTypes(), ComplexTypes());
    default:
      return Concat(NumberTypes(), {DataType::kBool});
  }
}

void Register(KernelRegistry& registry, const Row& row) {
  const cpu::UnaryOp routine = row.routine;
  KernelDef def{std::string(row.op)};
  if (row.types != Types::kFixed) {
    def.Types("T", Filter(ListOf(row.types),
                          [routine](DataType t) { return cpu::FindUnary(routine, t) != nullptr; }));
  }
  registry.Register(std::move(def),
                    [routine](KernelConstruction& c) { return std::make_unique<UnaryKernel>(c, routine); });
}

// Rounding of integers.
class IntegerIdentityKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    context.set_output(0, context.TakeInput(0));
    return Status();
  }
};

// Pairs of reals, broadcast against each other, as complex numbers.
class ComplexKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& real = context.input(0);
    const Tensor& imag = context.input(1);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, BroadcastShapes(real.shape(), imag.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    Dims strides = RowMajorStrides(shape.dims());
    for (int64_t& s : strides) s *= 2;
    ContextParallel parallel(context);
    const auto size = static_cast<int64_t>(ElementSize(real.dtype()));
    char* to = static_cast<char*>(out->raw_data());
    for (const Tensor* part : {&real, &imag}) {
      cpu::CopyBox(part->raw_data(), BroadcastStrides(part->shape().dims(), shape.dims()), to, strides,
                   shape.dims(), size, parallel);
      to += size;
    }
    return Status();
  }
};

}  // namespace

cpu::UnaryOp UnaryOpOf(std::string_view op) {
  const auto* const row = std::ranges::find(kRows, op, &Row::op);
  return row == std::end(kRows) ? cpu::UnaryOp::kCount : row->routine;
}

void RegisterUnaryMathKernels(KernelRegistry& registry) {
  for (const Row& row : kRows) Register(registry, row);
  registry.Register<IntegerIdentityKernel>(KernelDef("Round").Types("T", IntegerTypes()));
  registry.Register<ComplexKernel>(
      KernelDef("Complex").Type("T", DataType::kFloat).Type("Tout", DataType::kComplex64));
  registry.Register<ComplexKernel>(
      KernelDef("Complex").Type("T", DataType::kDouble).Type("Tout", DataType::kComplex128));
}

}  // namespace millrace
