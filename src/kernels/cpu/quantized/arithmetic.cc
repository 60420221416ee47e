// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// QuantizedMatMul, QuantizedBiasAdd, QuantizedAdd, QuantizedMul, QuantizedRelu, QuantizedRelu6,
// QuantizedReluX and QuantizedConcat. Sums of products are of int32 and wrap.
#include <cstring>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/quantized/products.h"
#include "kernels/cpu/quantized/range.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

using quantized::Data;
using quantized::Range;

// The factors minus the integer that represents 0, in the order that products require.
std::vector<int32_t> Centred(const Tensor& t, int64_t zero, bool transpose) {
  const int64_t rows = t.dim(0), columns = t.dim(1);
  const auto offset = static_cast<uint32_t>(zero);
  std::vector<int32_t> out(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t to = transpose ? i % columns * rows + i / columns : i;
    out[static_cast<size_t>(to)] = static_cast<int32_t>(Data<uint8_t>(t)[i] - offset);
  }
  return out;
}

class MatMulKernel final : public OpKernel {
 public:
  explicit MatMulKernel(KernelConstruction& c)
      : OpKernel(c), transpose_a_(c.Attr<bool>("transpose_a")), transpose_b_(c.Attr<bool>("transpose_b")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    MR_ASSIGN_OR_RETURN(const Range a_range, quantized::ReadWideRange(context, 2, "a"));
    MR_ASSIGN_OR_RETURN(const Range b_range, quantized::ReadWideRange(context, 4, "b"));
    if (a.rank() != 2) return errors::InvalidArgument("In[0] is not a matrix");
    if (b.rank() != 2) return errors::InvalidArgument("In[1] is not a matrix");
    const int64_t m = a.dim(transpose_a_ ? 1 : 0), k = a.dim(transpose_a_ ? 0 : 1);
    const int64_t n = b.dim(transpose_b_ ? 0 : 1);
    if (k != b.dim(transpose_b_ ? 1 : 0)) {
      return errors::InvalidArgument("Matrix size-incompatible: In[0]: ", a.shape(), ", In[1]: ", b.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(Dims{m, n}));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() > 0) {
      const int64_t zero = quantized::ToSteps<uint8_t>(0, a_range);
      const quantized::RightFactor factor(Centred(b, quantized::ToSteps<uint8_t>(0, b_range), transpose_b_),
                                          k, n, quantized::LargestFrom<uint8_t>(zero));
      const bool in_parts = factor.exact() > 0 && !transpose_a_;
      const auto left = in_parts ? std::vector<int32_t>() : Centred(a, zero, transpose_a_);
      context.ParallelFor(m, 1 + k * n / 32, [&](int64_t begin, int64_t end) {
        int32_t* to = Data<int32_t>(out) + begin * n;
        if (in_parts) return RowParts(Data<uint8_t>(a) + begin * k, zero, end - begin, k, factor, to);
        const int64_t whole[] = {0};
        const quantized::Rows rows{.rows = end - begin, .step = k, .length = k, .runs = whole};
        if (factor.exact() > 0) {
          const std::vector<float> floats(left.begin() + begin * k, left.begin() + end * k);
          quantized::Products(floats.data(), rows, factor, to);
        } else {
          quantized::Products(left.data() + begin * k, rows, factor, to);
        }
      });
    }
    quantized::PutRange(context, quantized::ProductRange<uint8_t, uint8_t, int32_t>(a_range, b_range));
    return Status();
  }

 private:
  // As many rows at a time as fit in the cache as floats.
  static void RowParts(const uint8_t* a, int64_t zero, int64_t m, int64_t k,
                       const quantized::RightFactor& factor, int32_t* out) {
    const int64_t most = std::clamp<int64_t>(4096 / std::max<int64_t>(k, 1), 8, 64), whole[] = {0};
    std::vector<float> part(static_cast<size_t>(std::min(most, m) * k));
    for (int64_t r = 0; r < m; r += most, a += most * k, out += most * factor.columns()) {
      const int64_t count = std::min(most, m - r);
      MapLoop(a, part.data(), count * k, [offset = static_cast<uint32_t>(zero)](uint8_t x) MR_INLINE_LAMBDA {
        return static_cast<float>(static_cast<int32_t>(x - offset));
      });
      quantized::Products(part.data(), {.rows = count, .step = k, .length = k, .runs = whole}, factor, out);
    }
  }

  const bool transpose_a_, transpose_b_;
};

// Maps all integers of a type from one range to another, by a table.
template <typename T, typename To = int32_t>
class Table {
 public:
  static_assert(sizeof(T) == 1);
  Table(Range from, Range to) {
    RunLoop([values = values_, number = quantized::Numbers<T>(from),
             quantize = quantized::Quantizer<To>(to)]() MR_INLINE_LAMBDA {
      for (int i = 0; i < 256; ++i) values[i] = quantize(number(static_cast<T>(i + kLeast)));
    });
  }
  To At(T value) const { return values_[value - kLeast]; }

 private:
  static constexpr int kLeast = std::numeric_limits<T>::min();
  To values_[256];
};

template <typename T>
class BiasAddKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& bias = context.input(1);
    MR_ASSIGN_OR_RETURN(const Range in_range, quantized::ReadRange(context, 2));
    MR_ASSIGN_OR_RETURN(const Range bias_range, quantized::ReadRange(context, 4));
    if (in.rank() < 2) return errors::InvalidArgument("Input tensor must be at least 2D: ", in.shape());
    if (bias.rank() != 1) return errors::InvalidArgument("Biases must be 1D: ", bias.shape());
    if (bias.dim(0) != in.dim(in.rank() - 1)) {
      return errors::InvalidArgument(
          "Must provide as many biases as the last dimension of the input tensor: ", bias.shape(), " vs. ",
          in.shape());
    }
    const Range out_range = quantized::SumRange(in_range, bias_range);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    const Table<T> of_in(in_range, out_range), of_bias(bias_range, out_range);
    const int64_t depth = bias.dim(0);
    std::vector<int32_t> biases(static_cast<size_t>(depth));
    for (size_t c = 0; c < biases.size(); ++c) biases[c] = of_bias.At(Data<T>(bias)[c]);
    context.ParallelFor(depth == 0 ? 0 : in.num_elements() / depth, depth, [&](int64_t begin, int64_t end) {
      RunLoop([=, &of_in, add = biases.data(), first = Data<T>(in), sums = Data<int32_t>(out)]()
                  MR_INLINE_LAMBDA {
                    const T* from = first + begin * depth;
                    int32_t* to = sums + begin * depth;
                    for (int64_t r = begin; r < end; ++r, from += depth, to += depth) {
                      for (int64_t c = 0; c < depth; ++c) to[c] = Plus(of_in.At(from[c]), add[c]);
                    }
                  });
    });
    quantized::PutRange(context, out_range);
    return Status();
  }
};

// Element by element with broadcasting. Combine(x, y): the operation on two integers, and `range`, that of
// the result.
template <typename Combine>
class BinaryKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    MR_ASSIGN_OR_RETURN(const Range x_range, quantized::ReadWideRange(context, 2, "x"));
    MR_ASSIGN_OR_RETURN(const Range y_range, quantized::ReadWideRange(context, 4, "y"));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, BroadcastShapes(x.shape(), y.shape()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const Combine combine(x_range, y_range);
    const int64_t n = shape.num_elements();
    const uint8_t *const left = Data<uint8_t>(x), *const right = Data<uint8_t>(y);
    int32_t* const to = Data<int32_t>(out);
    // Rows of the last dimension, in which an operand advances or stays.
    const bool same = x.shape() == y.shape() || shape.rank() == 0;
    const int64_t row = same ? n : shape.dim(shape.rank() - 1);
    const Dims strides = RowMajorStrides(shape.dims());
    const Dims of_x = BroadcastStrides(x.shape().dims(), shape.dims());
    const Dims of_y = BroadcastStrides(y.shape().dims(), shape.dims());
    const auto run = [&](int64_t count, const uint8_t* a, int64_t a_step, const uint8_t* b, int64_t b_step,
                         int32_t* c) {
      RunLoop([&]() MR_INLINE_LAMBDA {
        if (a_step == 1 && b_step == 1) {
          for (int64_t i = 0; i < count; ++i) c[i] = combine(a[i], b[i]);
        } else {
          for (int64_t i = 0; i < count; ++i) c[i] = combine(a[i * a_step], b[i * b_step]);
        }
      });
    };
    if (same) {
      context.ParallelFor(n, 1, [&](int64_t begin, int64_t end) {
        run(end - begin, left + begin, 1, right + begin, 1, to + begin);
      });
    } else if (n > 0) {
      const int last = shape.rank() - 1;
      context.ParallelFor(n / row, 1 + row, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          int64_t x_at = 0, y_at = 0;
          for (int d = 0; d < last; ++d) {
            const int64_t place = r * row / strides[d] % shape.dim(d);
            x_at += place * of_x[d];
            y_at += place * of_y[d];
          }
          run(row, left + x_at, of_x[last], right + y_at, of_y[last], to + r * row);
        }
      });
    }
    quantized::PutRange(context, combine.range);
    return Status();
  }
};

struct AddIntegers {
  AddIntegers(Range x, Range y) : range(quantized::SumRange(x, y)), of_x(x, range), of_y(y, range) {}
  int32_t operator()(uint8_t a, uint8_t b) const { return Plus(of_x.At(a), of_y.At(b)); }
  Range range;
  Table<uint8_t> of_x, of_y;
};

struct MultiplyIntegers {
  MultiplyIntegers(Range x, Range y)
      : range(quantized::ProductRange<uint8_t, uint8_t, int32_t>(x, y)),
        x_zero(static_cast<uint32_t>(quantized::ToSteps<uint8_t>(0, x))),
        y_zero(static_cast<uint32_t>(quantized::ToSteps<uint8_t>(0, y))) {}
  int32_t operator()(uint8_t a, uint8_t b) const { return static_cast<int32_t>((a - x_zero) * (b - y_zero)); }
  Range range;
  uint32_t x_zero, y_zero;
};

// Relu clamps elements to at least the integer for 0, Relu6 also to at most that for 6.
template <typename T>
class ReluKernel final : public OpKernel {
 public:
  ReluKernel(KernelConstruction& c, float most) : OpKernel(c), most_(most) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 1));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    const T low = quantized::Quantized<T>(0, range);
    const T high =
        most_ > 0 ? std::max(low, quantized::Quantized<T>(most_, range)) : std::numeric_limits<T>::max();
    context.ParallelFor(in.num_elements(), 1, [&](int64_t begin, int64_t end) {
      MapLoop(Data<T>(in) + begin, Data<T>(out) + begin, end - begin, [low, high](T x) MR_INLINE_LAMBDA {
        const T above = x > low ? x : low;
        return above < high ? above : high;
      });
    });
    quantized::PutRange(context, range);
    return Status();
  }

 private:
  const float most_;  // 0: none
};

// Clamps elements between the integers for 0 and for the value of input 1.
template <typename T>
class ReluXKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_RETURN_IF_ERROR(RequireScalar(context.input(1), "max_value"));
    MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 2));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    const T low = quantized::Quantized<T>(0, range);
    const T high = std::max(low, quantized::Quantized<T>(context.input(1).scalar<float>(), range));
    context.ParallelFor(in.num_elements(), 1, [&](int64_t begin, int64_t end) {
      MapLoop(Data<T>(in) + begin, Data<T>(out) + begin, end - begin, [low, high](T x) MR_INLINE_LAMBDA {
        const T above = x > low ? x : low;
        return above < high ? above : high;
      });
    });
    quantized::PutRange(context, range);
    return Status();
  }
};

// Inputs: the dimension, N tensors, their N lower and their N upper ends.
template <typename T>
class ConcatKernel final : public OpKernel {
 public:
  explicit ConcatKernel(KernelConstruction& c) : OpKernel(c), n_(static_cast<int>(c.Attr<int64_t>("N"))) {}
  Status Compute(KernelContext& context) override {
    const Tensor& dim = context.input(0);
    if (!dim.shape().IsScalar()) {
      return errors::InvalidArgument("Concat dim tensor should be a scalar integer, but got shape ",
                                     dim.shape());
    }
    const Tensor& first = context.input(1);
    const int64_t axis = IntValue(dim) < 0 ? IntValue(dim) + first.rank() : IntValue(dim);
    if (axis < 0 || axis >= first.rank()) {
      return errors::InvalidArgument("ConcatOp : Expected concatenating dimensions in the range [",
                                     -first.rank(), ", ", first.rank(), "), but got ", IntValue(dim));
    }
    Dims dims;
    for (const int64_t size : first.shape().dims()) dims.push_back(size);
    Range all;
    for (int i = 0; i < n_; ++i) {
      MR_ASSIGN_OR_RETURN(const Range range, quantized::ReadRange(context, 1 + n_ + i, 1 + 2 * n_ + i));
      all = {i == 0 ? std::min(0.0f, range.min) : std::min(all.min, range.min),
             i == 0 ? range.max : std::max(all.max, range.max)};
      if (i > 0) MR_RETURN_IF_ERROR(AddSize(first, context.input(1 + i), i, static_cast<int>(axis), &dims));
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() > 0) Fill(context, all, static_cast<int>(axis), out);
    quantized::PutRange(context, all);
    return Status();
  }

 private:
  static Status AddSize(const Tensor& first, const Tensor& t, int i, int axis, Dims* dims) {
    bool fits = t.rank() == first.rank();
    for (int d = 0; fits && d < t.rank(); ++d) fits = d == axis || t.dim(d) == first.dim(d);
    if (!fits || __builtin_add_overflow((*dims)[axis], t.dim(axis), &(*dims)[axis])) {
      return errors::InvalidArgument("ConcatOp : Dimensions of inputs should match: shape[0] = ",
                                     first.shape(), " vs. shape[", i, "] = ", t.shape());
    }
    return Status();
  }

  void Fill(const KernelContext& context, Range all, int axis, Tensor* out) const {
    const int64_t outer = ProductOf(out->shape().dims(), 0, axis);
    const int64_t row = ProductOf(out->shape().dims(), axis, out->rank());
    int64_t begin = 0;
    for (int i = 0; i < n_; ++i) {
      const Tensor& in = context.input(1 + i);
      const Range range{context.input(1 + n_ + i).data<float>()[0],
                        context.input(1 + 2 * n_ + i).data<float>()[0]};
      const bool same = range.min == all.min && range.max == all.max;
      const int64_t part = ProductOf(in.shape().dims(), axis, in.rank());
      const T* from = Data<T>(in);
      T* to = Data<T>(out) + begin;
      for (int64_t k = 0; k < outer; ++k, from += part, to += row) {
        if (same) {
          if (part > 0) std::memcpy(to, from, static_cast<size_t>(part) * sizeof(T));
        } else {
          MapLoop(from, to, part,
                  [number = quantized::Numbers<T>(range), quantize = quantized::Quantizer<T>(all)](T value)
                      MR_INLINE_LAMBDA { return quantize(number(value)); });
        }
      }
      begin += part;
    }
  }

  const int n_;
};

}  // namespace

void RegisterQuantizedArithmeticKernels(KernelRegistry& registry) {
  constexpr DataType k8 = DataType::kQuint8, k32 = DataType::kQint32;
  const auto def = [&](const char* op, const char* result) {
    return KernelDef(op).Types("T1", {k8}).Types("T2", {k8}).Types(result, {k32});
  };
  registry.Register<MatMulKernel>(def("QuantizedMatMul", "Toutput"));
  registry.Register<BinaryKernel<AddIntegers>>(def("QuantizedAdd", "Toutput"));
  registry.Register<BinaryKernel<MultiplyIntegers>>(def("QuantizedMul", "Toutput"));
  registry.Register<BiasAddKernel<uint8_t>>(def("QuantizedBiasAdd", "out_type"));
  registry.Register<BiasAddKernel<int8_t>>(KernelDef("QuantizedBiasAdd")
                                               .Types("T1", {DataType::kQint8})
                                               .Types("T2", {DataType::kQint8})
                                               .Types("out_type", {k32}));
  for (const auto& [op, most] : {std::pair("QuantizedRelu", 0.0f), {"QuantizedRelu6", 6.0f}}) {
    registry.Register(
        KernelDef(op).Types("Tinput", {k8}).Types("out_type", {k8}),
        [most = most](KernelConstruction& c) { return std::make_unique<ReluKernel<uint8_t>>(c, most); });
    registry.Register(
        KernelDef(op).Types("Tinput", {k32}).Types("out_type", {k32}),
        [most = most](KernelConstruction& c) { return std::make_unique<ReluKernel<int32_t>>(c, most); });
  }
  registry.Register<ReluXKernel<uint8_t>>(
      KernelDef("QuantizedReluX").Types("Tinput", {k8}).Types("out_type", {k8}));
  registry.Register<ReluXKernel<int32_t>>(
      KernelDef("QuantizedReluX").Types("Tinput", {k32}).Types("out_type", {k32}));
  registry.Register<ConcatKernel<uint8_t>>(KernelDef("QuantizedConcat").Types("T", {k8}));
  registry.Register<ConcatKernel<int32_t>>(KernelDef("QuantizedConcat").Types("T", {k32}));
}

}  // namespace millrace
