// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SparseAdd and its gradient, SparseSparseMaximum and Minimum, element-wise ops of sparse and dense tensors.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/sparse/util.h"

namespace millrace {
namespace {

// -1, 0 or 1 if the first of two indices is before, equal to, or after the second one.
inline int Compare(const int64_t* a, const int64_t* b, int rank) {
  for (int d = 0; d < rank; ++d) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

// The positions of the values of one index in two sparse tensors; -1 if one has none.
struct Pair {
  int64_t a, b;
};
struct Pairs {
  std::unique_ptr<Pair[]> pairs;
  int64_t size = 0;
  std::span<const Pair> all() const { return {pairs.get(), static_cast<size_t>(size)}; }
};

template <int kRank>
int64_t Merge(const SparseParts& a, const SparseParts& b, Pair* to) {
  const int rank = kRank > 0 ? kRank : a.rank();
  const int64_t *x = a.indices->data<int64_t>(), *y = b.indices->data<int64_t>();
  const Pair* const first = to;
  int64_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const int order = Compare(x, y, rank);
    const bool own = order <= 0, other = order >= 0;
    *to++ = {own ? i : -1, other ? j : -1};
    i += own ? 1 : 0;
    j += other ? 1 : 0;
    x += own ? rank : 0;
    y += other ? rank : 0;
  }
  for (; i < a.size(); ++i) *to++ = {i, -1};
  for (; j < b.size(); ++j) *to++ = {-1, j};
  return to - first;
}

// The union of the indices of two sorted lists, in order.
Pairs MergeIndices(const SparseParts& a, const SparseParts& b) {
  Pairs merged;
  merged.pairs = std::make_unique_for_overwrite<Pair[]>(static_cast<size_t>(a.size() + b.size()));
  merged.size = a.rank() == 2 ? Merge<2>(a, b, merged.pairs.get()) : Merge<0>(a, b, merged.pairs.get());
  return merged;
}

Status PutIndices(KernelContext& context, std::span<const Pair> pairs, const SparseParts& a,
                  const SparseParts& b) {
  const int rank = a.rank();
  MR_ASSIGN_OR_RETURN(Tensor* const out,
                      context.AllocateOutput(0, TensorShape({static_cast<int64_t>(pairs.size()), rank})));
  int64_t* to = out->data<int64_t>();
  for (const Pair& pair : pairs) {
    const int64_t* const index = pair.a >= 0 ? a.index(pair.a) : b.index(pair.b);
    for (int d = 0; d < rank; ++d) *to++ = index[d];
  }
  return Status();
}

// Two sparse tensors of the same dense shape: inputs 0 to 5.
Status ReadOperands(const KernelContext& context, SparseParts* a, SparseParts* b) {
  MR_ASSIGN_OR_RETURN(*a, ReadSparse(context.input(0), context.input(1), context.input(2)));
  MR_ASSIGN_OR_RETURN(*b, ReadSparse(context.input(3), context.input(4), context.input(5)));
  if (a->rank() != b->rank()) {
    return errors::InvalidArgument("Operands do not have the same ranks; got shapes: ",
                                   IndexListText(a->shape), " and ", IndexListText(b->shape));
  }
  for (size_t d = 0; d < a->shape.size(); ++d) {
    if (a->shape[d] == b->shape[d]) continue;
    return errors::InvalidArgument("Operands' shapes do not match: got ", a->shape[d], " and ", b->shape[d],
                                   " for dimension ", d);
  }
  return Status();
}

template <typename T>
double Magnitude(const T& value) {
  if constexpr (kIsComplex<T>) {
    return std::abs(value);
  } else if constexpr (kIsSmallFloat<T>) {
    return std::abs(static_cast<double>(static_cast<float>(value)));
  } else {
    return std::abs(static_cast<double>(value));
  }
}

class SparseAddKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    SparseParts a, b;
    MR_RETURN_IF_ERROR(ReadOperands(context, &a, &b));
    const Tensor& threshold = context.input(6);
    if (!threshold.shape().IsScalar()) {
      return errors::InvalidArgument("The magnitude threshold must be a scalar: got shape ",
                                     threshold.shape());
    }
    const double least = VisitReal(threshold.dtype(), 0.0, [&]<typename T>() {
      if constexpr (kIsSmallFloat<T>) {
        return static_cast<double>(static_cast<float>(threshold.scalar<T>()));
      } else {
        return static_cast<double>(threshold.scalar<T>());
      }
    });
    context.set_output(2, context.input(2));
    return VisitNumber(
        a.values->dtype(), NoSuchType(context, a.values->dtype()), [&]<typename T>() -> Status {
          const T* const x = a.values->data<T>();
          const T* const y = b.values->data<T>();
          Pairs merged = MergeIndices(a, b);
          const auto values = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(merged.size));
          int64_t kept = 0;
          for (const Pair pair : merged.all()) {
            T value = pair.a >= 0 ? x[pair.a] : y[pair.b];
            bool keep = true;
            if (pair.a >= 0 && pair.b >= 0) {
              value = Plus(value, y[pair.b]);
              keep = least <= Magnitude(value);  // only sums may be below the threshold
            }
            values[static_cast<size_t>(kept)] = value;
            merged.pairs[static_cast<size_t>(kept)] = pair;
            kept += keep ? 1 : 0;
          }
          merged.size = kept;
          MR_RETURN_IF_ERROR(PutIndices(context, merged.all(), a, b));
          MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(1, TensorShape({kept})));
          std::copy_n(values.get(), kept, out->data<T>());
          return Status();
        });
  }
};

// Each value of an operand gets the gradient of the sum at its index, or 0 if the sum was dropped.
class SparseAddGradKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& grad = context.input(0);
    const Tensor& sums = context.input(3);
    for (int i = 1; i <= 3; ++i) {
      if (context.input(i).shape().IsMatrix()) continue;
      return errors::InvalidArgument("Input indices should be matrices but received shape ",
                                     context.input(i).shape());
    }
    if (!grad.shape().IsVector()) {
      return errors::InvalidArgument("Input backprop_val_grad should be a vector but received shape: ",
                                     grad.shape());
    }
    for (int i = 1; i <= 2; ++i) {
      if (context.input(i).dim(1) == sums.dim(1)) continue;
      return errors::InvalidArgument(
          "The densified operands should have the same ndims; for A, B, and the sum got: ",
          context.input(1).dim(1), ", ", context.input(2).dim(1), " and ", sums.dim(1));
    }
    if (grad.dim(0) != sums.dim(0)) {
      return errors::InvalidArgument(
          "# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): got ",
          grad.dim(0), " and ", sums.dim(0));
    }
    for (int i = 1; i <= 2; ++i) {
      MR_ASSIGN_OR_RETURN(Tensor* const out,
                          context.AllocateOutput(i - 1, TensorShape({context.input(i).dim(0)})));
      const Status put = VisitNumber(grad.dtype(), NoSuchType(context, grad.dtype()), [&]<typename T>() {
        const auto fn = sums.dim(1) == 2 ? Put<2, T> : Put<0, T>;
        fn(context.input(i), sums, grad, out->data<T>());
        return Status();
      });
      MR_RETURN_IF_ERROR(put);
    }
    return Status();
  }

 private:
  template <int kRank, typename T>
  static void Put(const Tensor& indices, const Tensor& sums, const Tensor& grad, T* to) {
    const int rank = kRank > 0 ? kRank : static_cast<int>(indices.dim(1));
    const int64_t* own = indices.data<int64_t>();
    const int64_t* of_sum = sums.data<int64_t>();
    const T* value = grad.data<T>();
    const T* const end = value + sums.dim(0);
    for (int64_t i = 0; i < indices.dim(0); ++i, own += rank) {
      int order = 1;
      for (; value < end && (order = Compare(of_sum, own, rank)) < 0; of_sum += rank) ++value;
      to[i] = value < end && order == 0 ? *value : T(0.0f);
    }
  }
};

// A value that only one of them has is combined with 0.
template <bool kMax>
class SparseExtremumKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    SparseParts a, b;
    MR_RETURN_IF_ERROR(ReadOperands(context, &a, &b));
    const Pairs pairs = MergeIndices(a, b);
    MR_RETURN_IF_ERROR(PutIndices(context, pairs.all(), a, b));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(1, TensorShape({pairs.size})));
    return VisitReal(a.values->dtype(), NoSuchType(context, a.values->dtype()), [&]<typename T>() {
      T* to = out->data<T>();
      for (const Pair& pair : pairs.all()) {
        const T x = pair.a >= 0 ? a.values->data<T>()[pair.a] : T(0.0f);
        const T y = pair.b >= 0 ? b.values->data<T>()[pair.b] : T(0.0f);
        *to++ = LessThan(x, y) == kMax ? y : x;
      }
      return Status();
    });
  }
};

enum class Cwise { kAdd, kMul, kDiv };

template <typename T>
bool Apply(Cwise op, const T& x, const T& y, T* z) {
  switch (op) {
    case Cwise::kAdd:
      *z = Plus(x, y);
      return true;
    case Cwise::kMul:
      *z = Times(x, y);
      return true;
    case Cwise::kDiv:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (y == 0) return false;
    // The lowest number divided by -1 wraps.
    *z = std::is_signed_v<T> && y == static_cast<T>(-1) ? Minus(T(0), x) : static_cast<T>(x / y);
  } else {
    *z = static_cast<T>(static_cast<ComputeType<T>>(x) / static_cast<ComputeType<T>>(y));
  }
  return true;
}

// Combines the values of a sparse tensor with those of a dense one, which is broadcast to it.
template <Cwise kOp>
class SparseDenseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    const Tensor& dense = context.input(3);
    MR_RETURN_IF_ERROR(CheckInBounds(sparse));
    // The stride is 0 in dimensions in which the dense tensor is broadcast.
    std::vector<int64_t> strides(static_cast<size_t>(sparse.rank()), 0);
    bool fits = dense.rank() <= sparse.rank();
    int64_t stride = 1;
    for (int d = dense.rank() - 1; d >= 0 && fits; --d) {
      const auto of_sparse = static_cast<size_t>(sparse.rank() - dense.rank() + d);
      fits = dense.dim(d) == 1 || dense.dim(d) == sparse.shape[of_sparse];
      strides[of_sparse] = dense.dim(d) == 1 ? 0 : stride;
      stride *= dense.dim(d);
    }
    if (!fits) {
      return errors::InvalidArgument(
          "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: ",
          IndexListText(sparse.shape), " vs. ", dense.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape({sparse.size()})));
    return VisitNumber(dense.dtype(), NoSuchType(context, dense.dtype()), [&]<typename T>() {
      const auto run = strides.size() == 2 ? Run<2, T> : Run<0, T>;
      if (run(sparse, strides, dense.data<T>(), out->data<T>())) return Status();
      return errors::InvalidArgument("Integer division by zero");
    });
  }

 private:
  // False if an integer is divided by zero.
  template <size_t kRank, typename T>
  static bool Run(const SparseParts& sparse, std::span<const int64_t> strides, const T* dense, T* to) {
    const size_t rank = kRank > 0 ? kRank : strides.size();
    const int64_t *const index = sparse.indices->data<int64_t>(), *const stride = strides.data();
    const T* const x = sparse.values->data<T>();
    const auto size = static_cast<size_t>(sparse.size());
    for (size_t i = 0; i < size; ++i) {
      int64_t place = 0;
      for (size_t d = 0; d < rank; ++d) place += index[i * rank + d] * stride[d];
      if (!Apply(kOp, x[i], dense[place], to + i)) return false;
    }
    return true;
  }
};

class SparseTensorDenseAddKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(1);
    const Tensor& shape = context.input(2);
    const Tensor& dense = context.input(3);
    MR_RETURN_IF_ERROR(CheckShapes(indices, values, shape, dense));
    std::vector<int64_t> places(static_cast<size_t>(values.dim(0)));
    MR_RETURN_IF_ERROR(indices.dtype() == DataType::kInt32
                           ? FindPlaces(indices.data<int32_t>(), dense.shape(), &places)
                           : FindPlaces(indices.data<int64_t>(), dense.shape(), &places));
    const DataType dtype = dense.dtype();
    const int64_t size = dense.num_elements();
    const TensorShape dense_shape = dense.shape();
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.ForwardInputOrAllocateOutput({3}, 0, dense_shape));
    return VisitNumber(dtype, NoSuchType(context, dtype), [&]<typename T>() {
      T* const to = out->data<T>();
      const T* const from = context.input(3).data<T>();  // may have become the output
      if (size > 0 && to != from) std::copy_n(from, size, to);
      const T* const added = values.data<T>();
      for (size_t i = 0; i < places.size(); ++i) to[places[i]] = Plus(to[places[i]], added[i]);
      return Status();
    });
  }

 private:
  template <typename Index>
  static Status FindPlaces(const Index* indices, const TensorShape& dense, std::vector<int64_t>* places) {
    const std::span<const int64_t> dims = dense.dims();
    const int rank = dense.rank();
    for (int64_t& place : *places) {
      place = 0;
      for (int d = 0; d < rank; ++d) {
        const int64_t at = *indices++, size = dims[static_cast<size_t>(d)];
        if (at < 0 || at >= size) {
          return errors::InvalidArgument("Sparse tensor has some invalid index on dimension ", d,
                                         ": dense side dimension is ", size, " but the index is ", at);
        }
        place = place * size + at;
      }
    }
    return Status();
  }

  static Status CheckShapes(const Tensor& indices, const Tensor& values, const Tensor& shape,
                            const Tensor& dense) {
    if (!indices.shape().IsMatrix()) {
      return errors::InvalidArgument("Input a_indices should be a matrix but received shape: ",
                                     indices.shape());
    }
    if (!values.shape().IsVector() || !shape.shape().IsVector()) {
      return errors::InvalidArgument("Inputs a_values and a_shape should be vectors but received shapes: ",
                                     values.shape(), " and ", shape.shape());
    }
    if (indices.dim(0) != values.dim(0) || indices.dim(1) != shape.dim(0)) {
      return errors::InvalidArgument("Indices of shape ", indices.shape(), " do not fit ", values.dim(0),
                                     " values of ", shape.dim(0), " dimensions");
    }
    if (shape.dim(0) != dense.rank()) {
      return errors::InvalidArgument("Two operands have different ranks; received: ", shape.dim(0), " and ",
                                     dense.rank());
    }
    for (int d = 0; d < dense.rank(); ++d) {
      if (IntValue(shape, d) == dense.dim(d)) continue;
      return errors::InvalidArgument("Dimension ", d,
                                     " does not equal (no broadcasting is supported): sparse side ",
                                     IntValue(shape, d), " vs dense side ", dense.dim(d));
    }
    return Status();
  }
};

// The source positions of a slice's values.
class SparseSliceGradKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& grad = context.input(0);
    const Tensor& indices = context.input(1);
    const Tensor& start = context.input(2);
    const Tensor& taken = context.input(3);
    if (!indices.shape().IsMatrix() || !taken.shape().IsMatrix()) {
      return errors::InvalidArgument(
          "Input indices should be matrices but received shapes: ", indices.shape(), " and ", taken.shape());
    }
    if (!grad.shape().IsVector()) {
      return errors::InvalidArgument("Input backprop_val_grad should be a vector but received shape: ",
                                     grad.shape());
    }
    if (!start.shape().IsVector()) {
      return errors::InvalidArgument("The input_start should be a vector but received shape ", start.shape());
    }
    const int64_t rank = indices.dim(1);
    if (taken.dim(1) != rank) {
      return errors::InvalidArgument("The input and output should have the same ndims: got: ", rank, " and ",
                                     taken.dim(1));
    }
    if (taken.dim(0) > indices.dim(0)) {
      return errors::InvalidArgument(
          "# rows of output_indices should be not greater than of input_indices, got ", taken.dim(0), " and ",
          indices.dim(0));
    }
    if (grad.dim(0) != taken.dim(0)) {
      return errors::InvalidArgument(
          "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): got ",
          grad.dim(0), " and ", taken.dim(0));
    }
    if (start.dim(0) != rank) {
      return errors::InvalidArgument("The input_start has ", start.dim(0), " elements, the indices have ",
                                     rank);
    }
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape({indices.dim(0)})));
    const int64_t* const first = start.data<int64_t>();
    return VisitNumber(grad.dtype(), NoSuchType(context, grad.dtype()), [&]<typename T>() -> Status {
      const auto put = rank == 2 ? Put<2, T> : Put<0, T>;
      const int64_t used = put(indices, first, taken, grad.data<T>(), out->data<T>());
      if (used == grad.dim(0)) return Status();
      return errors::Internal("Elements of backprop_val_grad aren't all propagated. Num elements:",
                              grad.dim(0), ", used: ", used);
    });
  }

 private:
  // Returns how many gradients have been put to their indices.
  template <int kRank, typename T>
  static int64_t Put(const Tensor& indices, const int64_t* first, const Tensor& taken, const T* grad, T* to) {
    const int64_t rank = kRank > 0 ? kRank : indices.dim(1), count = indices.dim(0), most = taken.dim(0);
    const int64_t *index = indices.data<int64_t>(), *of_taken = taken.data<int64_t>();
    int64_t used = 0;
    for (int64_t i = 0; i < count; ++i, index += rank) {
      bool same = used < most;
      for (int64_t d = 0; d < rank && same; ++d) {
        // Wraps instead of overflowing.
        same = static_cast<uint64_t>(index[d]) - static_cast<uint64_t>(first[d]) ==
               static_cast<uint64_t>(of_taken[d]);
      }
      to[i] = same ? grad[used] : T(0.0f);
      used += same ? 1 : 0;
      of_taken += same ? rank : 0;
    }
    return used;
  }
};

}  // namespace

void RegisterSparseMathKernels(KernelRegistry& registry) {
  registry.Register<SparseAddKernel>(KernelDef("SparseAdd").Types("T", NumberTypes()));
  registry.Register<SparseAddGradKernel>(KernelDef("SparseAddGrad").Types("T", NumberTypes()));
  registry.Register<SparseExtremumKernel<true>>(KernelDef("SparseSparseMaximum").Types("T", RealTypes()));
  registry.Register<SparseExtremumKernel<false>>(KernelDef("SparseSparseMinimum").Types("T", RealTypes()));
  registry.Register<SparseDenseKernel<Cwise::kAdd>>(
      KernelDef("SparseDenseCwiseAdd").Types("T", NumberTypes()));
  registry.Register<SparseDenseKernel<Cwise::kMul>>(
      KernelDef("SparseDenseCwiseMul").Types("T", NumberTypes()));
  registry.Register<SparseDenseKernel<Cwise::kDiv>>(
      KernelDef("SparseDenseCwiseDiv").Types("T", NumberTypes()));
  registry.Register<SparseTensorDenseAddKernel>(
      KernelDef("SparseTensorDenseAdd").Types("T", NumberTypes()).Types("Tindices", IndexTypes()));
  registry.Register<SparseSliceGradKernel>(KernelDef("SparseSliceGrad").Types("T", NumberTypes()));
}

}  // namespace millrace
