// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sums and maxima of sparse tensors over some dimensions, and softmax over the last one.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sparse/util.h"
#include "kernels/cpu/vector/unary.h"

namespace millrace {
namespace {

// The remaining dimensions, in order.
StatusOr<std::vector<int>> KeptDims(const Tensor& axes, int rank) {
  if (axes.rank() > 1) {
    return errors::InvalidArgument(
        "Expected input reduction_axes to be a scalar or vector but received shape ", axes.shape());
  }
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  for (const int32_t axis : axes.flat<int32_t>()) {
    if (axis < -rank || axis >= rank) {
      return errors::InvalidArgument("Invalid reduction dimension ", axis, ", for input with ", rank,
                                     " dimensions.");
    }
    reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  std::vector<int> kept;
  for (int d = 0; d < rank; ++d) {
    if (!reduced[static_cast<size_t>(d)]) kept.push_back(d);
  }
  return kept;
}

// The sizes of the kept dimensions or, with `keep_dims`, 1 for the others.
std::vector<int64_t> OutputDims(const SparseParts& sparse, const std::vector<int>& kept, bool keep_dims) {
  std::vector<int64_t> dims(keep_dims ? sparse.shape.size() : kept.size(), 1);
  for (size_t k = 0; k < kept.size(); ++k) {
    dims[keep_dims ? static_cast<size_t>(kept[k]) : k] = sparse.shape[static_cast<size_t>(kept[k])];
  }
  return dims;
}

// The key of a group of values: their common index in the kept dimensions.
std::vector<int64_t> GroupIndices(const SparseParts& sparse, const std::vector<int>& kept) {
  std::vector<int64_t> groups(static_cast<size_t>(sparse.size()) * kept.size());
  for (size_t k = 0; k < kept.size(); ++k) {
    const int64_t* from = sparse.indices->data<int64_t>() + kept[k];
    for (size_t i = k; i < groups.size(); i += kept.size(), from += sparse.rank()) groups[i] = *from;
  }
  return groups;
}

template <bool kMax, typename T>
T Join(const T& a, const T& b) {
  if constexpr (kMax) {
    return LessThan(a, b) ? b : a;
  } else {
    return Plus(a, b);
  }
}

template <bool kMax, typename R, typename Fn>
R Visit(DataType dtype, R otherwise, Fn&& fn) {
  if constexpr (kMax) {
    return VisitReal(dtype, otherwise, std::forward<Fn>(fn));
  } else {
    return VisitNumber(dtype, otherwise, std::forward<Fn>(fn));
  }
}

template <bool kMax>
class SparseReduceKernel final : public OpKernel {
 public:
  explicit SparseReduceKernel(KernelConstruction& c) : OpKernel(c), keep_dims_(c.Attr<bool>("keep_dims")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    MR_ASSIGN_OR_RETURN(const std::vector<int> kept, KeptDims(context.input(3), sparse.rank()));
    MR_RETURN_IF_ERROR(CheckInBounds(sparse));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(OutputDims(sparse, kept, keep_dims_)));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    const Tensor& values = *sparse.values;
    return Visit<kMax>(values.dtype(), NoSuchType(context, values.dtype()), [&]<typename T>() {
      T* const to = out->data<T>();
      std::fill_n(to, out->num_elements(), T(0.0f));
      std::vector<bool> seen(static_cast<size_t>(out->num_elements()), false);
      for (int64_t i = 0; i < sparse.size(); ++i) {
        int64_t place = 0;
        for (const int d : kept) place = place * sparse.shape[static_cast<size_t>(d)] + sparse.index(i)[d];
        const T value = values.data<T>()[i];
        to[place] = seen[static_cast<size_t>(place)] ? Join<kMax>(to[place], value) : value;
        seen[static_cast<size_t>(place)] = true;
      }
      return Status();
    });
  }

 private:
  const bool keep_dims_;
};

template <bool kMax>
class SparseReduceSparseKernel final : public OpKernel {
 public:
  explicit SparseReduceSparseKernel(KernelConstruction& c)
      : OpKernel(c), keep_dims_(c.Attr<bool>("keep_dims")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    MR_ASSIGN_OR_RETURN(const std::vector<int> kept, KeptDims(context.input(3), sparse.rank()));
    MR_RETURN_IF_ERROR(CheckInBounds(sparse));
    const std::vector<int64_t> groups = GroupIndices(sparse, kept);
    const auto width = static_cast<int64_t>(kept.size());
    const std::vector<int64_t> order = SortedOrder(groups.data(), sparse.size(), static_cast<int>(width));
    const auto index = [&](int64_t i) { return groups.data() + i * width; };
    std::vector<int64_t> begins;  // in `order`, of each group
    for (size_t k = 0; k < order.size(); ++k) {
      if (k == 0 || !std::equal(index(order[k]), index(order[k]) + width, index(order[k - 1]))) {
        begins.push_back(static_cast<int64_t>(k));
      }
    }
    const auto count = static_cast<int64_t>(begins.size());
    const std::vector<int64_t> dims = OutputDims(sparse, kept, keep_dims_);
    const auto rank = static_cast<int64_t>(dims.size());
    MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({count, rank})));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(1, TensorShape({count})));
    MR_ASSIGN_OR_RETURN(Tensor* const shape, context.AllocateOutput(2, TensorShape({rank})));
    std::copy(dims.begin(), dims.end(), shape->data<int64_t>());
    int64_t* const to = indices->data<int64_t>();
    std::fill_n(to, count * rank, 0);
    for (int64_t g = 0; g < count; ++g) {
      for (int64_t k = 0; k < width; ++k) {
        const int64_t column = keep_dims_ ? kept[static_cast<size_t>(k)] : k;
        to[g * rank + column] = index(order[static_cast<size_t>(begins[static_cast<size_t>(g)])])[k];
      }
    }
    begins.push_back(sparse.size());
    const Tensor& values = *sparse.values;
    return Visit<kMax>(values.dtype(), NoSuchType(context, values.dtype()), [&]<typename T>() {
      for (size_t g = 0; g + 1 < begins.size(); ++g) {
        T value = values.data<T>()[order[static_cast<size_t>(begins[g])]];
        for (int64_t k = begins[g] + 1; k < begins[g + 1]; ++k) {
          value = Join<kMax>(value, values.data<T>()[order[static_cast<size_t>(k)]]);
        }
        out->data<T>()[g] = value;
      }
      return Status();
    });
  }

 private:
  const bool keep_dims_;
};

class SparseSoftmaxKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    if (sparse.rank() < 2) {
      return errors::InvalidArgument("Input should have rank >= 2, but received shape: ",
                                     IndexListText(sparse.shape));
    }
    std::vector<int64_t> order, begins;
    const bool sorted = sparse.rank() == 2 && FindRows(sparse, &begins);
    if (!sorted) SortRows(sparse, &order, &begins);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, sparse.values->shape()));
    if (sparse.size() == 0) return Status();
    return sparse.values->dtype() == DataType::kFloat
               ? Run<float>(context, *sparse.values, order, sorted, begins, out)
               : Run<double>(context, *sparse.values, order, sorted, begins, out);
  }

 private:
  // The starts of the rows of a matrix, and the number of its values. False if rows are not in order.
  static bool FindRows(const SparseParts& sparse, std::vector<int64_t>* begins) {
    const int64_t* const index = sparse.indices->data<int64_t>();
    const int64_t n = sparse.size();
    begins->resize(static_cast<size_t>(n) + 1);
    int64_t* const to = begins->data();
    size_t count = 0;
    bool ascending = true;
    for (int64_t i = 0; i < n; ++i) {
      to[count] = i;
      count += i == 0 || index[2 * i] != index[2 * i - 2] ? 1 : 0;
      ascending = ascending & (i == 0 || index[2 * i] >= index[2 * i - 2]);
    }
    begins->resize(count);
    begins->push_back(n);
    return ascending;
  }
  // The same for any indices, with an order that groups rows.
  static void SortRows(const SparseParts& sparse, std::vector<int64_t>* order, std::vector<int64_t>* begins) {
    std::vector<int> kept;
    for (int d = 0; d + 1 < sparse.rank(); ++d) kept.push_back(d);
    const std::vector<int64_t> rows = GroupIndices(sparse, kept);
    const auto width = static_cast<int64_t>(kept.size());
    *order = SortedOrder(rows.data(), sparse.size(), static_cast<int>(width));
    begins->clear();
    const int64_t* before = nullptr;
    for (int64_t i = 0; i < sparse.size(); ++i) {
      const int64_t* const row = rows.data() + (*order)[static_cast<size_t>(i)] * width;
      bool same = before != nullptr;
      for (int64_t d = 0; same && d < width; ++d) same = row[d] == before[d];
      if (!same) begins->push_back(i);
      before = row;
    }
    begins->push_back(sparse.size());
  }

  // Over the present values in each row of the last dimension.
  template <typename T>
  static Status Run(KernelContext& context, const Tensor& in, const std::vector<int64_t>& order, bool sorted,
                    const std::vector<int64_t>& begins, Tensor* out) {
    Tensor values = *out;
    const T* x = in.data<T>();
    if (!sorted) {
      MR_ASSIGN_OR_RETURN(values, context.AllocateTemp(in.dtype(), in.shape()));
      TakeRows(in.dtype(), x, order, 1, values.raw_data());
      x = values.data<T>();
    }
    T* const y = values.data<T>();
    RunLoop([=, &begins]() MR_INLINE_LAMBDA {
      for (size_t g = 0; g + 1 < begins.size(); ++g) {
        T largest = x[begins[g]];
        for (int64_t i = begins[g]; i < begins[g + 1]; ++i) largest = largest < x[i] ? x[i] : largest;
        for (int64_t i = begins[g]; i < begins[g + 1]; ++i) y[i] = x[i] - largest;
      }
    });
    cpu::FindUnary(cpu::UnaryOp::kExp, in.dtype())(y, y, in.num_elements());
    RunLoop([=, &begins]() MR_INLINE_LAMBDA {
      for (size_t g = 0; g + 1 < begins.size(); ++g) {
        T sum = 0;
        for (int64_t i = begins[g]; i < begins[g + 1]; ++i) sum += y[i];
        for (int64_t i = begins[g]; i < begins[g + 1]; ++i) y[i] /= sum;
      }
    });
    if (!sorted) PutRows(in.dtype(), y, order, 1, out->raw_data());
    return Status();
  }
};

}  // namespace

void RegisterSparseReduceKernels(KernelRegistry& registry) {
  registry.Register<SparseReduceKernel<false>>(KernelDef("SparseReduceSum").Types("T", NumberTypes()));
  registry.Register<SparseReduceKernel<true>>(KernelDef("SparseReduceMax").Types("T", RealTypes()));
  registry.Register<SparseReduceSparseKernel<false>>(
      KernelDef("SparseReduceSumSparse").Types("T", NumberTypes()));
  registry.Register<SparseReduceSparseKernel<true>>(
      KernelDef("SparseReduceMaxSparse").Types("T", RealTypes()));
  registry.Register<SparseSoftmaxKernel>(
      KernelDef("SparseSoftmax").Types("T", {DataType::kFloat, DataType::kDouble}));
}

}  // namespace millrace
