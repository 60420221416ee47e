// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SparseToDense, SparseReorder, SparseReshape, and code that the kernels of sparse tensors share.
#include <algorithm>
#include <numeric>

#include "kernels/cpu/contract/scratch.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sparse/index_text.h"
#include "kernels/cpu/sparse/util.h"

namespace millrace {

std::string IndexListText(std::span<const int64_t> index) { return StrCat("[", JoinInts(index), "]"); }

StatusOr<SparseParts> ReadSparse(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  if (!indices.shape().IsMatrix()) {
    return errors::InvalidArgument("Input indices should be a matrix but received shape ", indices.shape());
  }
  if (!values.shape().IsVector()) {
    return errors::InvalidArgument("Input values should be a vector but received shape ", values.shape());
  }
  if (!shape.shape().IsVector()) {
    return errors::InvalidArgument("Input shape should be a vector but received shape ", shape.shape());
  }
  if (indices.dim(0) != values.dim(0)) {
    return errors::InvalidArgument("Number of values must match first dimension of indices. Got ",
                                   values.dim(0), " values, indices shape: ", indices.shape());
  }
  if (indices.dim(1) != shape.dim(0)) {
    return errors::InvalidArgument("Number of dimensions must match second dimension of indices. Got ",
                                   shape.dim(0), " dimensions, indices shape: ", indices.shape());
  }
  for (const int64_t size : shape.flat<int64_t>()) {
    if (size < 0) return errors::InvalidArgument("Dimension ", size, " must be >= 0");
  }
  return SparseParts{&indices, &values, shape.flat<int64_t>()};
}

Status CheckInBounds(const SparseParts& sparse) {
  const int rank = sparse.rank();
  if (rank == 2) {  // without a branch for each number
    const int64_t* const indices = sparse.indices->data<int64_t>();
    const auto rows = static_cast<uint64_t>(sparse.shape[0]),
               columns = static_cast<uint64_t>(sparse.shape[1]);
    bool inside = true;
    for (int64_t i = 0; i < sparse.size(); ++i) {
      inside = inside & (static_cast<uint64_t>(indices[2 * i]) < rows) &
               (static_cast<uint64_t>(indices[2 * i + 1]) < columns);
    }
    if (inside) return Status();
  }
  for (int64_t i = 0; i < sparse.size(); ++i) {
    const int64_t* const index = sparse.index(i);
    for (int d = 0; d < rank; ++d) {
      if (index[d] >= 0 && index[d] < sparse.shape[d]) continue;
      return errors::InvalidArgument("indices[", i, "] = ", IndexListText({index, static_cast<size_t>(rank)}),
                                     " is out of bounds: need 0 <= index < ", IndexListText(sparse.shape));
    }
  }
  return Status();
}

namespace {

struct Keyed {
  int64_t key, place;
};

// Sets a number for each index that keeps their order: its offset in the box that contains them all. False if
// the box is too large.
bool FindKeys(const int64_t* indices, int64_t n, int rank, Keyed* keys) {
  std::vector<int64_t> first(indices, indices + rank), last = first;
  for (int64_t i = 1; i < n; ++i) {
    for (int d = 0; d < rank; ++d) {
      const auto side = static_cast<size_t>(d);
      first[side] = std::min(first[side], indices[i * rank + d]);
      last[side] = std::max(last[side], indices[i * rank + d]);
    }
  }
  int64_t places = 1;
  for (size_t d = 0; d < first.size(); ++d) {
    int64_t size = 0;
    if (__builtin_sub_overflow(last[d], first[d], &size) || __builtin_add_overflow(size, 1, &size) ||
        __builtin_mul_overflow(places, size, &places)) {
      return false;
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t key = 0;
    for (int d = 0; d < rank; ++d) {
      const auto side = static_cast<size_t>(d);
      key = key * (last[side] - first[side] + 1) + (indices[i * rank + d] - first[side]);
    }
    keys[i] = {key, i};
  }
  return true;
}

// Merges ascending runs pair by pair; of equal keys the earlier comes first. The result is in `keys` or in
// `other`, which have the same length.
const Keyed* SortRuns(Keyed* keys, Keyed* other, int64_t n) {
  std::vector<int64_t> ends;
  for (int64_t i = 1; i < n; ++i) {
    if (keys[i].key < keys[i - 1].key) ends.push_back(i);
  }
  ends.push_back(n);
  while (ends.size() > 1) {
    std::vector<int64_t> longer;
    int64_t begin = 0;
    for (size_t r = 0; r < ends.size(); r += 2) {
      const int64_t middle = ends[r], end = r + 1 < ends.size() ? ends[r + 1] : middle;
      const Keyed *x = keys + begin, *y = keys + middle;
      const Keyed *const x_end = y, *const y_end = keys + end;
      Keyed* to = other + begin;
      while (x < x_end && y < y_end) {
        const bool later = y->key < x->key;  // without a branch, which would be mispredicted
        *to++ = later ? *y : *x;
        y += later ? 1 : 0;
        x += later ? 0 : 1;
      }
      std::copy(y, y_end, std::copy(x, x_end, to));
      longer.push_back(end);
      begin = end;
    }
    std::swap(keys, other);
    ends.swap(longer);
  }
  return keys;
}

}  // namespace

std::vector<int64_t> SortedOrder(const int64_t* indices, int64_t n, int rank) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto less = [&](int64_t a, int64_t b) {
    const int64_t *x = indices + a * rank, *y = indices + b * rank;
    return std::lexicographical_compare(x, x + rank, y, y + rank);
  };
  bool sorted = true;
  if (rank == 1) {
    sorted = std::is_sorted(indices, indices + n);
  } else {
    for (int64_t i = 1; sorted && i < n; ++i) sorted = !less(i, i - 1);
  }
  if (sorted) return order;
  const cpu::Scratch keys = cpu::Scratch::Of<Keyed>(n), other = cpu::Scratch::Of<Keyed>(n);
  if (!keys.ok() || !other.ok() || !FindKeys(indices, n, rank, keys.data<Keyed>())) {
    std::stable_sort(order.begin(), order.end(), less);
    return order;
  }
  const Keyed* const sorted_keys = SortRuns(keys.data<Keyed>(), other.data<Keyed>(), n);
  for (size_t i = 0; i < order.size(); ++i) order[i] = sorted_keys[i].place;
  return order;
}

namespace {

// Indices are a scalar (an index of a vector), a vector of those, or a matrix of indices of any rank.
class SparseToDenseKernel final : public OpKernel {
 public:
  explicit SparseToDenseKernel(KernelConstruction& c)
      : OpKernel(c), validate_(c.Attr<bool>("validate_indices")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(2);
    const Tensor& fallback = context.input(3);
    MR_RETURN_IF_ERROR(CheckShapes(indices, context.input(1), values, fallback));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(IntValues(context.input(1))));
    int64_t n = indices.rank() == 0 ? 1 : indices.dim(0);
    // Two empty indices are enough for the checks, however many there are.
    if (indices.num_elements() == 0 && values.rank() == 0) n = std::min<int64_t>(n, 2);
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> places, indices.dtype() == DataType::kInt32
                                                               ? Places<int32_t>(indices, n, shape)
                                                               : Places<int64_t>(indices, n, shape));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    ContextParallel parallel(context);
    FillElements(out->dtype(), fallback.raw_data(), out->raw_data(), shape.num_elements(), parallel);
    if (values.rank() == 1) {
      PutRows(out->dtype(), values.raw_data(), places, 1, out->raw_data());
    } else {
      return VisitDataType(out->dtype(), NoSuchType(context, out->dtype()), [&]<typename T>() {
        const T& value = values.scalar<T>();
        T* const to = out->data<T>();
        for (const int64_t place : places) to[place] = value;
        return Status();
      });
    }
    return Status();
  }

 private:
  static Status CheckShapes(const Tensor& indices, const Tensor& shape, const Tensor& values,
                            const Tensor& fallback) {
    if (indices.rank() > 2) {
      return errors::InvalidArgument("sparse_indices should be a scalar, vector, or matrix, got shape ",
                                     indices.shape());
    }
    const int64_t n = indices.rank() > 0 ? indices.dim(0) : 1;
    const int64_t rank = indices.rank() > 1 ? indices.dim(1) : 1;
    if (!shape.shape().IsVector()) {
      return errors::InvalidArgument("output_shape should be a vector, got shape ", shape.shape());
    }
    if (shape.num_elements() != rank) {
      return errors::InvalidArgument("output_shape has incorrect number of elements: ", shape.num_elements(),
                                     " should be: ", rank);
    }
    const bool fits = values.rank() == 0 || (values.rank() == 1 && values.dim(0) == n);
    if (!fits) {
      return errors::InvalidArgument("sparse_values has incorrect shape ", values.shape(),
                                     ", should be [] or [", n, "]");
    }
    if (!fallback.shape().IsScalar()) {
      return errors::InvalidArgument("default_value should be a scalar.");
    }
    return Status();
  }

  // The positions of the values in the output. On request, indices must be in ascending order.
  template <typename Index>
  StatusOr<std::vector<int64_t>> Places(const Tensor& indices, int64_t n, const TensorShape& shape) const {
    const int rank = shape.rank();
    const auto text = [&](int64_t i) {
      Dims index;
      for (int d = 0; d < rank; ++d) index.push_back(IntValue(indices, i * rank + d));
      return StrCat("indices[", i, "] = ", IndexListText(index));
    };
    const std::span<const int64_t> sizes = shape.dims();
    const Index* index = indices.data<Index>();
    std::vector<int64_t> places(static_cast<size_t>(n));
    int64_t last = -1;
    for (int64_t i = 0; i < n; ++i) {
      int64_t place = 0;
      for (int d = 0; d < rank; ++d) {
        const int64_t at = *index++, size = sizes[static_cast<size_t>(d)];
        if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(size)) {
          return errors::InvalidArgument(text(i), " is out of bounds: need 0 <= index < ", shape);
        }
        place = place * size + at;
      }
      if (validate_ && place <= last) {
        return errors::InvalidArgument(text(i), place == last ? " is repeated" : kOutOfOrder);
      }
      places[static_cast<size_t>(i)] = last = place;
    }
    return places;
  }

  const bool validate_;
};

class SparseReorderKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& values = context.input(1);
    MR_ASSIGN_OR_RETURN(const SparseParts sparse, ReadSparse(indices, values, context.input(2)));
    const std::vector<int64_t> order = SortedOrder(indices.data<int64_t>(), sparse.size(), sparse.rank());
    if (std::is_sorted(order.begin(), order.end())) {
      context.set_output(0, indices);
      context.set_output(1, values);
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor* const out_indices, context.AllocateOutput(0, indices.shape()));
    MR_ASSIGN_OR_RETURN(Tensor* const out_values, context.AllocateOutput(1, values.shape()));
    TakeRows(DataType::kInt64, indices.raw_data(), order, sparse.rank(), out_indices->raw_data());
    TakeRows(values.dtype(), values.raw_data(), order, 1, out_values->raw_data());
    return Status();
  }
};

class SparseReshapeKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(0);
    const Tensor& from = context.input(1);
    const Tensor& to = context.input(2);
    if (!indices.shape().IsMatrix()) {
      return errors::InvalidArgument("Input indices should be a matrix but received shape ", indices.shape());
    }
    if (!from.shape().IsVector()) {
      return errors::InvalidArgument("Input shape should be a vector but received shape ", from.shape());
    }
    if (!to.shape().IsVector()) {
      return errors::InvalidArgument("Target shape should be a vector but received shape ", to.shape());
    }
    if (indices.dim(1) != from.dim(0)) {
      return errors::InvalidArgument("Input tensor rank must match input shape length.");
    }
    MR_ASSIGN_OR_RETURN(const TensorShape source, ShapeFromValues(IntValues(from)));
    MR_ASSIGN_OR_RETURN(const TensorShape target, TargetShape(to, source));
    const int64_t n = indices.dim(0);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(Dims{n, target.rank()}));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    MR_ASSIGN_OR_RETURN(Tensor* const out_shape, context.AllocateOutput(1, TensorShape({target.rank()})));
    std::copy(target.dims().begin(), target.dims().end(), out_shape->data<int64_t>());
    // Indices of rank 0 take no memory, however many there are.
    if (indices.num_elements() == 0 && out->num_elements() == 0) return Status();
    return Convert(indices, source, target, out->data<int64_t>());
  }

 private:
  // Returns the shape with the inferred size for -1.
  static StatusOr<TensorShape> TargetShape(const Tensor& to, const TensorShape& source) {
    Dims dims = IntValues(to);
    int64_t product = 1;
    int open = -1;
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
      if (dims[d] == -1) {
        if (open >= 0) {
          return errors::InvalidArgument("only one output dimension may be -1, not both ", open, " and ", d);
        }
        open = d;
      } else if (dims[d] < 0) {
        return errors::InvalidArgument("size ", d, " must be non-negative, not ", dims[d]);
      } else if (!MultiplyFits(product, dims[d], &product)) {
        return errors::InvalidArgument("The requested shape has too many elements: ", IndexListText(dims));
      }
    }
    const int64_t dense = source.num_elements();
    if (open >= 0) {
      if (product == 0) {
        return errors::InvalidArgument(
            "reshape cannot infer the missing input size for an empty tensor unless all "
            "specified input sizes are non-zero");
      }
      if (dense % product != 0) {
        return errors::InvalidArgument("Input to reshape is a SparseTensor with ", dense,
                                       " dense values, but the requested shape requires a multiple of ",
                                       product, ". input_shape=", source,
                                       " output_shape=", IndexListText(dims));
      }
      dims[open] = dense / product;
    }
    MR_ASSIGN_OR_RETURN(const TensorShape target, ShapeFromValues(dims));
    if (target.num_elements() != dense) {
      return errors::InvalidArgument("Input to reshape is a tensor with ", dense,
                                     " dense values, but the requested shape has ", target.num_elements(),
                                     ". input_shape=", source, " output_shape=", target);
    }
    return target;
  }

  static Status Convert(const Tensor& indices, const TensorShape& source, const TensorShape& target,
                        int64_t* to) {
    const int64_t* from = indices.data<int64_t>();
    for (int64_t i = 0; i < indices.dim(0); ++i, from += source.rank(), to += target.rank()) {
      int64_t place = 0;
      for (int d = 0; d < source.rank(); ++d) {
        if (from[d] < 0 || from[d] >= source.dim(d)) {
          return errors::InvalidArgument("indices[", i,
                                         "] = ", IndexListText({from, static_cast<size_t>(source.rank())}),
                                         " is out of bounds: need 0 <= index < ", source);
        }
        place = place * source.dim(d) + from[d];
      }
      for (int d = target.rank() - 1; d >= 0; --d) {
        to[d] = place % target.dim(d);
        place /= target.dim(d);
      }
    }
    return Status();
  }
};

}  // namespace

void RegisterSparseConvertKernels(KernelRegistry& registry) {
  registry.Register<SparseToDenseKernel>(KernelDef("SparseToDense").Types("Tindices", IndexTypes()));
  registry.Register<SparseReorderKernel>(KernelDef("SparseReorder"));
  registry.Register<SparseReshapeKernel>(KernelDef("SparseReshape"));
}

}  // namespace millrace
