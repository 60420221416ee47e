// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Einsum: permutes each operand to the order (shared and kept, own, summed), multiplies matrices, and
// permutes the products to the order of the output.
#include <algorithm>
#include <map>
#include <string>

#include "kernels/cpu/contract/gemm.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/nn/util.h"
#include "kernels/cpu/vector/transpose.h"
#include "op/einsum_equation.h"

namespace millrace {
namespace {

using Labels = std::vector<int>;

bool Has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor with a label, a size and a stride for each of its axes. Labels differ.
struct Operand {
  Tensor tensor;
  Labels labels;
  Dims sizes, strides;

  int64_t SizeOf(const Labels& of) const {
    int64_t size = 1;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (Has(of, labels[i])) size *= sizes[static_cast<uint32_t>(i)];
    }
    return size;
  }
  // Permutes sizes and strides to another order of the labels.
  void Reorder(const Labels& order) {
    Dims new_sizes, new_strides;
    for (const int label : order) {
      const auto i = static_cast<uint32_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
      new_sizes.push_back(sizes[i]);
      new_strides.push_back(strides[i]);
    }
    labels = order;
    sizes = new_sizes;
    strides = new_strides;
  }
  bool IsDense() const {
    const Dims dense = RowMajorStrides(sizes);
    for (uint32_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] != 1 && strides[i] != dense[i]) return false;
    }
    return tensor.num_elements() == ProductOf(sizes, 0, static_cast<int>(sizes.size()));
  }
};

// Axes with the same label become one, along the diagonal. Sizes of 1 that are repeated according to `sizes`
// are omitted.
Operand MakeOperand(const Tensor& tensor, const Labels& labels, const std::map<int, int64_t>& sizes) {
  Operand out{tensor, {}, {}, {}};
  const Dims strides = RowMajorStrides(tensor.shape().dims());
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t size = tensor.dim(static_cast<int>(i));
    const int64_t stride = strides[static_cast<uint32_t>(i)];
    const auto at = std::find(out.labels.begin(), out.labels.end(), labels[i]);
    if (at != out.labels.end()) {
      out.strides[static_cast<uint32_t>(at - out.labels.begin())] += stride;
    } else if (size == sizes.at(labels[i])) {
      out.labels.push_back(labels[i]);
      out.sizes.push_back(size);
      out.strides.push_back(stride);
    }
  }
  return out;
}

// Copies the elements to the order of the labels, unless they are already dense.
Status Pack(KernelContext& context, Operand* x) {
  if (x->IsDense()) return Status();
  MR_ASSIGN_OR_RETURN(Tensor packed, context.AllocateTemp(x->tensor.dtype(), TensorShape(x->sizes)));
  ContextParallel parallel(context);
  const Dims dense = RowMajorStrides(x->sizes);
  cpu::CopyBox(x->tensor.raw_data(), x->strides, packed.raw_data(), dense, x->sizes,
               static_cast<int64_t>(ElementSize(packed.dtype())), parallel);
  x->tensor = std::move(packed);
  x->strides = dense;
  return Status();
}

// Calls fn with the type for computing.
template <typename Fn>
Status VisitType(KernelContext& context, DataType dtype, Fn fn) {
  switch (dtype) {
    case DataType::kFloat:
      return fn.template operator()<float>();
    case DataType::kDouble:
      return fn.template operator()<double>();
    case DataType::kInt32:
      return fn.template operator()<int32_t>();
    case DataType::kInt64:
      return fn.template operator()<int64_t>();
    case DataType::kComplex64:
      return fn.template operator()<complex64>();
    case DataType::kComplex128:
      return fn.template operator()<complex128>();
    default:
      return NoSuchType(context, dtype);
  }
}

// Sums over the labels that are neither in `kept` nor in `other`.
Status SumUnsharedLabels(KernelContext& context, const Labels& kept, const Labels& other, Operand* x) {
  Labels order, lonely;
  for (const int label : x->labels) (Has(kept, label) || Has(other, label) ? order : lonely).push_back(label);
  if (lonely.empty()) return Status();
  const int64_t row = x->SizeOf(lonely);
  const auto rest = static_cast<uint32_t>(order.size());
  order.insert(order.end(), lonely.begin(), lonely.end());
  x->Reorder(order);
  MR_RETURN_IF_ERROR(Pack(context, x));
  x->labels.resize(rest);
  x->sizes.resize(rest);
  MR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemp(x->tensor.dtype(), TensorShape(x->sizes)));
  MR_RETURN_IF_ERROR(VisitType(context, sums.dtype(), [&]<typename T>() {
    context.ParallelFor(sums.num_elements(), row, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* from = x->tensor.data<T>() + i * row;
        T sum = T(0);
        for (int64_t j = 0; j < row; ++j) sum = Plus(sum, from[j]);
        sums.data<T>()[i] = sum;
      }
    });
    return Status();
  }));
  x->tensor = std::move(sums);
  x->strides = RowMajorStrides(x->sizes);
  return Status();
}

template <typename T>
void Multiply(const cpu::GemmShape& shape, const T* a, const T* b, T* c, cpu::Parallel& parallel) {
  if constexpr (std::is_floating_point_v<T>) {
    cpu::Gemm(shape, a, b, c, parallel);
  } else {
    cpu::GemmGeneric(shape, a, b, c, parallel);
  }
}

Labels Joined(const Labels& a, const Labels& b, const Labels& c) {
  Labels out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

// Permutes the operand to (batch, inner, outer) if it is stored so, else to (batch, outer, inner). Returns
// whether it chose the first.
StatusOr<bool> Arrange(KernelContext& context, const Labels& batch, const Labels& outer, const Labels& inner,
                       Operand* x) {
  x->Reorder(Joined(batch, inner, outer));
  const bool swapped = x->IsDense();
  if (!swapped) x->Reorder(Joined(batch, outer, inner));
  MR_RETURN_IF_ERROR(Pack(context, x));
  return swapped;
}

// The product, with the labels of the batch, those of only x, those of only y.
StatusOr<Operand> Contract(KernelContext& context, const Labels& kept, Operand x, Operand y) {
  Labels batch, sum, only_x, only_y;
  for (const int label : x.labels)
    (!Has(y.labels, label) ? only_x : Has(kept, label) ? batch : sum).push_back(label);
  for (const int label : y.labels) {
    if (!Has(x.labels, label)) only_y.push_back(label);
  }
  MR_ASSIGN_OR_RETURN(const bool trans_x, Arrange(context, batch, only_x, sum, &x));
  MR_ASSIGN_OR_RETURN(const bool plain_y, Arrange(context, batch, only_y, sum, &y));
  cpu::GemmShape shape;
  shape.m = x.SizeOf(only_x);
  shape.n = y.SizeOf(only_y);
  shape.k = x.SizeOf(sum);
  shape.trans_a = trans_x;
  shape.trans_b = !plain_y;
  const int64_t batches = x.SizeOf(batch);
  Operand out{{}, Joined(batch, only_x, only_y), {}, {}};
  TensorShape out_shape;
  for (const int label : out.labels) {
    const Operand& from = Has(x.labels, label) ? x : y;
    out.sizes.push_back(from.SizeOf({label}));
    MR_RETURN_IF_ERROR(out_shape.TryAddDim(out.sizes.back()));
  }
  out.strides = RowMajorStrides(out.sizes);
  MR_ASSIGN_OR_RETURN(out.tensor, context.AllocateTemp(x.tensor.dtype(), out_shape));
  MR_RETURN_IF_ERROR(VisitType(context, x.tensor.dtype(), [&]<typename T>() {
    const T *a = x.tensor.data<T>(), *b = y.tensor.data<T>();
    T* c = out.tensor.data<T>();
    const auto one = [&](int64_t i, cpu::Parallel& parallel) {
      Multiply(shape, a + i * shape.m * shape.k, b + i * shape.k * shape.n, c + i * shape.m * shape.n,
               parallel);
    };
    if (batches < 4) {
      ContextParallel within(context);
      for (int64_t i = 0; i < batches; ++i) one(i, within);
      return Status();
    }
    const double cost =
        static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) / 32;
    context.ParallelFor(batches, static_cast<int64_t>(std::min(cost, 1e12)) + 1,
                        [&](int64_t begin, int64_t end) {
                          cpu::SerialParallel serial;
                          for (int64_t i = begin; i < end; ++i) one(i, serial);
                        });
    return Status();
  }));
  return out;
}

class EinsumKernel final : public OpKernel {
 public:
  explicit EinsumKernel(KernelConstruction& c) : OpKernel(c) {
    const auto text = c.Attr<std::string>("equation");
    if (!c.status().ok()) return;
    auto parsed = ParseEinsum(text);
    if (!parsed.ok()) {
      c.SetError(parsed.status());
    } else if (static_cast<int>(parsed->inputs.size()) != num_inputs()) {
      c.SetError(errors::InvalidArgument("Expected ", parsed->inputs.size(), " inputs for the equation '",
                                         text, "' but got: ", num_inputs()));
    } else {
      equation_ = *std::move(parsed);
    }
  }

  Status Compute(KernelContext& context) override {
    std::vector<Labels> labels;
    std::map<int, int64_t> sizes;
    MR_RETURN_IF_ERROR(ReadSizes(context, &labels, &sizes));
    const Labels kept = EinsumOutputLabels(equation_.output, labels);
    TensorShape shape;
    for (const int label : kept) MR_RETURN_IF_ERROR(shape.TryAddDim(sizes.at(label)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return Status();
    if (std::any_of(sizes.begin(), sizes.end(), [](const auto& size) { return size.second == 0; })) {
      std::fill_n(static_cast<char*>(out->raw_data()),
                  static_cast<size_t>(out->num_elements()) * ElementSize(out->dtype()), char{0});
      return Status();
    }
    std::vector<Operand> operands;
    const bool small = out->dtype() == DataType::kHalf || out->dtype() == DataType::kBfloat16;
    for (int i = 0; i < num_inputs(); ++i) {
      Tensor x = context.input(i);
      if (small) {
        MR_ASSIGN_OR_RETURN(x, ToFloat(context, x));
      }
      operands.push_back(MakeOperand(x, labels[static_cast<size_t>(i)], sizes));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      const Labels other = operands.size() > 1 ? operands[1 - i].labels : Labels();
      MR_RETURN_IF_ERROR(SumUnsharedLabels(context, kept, other, &operands[i]));
    }
    Operand result = operands[0];
    if (operands.size() > 1) {
      MR_ASSIGN_OR_RETURN(result, Contract(context, kept, operands[0], operands[1]));
    }
    if (!small) return Put(context, result, kept, out);
    MR_ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemp(DataType::kFloat, shape));
    MR_RETURN_IF_ERROR(Put(context, result, kept, &wide));
    FromFloat(context, wide, out);
    return Status();
  }

 private:
  Status ReadSizes(const KernelContext& context, std::vector<Labels>* labels,
                   std::map<int, int64_t>* sizes) const {
    for (int i = 0; i < num_inputs(); ++i) {
      const Tensor& x = context.input(i);
      MR_ASSIGN_OR_RETURN(Labels of, EinsumLabels(equation_.inputs[static_cast<size_t>(i)], x.rank()));
      for (int axis = 0; axis < x.rank(); ++axis) {
        const int label = of[static_cast<size_t>(axis)];
        int64_t& size = sizes->emplace(label, x.dim(axis)).first->second;
        if (size == x.dim(axis)) continue;
        if (label >= kEllipsisLabel && (size == 1 || x.dim(axis) == 1)) {
          if (size == 1) size = x.dim(axis);
          continue;
        }
        return errors::InvalidArgument("Expected dimension ", size, " at axis ", axis,
                                       " of the input shaped ", x.shape(), " but got dimension ",
                                       x.dim(axis));
      }
      labels->push_back(std::move(of));
    }
    return Status();
  }

  // Writes the result along the axes of the output; repeated labels are a diagonal.
  static Status Put(KernelContext& context, const Operand& result, const Labels& kept, Tensor* out) {
    const Dims dense = RowMajorStrides(out->shape().dims());
    Dims strides;
    for (const int label : result.labels) {
      int64_t stride = 0;
      for (size_t i = 0; i < kept.size(); ++i) {
        if (kept[i] == label) stride += dense[static_cast<uint32_t>(i)];
      }
      strides.push_back(stride);
    }
    const auto size = static_cast<int64_t>(ElementSize(out->dtype()));
    if (result.labels.size() < kept.size()) {
      std::fill_n(static_cast<char*>(out->raw_data()), out->num_elements() * size, char{0});
    }
    ContextParallel parallel(context);
    cpu::CopyBox(result.tensor.raw_data(), result.strides, out->raw_data(), strides, result.sizes, size,
                 parallel);
    return Status();
  }

  EinsumEquation equation_;
};

}  // namespace

void RegisterEinsumKernels(KernelRegistry& registry) {
  registry.Register<EinsumKernel>(KernelDef("Einsum").Types(
      "T", {DataType::kBfloat16, DataType::kHalf, DataType::kFloat, DataType::kDouble, DataType::kInt32,
            DataType::kInt64, DataType::kComplex64, DataType::kComplex128}));
}

}  // namespace millrace
