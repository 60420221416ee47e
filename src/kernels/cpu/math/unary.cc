// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/unary.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/vector/transpose.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

// Below so many elements the loop runs on this thread without asking the pool.
constexpr int64_t kSmall = 4096;

template <cpu::UnaryOp kOp>
class UnaryKernel final : public OpKernel {
 public:
  explicit UnaryKernel(KernelConstruction& c)
      : OpKernel(c),
        fn_(cpu::FindUnary(kOp, input_type(0))),
        in_size_(static_cast<int64_t>(ElementSize(input_type(0)))),
        out_size_(static_cast<int64_t>(ElementSize(output_type(0)))),
        cost_ns_(cpu::UnaryCostNs(kOp, input_type(0))) {
    if (fn_ == nullptr || cpu::UnaryResultType(kOp, input_type(0)) != output_type(0)) {
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

// Registers `op` for each type that the routine has; `attr` is empty for ops of a fixed type.
template <cpu::UnaryOp kOp>
void Add(KernelRegistry& registry, const char* op, const char* attr = "T",
         const TypeList& types = Concat(NumberTypes(), {DataType::kBool})) {
  KernelDef def(op);
  if (*attr != '\0') {
    def.Types(attr, Filter(types, [](DataType t) { return cpu::FindUnary(kOp, t) != nullptr; }));
  }
  registry.Register<UnaryKernel<kOp>>(std::move(def));
}

// Rounding leaves integers as they are.
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

void RegisterUnaryMathKernels(KernelRegistry& registry) {
  using Op = cpu::UnaryOp;
  Add<Op::kAbs>(registry, "Abs", "T", RealTypes());
  Add<Op::kAbs>(registry, "ComplexAbs", "T", ComplexTypes());
  Add<Op::kNeg>(registry, "Neg");
  Add<Op::kSign>(registry, "Sign");
  Add<Op::kSquare>(registry, "Square");
  Add<Op::kSqrt>(registry, "Sqrt");
  Add<Op::kRsqrt>(registry, "Rsqrt");
  Add<Op::kReciprocal>(registry, "Inv");
  Add<Op::kReciprocal>(registry, "Reciprocal");
  Add<Op::kRound>(registry, "Round", "T", Concat(FloatTypes(), ComplexTypes()));
  registry.Register<IntegerIdentityKernel>(KernelDef("Round").Types("T", IntegerTypes()));
  Add<Op::kRint>(registry, "Rint");
  Add<Op::kFloor>(registry, "Floor");
  Add<Op::kCeil>(registry, "Ceil");
  Add<Op::kExp>(registry, "Exp");
  Add<Op::kExpm1>(registry, "Expm1");
  Add<Op::kLog>(registry, "Log");
  Add<Op::kLog1p>(registry, "Log1p");
  Add<Op::kTanh>(registry, "Tanh");
  Add<Op::kSigmoid>(registry, "Sigmoid");
  Add<Op::kErf>(registry, "Erf");
  Add<Op::kErfc>(registry, "Erfc");
  Add<Op::kLgamma>(registry, "Lgamma");
  Add<Op::kDigamma>(registry, "Digamma");
  Add<Op::kSin>(registry, "Sin");
  Add<Op::kCos>(registry, "Cos");
  Add<Op::kTan>(registry, "Tan");
  Add<Op::kAsin>(registry, "Asin");
  Add<Op::kAcos>(registry, "Acos");
  Add<Op::kAtan>(registry, "Atan");
  Add<Op::kSinh>(registry, "Sinh");
  Add<Op::kCosh>(registry, "Cosh");
  Add<Op::kAsinh>(registry, "Asinh");
  Add<Op::kAcosh>(registry, "Acosh");
  Add<Op::kAtanh>(registry, "Atanh");
  Add<Op::kBesselI0e>(registry, "BesselI0e");
  Add<Op::kBesselI1e>(registry, "BesselI1e");
  Add<Op::kInvert>(registry, "Invert");
  Add<Op::kPopulationCount>(registry, "PopulationCount");
  Add<Op::kRelu>(registry, "Relu", "T", RealTypes());
  Add<Op::kRelu6>(registry, "Relu6", "T", RealTypes());
  Add<Op::kElu>(registry, "Elu");
  Add<Op::kSelu>(registry, "Selu");
  Add<Op::kSoftplus>(registry, "Softplus");
  Add<Op::kSoftsign>(registry, "Softsign");
  Add<Op::kIsNan>(registry, "IsNan");
  Add<Op::kIsInf>(registry, "IsInf");
  Add<Op::kIsFinite>(registry, "IsFinite");
  Add<Op::kLogicalNot>(registry, "LogicalNot", "");
  Add<Op::kConj>(registry, "Conj", "T", ComplexTypes());
  Add<Op::kReal>(registry, "Real", "T", ComplexTypes());
  Add<Op::kImag>(registry, "Imag", "T", ComplexTypes());
  Add<Op::kAngle>(registry, "Angle", "T", ComplexTypes());
  registry.Register<ComplexKernel>(
      KernelDef("Complex").Type("T", DataType::kFloat).Type("Tout", DataType::kComplex64));
  registry.Register<ComplexKernel>(
      KernelDef("Complex").Type("T", DataType::kDouble).Type("Tout", DataType::kComplex128));
}

}  // namespace millrace
