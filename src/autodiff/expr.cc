// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "autodiff/expr.h"

#include <complex>
#include <limits>

#include "base/logging.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

// A tensor of `shape` with the given values in any type that arithmetic supports.
template <typename T>
Tensor Filled(const std::vector<T>& values, DataType dtype, const TensorShape& shape) {
  Tensor tensor(dtype, shape);
  if (!tensor.IsInitialized()) return tensor;
  const auto fill = [&]<typename To>(To*) {
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_arithmetic_v<To>) {
        tensor.data<To>()[i] = static_cast<To>(values[i]);
      } else {
        tensor.data<To>()[i] = To(static_cast<float>(values[i]));
      }
    }
  };
  switch (dtype) {
#define MR_FILL(Type, Cpp)            \
  case DataType::Type:                \
    fill(static_cast<Cpp*>(nullptr)); \
    break;
    MR_FILL(kFloat, float)
    MR_FILL(kDouble, double)
    MR_FILL(kHalf, half)
    MR_FILL(kBfloat16, bfloat16)
    MR_FILL(kInt32, int32_t)
    MR_FILL(kInt64, int64_t)
    MR_FILL(kInt16, int16_t)
    MR_FILL(kInt8, int8_t)
    MR_FILL(kUint8, uint8_t)
    MR_FILL(kUint16, uint16_t)
    MR_FILL(kUint32, uint32_t)
    MR_FILL(kUint64, uint64_t)
#undef MR_FILL
    case DataType::kComplex64:
      for (size_t i = 0; i < values.size(); ++i) tensor.data<complex64>()[i] = static_cast<float>(values[i]);
      break;
    case DataType::kComplex128:
      for (size_t i = 0; i < values.size(); ++i)
        tensor.data<complex128>()[i] = static_cast<double>(values[i]);
      break;
    default:
      return Tensor();
  }
  return tensor;
}

template <typename T>
Expr MakeConstant(GraphBuilder& builder, DataType dtype, const std::vector<T>& values,
                  const TensorShape& shape, std::string_view name) {
  if (!builder.status().ok()) return Expr(builder, {});
  Tensor tensor = Filled(values, dtype, shape);
  if (tensor.dtype() != dtype) {
    builder.Fail(errors::Internal("no constants of type ", dtype));
    return Expr(builder, {});
  }
  return Expr(builder, builder.Constant(std::move(tensor), name));
}

Expr Binary(std::string_view op, const Expr& a, const Expr& b) { return Op(op, {a, b}); }

}  // namespace

DataType Expr::dtype() const {
  return IsSet() ? BaseType(tensor_.node->output_type(tensor_.index)) : DataType::kInvalid;
}

PartialShape Expr::shape() const { return IsSet() ? builder_->ShapeOf(tensor_) : PartialShape(); }

Expr Expr::Sibling(int index) const {
  if (!IsSet()) return *this;
  return Expr(*builder_, {tensor_.node, index});
}

Expr Op(std::string_view op, std::initializer_list<Operand> operands, AttrMap attrs) {
  GraphBuilder* builder = nullptr;
  std::vector<InputArg> inputs;
  inputs.reserve(operands.size());
  for (const Operand& operand : operands) {
    InputArg& input = inputs.emplace_back();
    input.is_list = operand.is_list();
    for (const Expr& e : operand.exprs()) {
      if (builder == nullptr) builder = e.builder();
      input.tensors.push_back(e.output());
    }
  }
  MR_CHECK(builder != nullptr);
  return Expr(*builder, {builder->Add(op, std::move(inputs), std::move(attrs)), 0});
}

Expr Scalar(GraphBuilder& builder, DataType dtype, double value, std::string_view name) {
  return MakeConstant<double>(builder, dtype, {value}, TensorShape(), name);
}

Expr Vector(GraphBuilder& builder, DataType dtype, const std::vector<int64_t>& values,
            std::string_view name) {
  return MakeConstant<int64_t>(builder, dtype, values, TensorShape({static_cast<int64_t>(values.size())}),
                               name);
}

Expr ScalarLike(const Expr& like, double value) { return Scalar(*like.builder(), like.dtype(), value); }

Expr VectorLike(const Expr& like, const std::vector<int64_t>& values) {
  return Vector(*like.builder(), like.dtype(), values);
}

Expr operator+(const Expr& a, const Expr& b) { return Binary("Add", a, b); }
Expr operator-(const Expr& a, const Expr& b) { return Binary("Sub", a, b); }
Expr operator*(const Expr& a, const Expr& b) { return Binary("Mul", a, b); }
Expr operator/(const Expr& a, const Expr& b) {
  return Binary(IsIntegerType(a.dtype()) ? "FloorDiv" : "RealDiv", a, b);
}
Expr operator-(const Expr& a) { return Op("Neg", a); }
Expr operator+(const Expr& a, double b) { return a + ScalarLike(a, b); }
Expr operator+(double a, const Expr& b) { return ScalarLike(b, a) + b; }
Expr operator-(const Expr& a, double b) { return a - ScalarLike(a, b); }
Expr operator-(double a, const Expr& b) { return ScalarLike(b, a) - b; }
Expr operator*(double a, const Expr& b) { return ScalarLike(b, a) * b; }
Expr operator/(double a, const Expr& b) { return ScalarLike(b, a) / b; }

Expr Conj(const Expr& x) { return IsComplexType(x.dtype()) ? Op("Conj", x) : x; }

Expr CastTo(const Expr& x, DataType dtype) {
  return x.dtype() == dtype ? x : Op("Cast", {x}, {{"DstT", dtype}});
}

Expr ZerosLike(const Expr& x) { return Op("ZerosLike", x); }

Expr Where(const Expr& condition, const Expr& a, const Expr& b) { return Op("Select", {condition, a, b}); }

Expr ShapeOf(const Expr& x, DataType dtype) {
  const PartialShape shape = x.shape();
  if (shape.IsFullyDefined()) {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    bool fits = true;
    for (const int64_t dim : dims) fits = fits && dim <= std::numeric_limits<int32_t>::max();
    if (fits || dtype == DataType::kInt64) return Vector(*x.builder(), dtype, dims);
  }
  return Op("Shape", {x}, {{"out_type", dtype}});
}

Expr RankOf(const Expr& x, DataType dtype) {
  const PartialShape shape = x.shape();
  if (!shape.unknown_rank()) return Scalar(*x.builder(), dtype, shape.rank());
  return CastTo(Op("Rank", x), dtype);
}

Expr ReshapeLike(const Expr& x, const Expr& like) {
  const PartialShape shape = like.shape();
  if (shape.IsFullyDefined() && x.shape() == shape) return x;
  return Reshape(x, ShapeOf(like));
}

Expr Reshape(const Expr& x, const Expr& shape) { return Op("Reshape", {x, shape}); }

Expr ExpandDims(const Expr& x, int axis) {
  return Op("ExpandDims", {x, Scalar(*x.builder(), DataType::kInt32, axis)});
}

Expr Transpose(const Expr& x, const Expr& perm) { return Op("Transpose", {x, perm}); }

Expr JoinVectors(const std::vector<Expr>& parts) {
  std::vector<Expr> vectors;
  vectors.reserve(parts.size());
  for (const Expr& part : parts) {
    vectors.push_back(
        part.shape().rank() == 1 ? part : Reshape(part, Vector(*part.builder(), DataType::kInt32, {-1})));
  }
  if (vectors.size() == 1) return vectors[0];
  const Expr axis = Scalar(*vectors[0].builder(), DataType::kInt32, 0);
  return Op("ConcatV2", {vectors, axis});
}

Expr GatherRows(const Expr& params, const Expr& indices) { return Op("Gather", {params, indices}); }

Expr Fill(const Expr& shape, const Expr& value) { return Op("Fill", {shape, value}); }

Expr Sum(const Expr& x, const Expr& axes, bool keep_dims) {
  return Op("Sum", {x, axes}, {{"keep_dims", keep_dims}});
}

StatusOr<std::vector<int64_t>> StaticIntegers(const Expr& x) {
  if (!x.IsSet()) return errors::InvalidArgument("no tensor");
  MR_ASSIGN_OR_RETURN(const Tensor value, x.builder()->ValueOf(x.output()));
  return IntegerValues(value);
}

}  // namespace millrace
