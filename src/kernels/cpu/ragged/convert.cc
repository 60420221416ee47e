// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RaggedTensorToSparse and RaggedTensorToTensor.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/move.h"
#include "kernels/cpu/ragged/splits.h"

namespace millrace {
namespace {

class ToSparseKernel final : public OpKernel {
 public:
  explicit ToSparseKernel(KernelConstruction& c) : OpKernel(c), depth_(num_inputs() - 1) {}
  Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(depth_);
    if (values.rank() == 0) return errors::InvalidArgument("rt_dense_values must not be a scalar");
    std::vector<ragged::Numbers> splits;
    MR_RETURN_IF_ERROR(ReadSplits(context, values.dim(0), &splits));
    const int64_t columns = depth_ + values.rank();
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(Dims{values.num_elements(), columns}));
    MR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, shape));
    MR_ASSIGN_OR_RETURN(Tensor * dense_shape, context.AllocateOutput(2, TensorShape({columns})));
    context.set_output(1, values.WithShape(TensorShape({values.num_elements()})));
    PutDenseShape(splits, values.shape(), dense_shape->data<int64_t>());
    if (values.num_elements() == 0) return Status();
    if (columns == 2) {
      PutPairs(splits[0], indices->data<int64_t>());
    } else {
      PutIndices(splits, values.shape(), indices->data<int64_t>());
    }
    return Status();
  }

 private:
  Status ReadSplits(const KernelContext& context, int64_t num_values,
                    std::vector<ragged::Numbers>* read) const {
    for (int d = 0; d < depth_; ++d) {
      const Tensor& splits = context.input(d);
      if (splits.rank() != 1)
        return errors::InvalidArgument("ragged splits must be vectors, got shape ", splits.shape());
      const int64_t n = splits.num_elements();
      if (n == 0) return errors::InvalidArgument("ragged splits may not be empty.");
      const ragged::Numbers& numbers = read->emplace_back(splits);
      if (numbers[0] != 0) return errors::InvalidArgument("First value of ragged splits must be 0.");
      if (!numbers.IsAscending())
        return errors::InvalidArgument("Ragged splits must be sorted in ascending order");
      const int64_t limit = d + 1 < depth_ ? context.input(d + 1).num_elements() - 1 : num_values;
      if (numbers[n - 1] != limit) {
        return errors::InvalidArgument(
            "Final value of ragged splits must match the length the corresponding ragged values.");
      }
    }
    return Status();
  }

  static void PutDenseShape(const std::vector<ragged::Numbers>& splits, const TensorShape& values,
                            int64_t* out) {
    *out++ = splits[0].size() - 1;
    for (const ragged::Numbers& ends : splits) {
      int64_t longest = 0;
      for (int64_t i = 1; i < ends.size(); ++i) longest = std::max(longest, ends[i] - ends[i - 1]);
      *out++ = longest;
    }
    for (int i = 1; i < values.rank(); ++i) *out++ = values.dim(i);
  }

  // The places of numbers in rows: two of them at a time, of which the second may lie in the next row, which
  // is written later.
  static void PutPairs(const ragged::Numbers& splits, int64_t* out) {
    RunLoop([ends = splits.data(), rows = splits.size() - 1, out]() MR_INLINE_LAMBDA {
      const int64_t all = ends[rows];
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t begin = ends[r], size = ends[r + 1] - begin;
        int64_t* const to = out + 2 * begin;
        int64_t k = 0;
        for (; k < size && begin + k + 2 <= all; k += 2) {
          const Two two = {r, k, r, k + 1};
          std::memcpy(to + 2 * k, &two, sizeof two);
        }
        if (k < size) {
          to[2 * k] = r;
          to[2 * k + 1] = k;
        }
      }
    });
  }
  using Two [[gnu::vector_size(32)]] = int64_t;

  void PutIndices(const std::vector<ragged::Numbers>& splits, const TensorShape& values, int64_t* out) const {
    std::vector<int64_t> row(static_cast<size_t>(depth_));  // at each depth, the row that is walked
    const int64_t inner = ProductOf(values.dims(), 1, values.rank());
    const Dims strides = RowMajorStrides(values.dims());
    const auto depth = static_cast<size_t>(depth_);
    std::vector<int64_t> place(depth + 1);
    const auto& last = splits[depth - 1];
    // The places of a row of values differ in their last number only.
    for (int64_t r = 0; r + 1 < last.size(); ++r) {
      if (last[r] == last[r + 1]) continue;
      // From the row outwards: the row of each depth that holds it.
      int64_t at = r;
      for (size_t d = depth - 1; d-- > 0;) {
        const auto& ends = splits[d];
        while (ends[row[d] + 1] <= at) ++row[d];
        place[d + 1] = at - ends[row[d]];
        at = row[d];
      }
      place[0] = at;
      for (int64_t k = 0; k < last[r + 1] - last[r]; ++k) {
        place[depth] = k;
        for (int64_t e = 0; e < inner; ++e) {
          for (const int64_t number : place) *out++ = number;
          for (int i = 1; i < values.rank(); ++i) *out++ = e / strides[i] % values.dim(i);
        }
      }
    }
  }

  const int depth_;
};

enum class Partition { kFirstDimSize, kValueRowids, kRowSplits };

// Inputs: shape, values, default_value, row partitions.
class ToTensorKernel final : public OpKernel {
 public:
  explicit ToTensorKernel(KernelConstruction& c) : OpKernel(c) {
    const auto names = c.Attr<std::vector<std::string>>("row_partition_types");
    for (const std::string& name : names) {
      if (name == "FIRST_DIM_SIZE") {
        partitions_.push_back(Partition::kFirstDimSize);
      } else if (name == "VALUE_ROWIDS") {
        partitions_.push_back(Partition::kValueRowids);
      } else if (name == "ROW_SPLITS") {
        partitions_.push_back(Partition::kRowSplits);
      } else {
        c.SetError(errors::InvalidArgument("Unknown string for partition info type."));
      }
      if (partitions_.size() > 1 && partitions_.back() == Partition::kFirstDimSize)
        c.SetError(errors::InvalidArgument("FIRST_DIM_SIZE must be the first row_partition_type"));
    }
    if (partitions_.size() != static_cast<size_t>(num_inputs() - 3)) {
      c.SetError(errors::InvalidArgument("There are ", partitions_.size(), " row_partition_types for ",
                                         num_inputs() - 3, " row_partition_tensors"));
      return;
    }
    skip_ = !partitions_.empty() && partitions_[0] == Partition::kFirstDimSize ? 1 : 0;
    depth_ = static_cast<int>(partitions_.size()) - skip_;
  }

  Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(1);
    if (values.rank() == 0) return errors::InvalidArgument("values must not be a scalar");
    MR_RETURN_IF_ERROR(CheckDefault(context.input(2), values.shape()));
    MR_RETURN_IF_ERROR(CheckPartitions(context));
    MR_ASSIGN_OR_RETURN(const int64_t rows, FirstDim(context));
    MR_ASSIGN_OR_RETURN(const Dims dims, OutputDims(context, rows));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return Status();
    FillDefault(context, values.shape(), out);
    if (depth_ > 0 && is_splits(depth_ - 1)) return PutRows(context, dims, rows, out);
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> places, Places(context, dims, rows, depth_));
    if (static_cast<int64_t>(places.size()) != values.dim(0)) {
      return errors::InvalidArgument("The row partitions cover ", places.size(),
                                     " values, but the input has ", values.dim(0));
    }
    const int64_t row = ProductOf(values.shape().dims(), 1, values.rank());
    cpu::SerialParallel serial;
    for (int64_t i = 0, n = 1; i < values.dim(0); i += n) {
      const int64_t to = places[static_cast<size_t>(i)];
      // Values that are consecutive in both tensors are copied together.
      for (n = 1; to >= 0 && i + n < values.dim(0) && places[static_cast<size_t>(i + n)] == to + n;) ++n;
      if (to < 0) continue;
      MoveElements(values.dtype(), ElementAt(values.raw_data(), values.dtype(), i * row),
                   ElementAt(out->raw_data(), values.dtype(), to * row), n * row, serial);
    }
    return Status();
  }

 private:
  // The most rows at one depth, without values, that a partition may declare.
  static constexpr int64_t kMostRows = int64_t{1} << 28;

  static Status CheckDefault(const Tensor& value, const TensorShape& values) {
    const int rank = value.rank();
    if (rank >= values.rank()) {
      return errors::InvalidArgument("default_value.shape=", value.shape(),
                                     " and rt_input.flat_values.shape=", values,
                                     " are incompatible: default_value.rank = ", rank,
                                     "  must be less than rt_input.flat_values.rank = ", values.rank());
    }
    for (int i = 0; i < rank; ++i) {
      const int64_t given = value.dim(i), wanted = values.dim(values.rank() - rank + i);
      if (given != 1 && given != wanted) {
        return errors::InvalidArgument("default_value.shape=", value.shape(),
                                       " and rt_input.flat_values.shape=", values,
                                       " are incompatible: default_value.shape[", i - rank, "] = ", given,
                                       " but rt_input.flat_values.shape[", i - rank, "] = ", wanted);
      }
    }
    return Status();
  }

  const Tensor& partition(const KernelContext& context, int d) const { return context.input(3 + skip_ + d); }
  bool is_splits(int d) const { return partitions_[static_cast<size_t>(skip_ + d)] == Partition::kRowSplits; }

  Status CheckPartitions(const KernelContext& context) const {
    for (int d = 0; d < depth_; ++d) {
      const Tensor& t = partition(context, d);
      if (t.rank() != 1)
        return errors::InvalidArgument("row_partition_tensors must be vectors, got shape ", t.shape());
      const bool splits = is_splits(d);
      if (splits && t.num_elements() == 0) return errors::InvalidArgument("row_splits must not be empty");
      const ragged::Numbers numbers(t);
      if (splits && numbers[0] != 0) return errors::InvalidArgument("row_splits must begin with 0");
      if (!numbers.IsAscending() || (numbers.size() > 0 && numbers[0] < 0))
        return errors::InvalidArgument("row_partition_tensors must be in ascending order from 0");
    }
    return Status();
  }

  StatusOr<int64_t> FirstDim(const KernelContext& context) const {
    if (skip_ == 1) {
      const Tensor& size = context.input(3);
      if (size.num_elements() != 1 || IntValue(size) < 0)
        return errors::InvalidArgument("FIRST_DIM_SIZE must be one number that is not negative");
      return IntValue(size);
    }
    if (depth_ == 0 || !is_splits(0))
      return errors::InvalidArgument("Cannot handle VALUE_ROWIDS in first dimension.");
    return partition(context, 0).num_elements() - 1;
  }

  // The longest row of a depth.
  int64_t Longest(const KernelContext& context, int d) const {
    const ragged::Numbers t(partition(context, d));
    const bool splits = is_splits(d);
    int64_t longest = 0, run = 0;
    for (int64_t i = 0; i < t.size(); ++i) {
      if (splits) {
        run = i == 0 ? 0 : t[i] - t[i - 1];
      } else {
        run = i > 0 && t[i] == t[i - 1] ? run + 1 : 1;
      }
      longest = std::max(longest, run);
    }
    return longest;
  }

  StatusOr<Dims> OutputDims(const KernelContext& context, int64_t rows) const {
    const Tensor& shape = context.input(0);
    const TensorShape& values = context.input(1).shape();
    const int rank = depth_ + values.rank();
    if (shape.rank() > 1) return errors::InvalidArgument("shape must be a scalar or vector");
    if (shape.rank() == 0 && IntValue(shape) != -1)
      return errors::InvalidArgument(
          "The only valid scalar shape tensor is the fully unknown shape "
          "specified as -1.");
    const bool given = shape.rank() == 1;
    if (given && shape.num_elements() != rank) {
      return errors::InvalidArgument("rt_input.shape and shape=[", JoinInts(IntValues(shape), ","),
                                     "] are incompatible: rt_input.rank = ", rank,
                                     " but shape.rank = ", shape.num_elements());
    }
    Dims dims;
    for (int i = 0; i < rank; ++i) {
      const int64_t wanted = given ? IntValue(shape, i) : -1;
      if (wanted < -1) return errors::InvalidArgument("Dimension ", wanted, " must be >= -1");
      if (i > depth_ && wanted >= 0 && wanted != values.dim(i - depth_)) {
        return errors::InvalidArgument("rt_input.shape and shape=[", JoinInts(IntValues(shape), ","),
                                       "] are incompatible: rt_input.shape[", i,
                                       "] = ", values.dim(i - depth_), " but shape[", i, "] = ", wanted);
      }
      dims.push_back(i > depth_    ? values.dim(i - depth_)
                     : wanted >= 0 ? wanted
                     : i == 0      ? rows
                                   : Longest(context, i - 1));
    }
    return dims;
  }

  // Checks a partition with the values `t` for that number of parent rows.
  Status CheckRows(const KernelContext& context, int d, const ragged::Numbers& t, int64_t parents) const {
    const int64_t n = is_splits(d) ? t[t.size() - 1] : t.size();
    if (n > (d + 1 == depth_ ? context.input(1).dim(0) : kMostRows))
      return errors::InvalidArgument("A row partition needs ", n, " values, but the input has fewer");
    const bool fits = is_splits(d) ? t.size() - 1 == parents : n == 0 || t[n - 1] < parents;
    if (fits) return Status();
    return errors::InvalidArgument("Row partition ", d, " does not match the ", parents, " rows around it");
  }

  // Copies the rows of the last partition, which are contiguous in both tensors.
  Status PutRows(const KernelContext& context, const Dims& dims, int64_t rows, Tensor* out) const {
    const Tensor& values = context.input(1);
    const int last = depth_ - 1;
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> above, Places(context, dims, rows, last));
    const ragged::Numbers t(partition(context, last));
    const int64_t parents = last == 0 ? rows : std::ssize(above);
    MR_RETURN_IF_ERROR(CheckRows(context, last, t, parents));
    if (t[parents] != values.dim(0)) {
      return errors::InvalidArgument("The row partitions cover ", t[parents], " values, but the input has ",
                                     values.dim(0));
    }
    const DataType dtype = values.dtype();
    const int64_t row = ProductOf(values.shape().dims(), 1, values.rank());
    const int64_t room = dims[static_cast<uint32_t>(depth_)],
                  taken = last == 0 ? std::min(rows, dims[0]) : parents;
    const auto size = static_cast<int64_t>(ElementSize(dtype)) * row;
    const bool owns = OwnsMemory(dtype);
    const auto* const from = static_cast<const char*>(values.raw_data());
    auto* const to = static_cast<char*>(out->raw_data());
    cpu::SerialParallel serial;
    for (int64_t r = 0; r < taken; ++r) {
      const int64_t place = last == 0 ? r : above[static_cast<size_t>(r)];
      if (place < 0) continue;
      const int64_t n = std::min(t[r + 1] - t[r], room);
      if (n * size <= ragged::kFewBytes && !owns) {
        ragged::CopyFew(from + t[r] * size, to + place * room * size, n * size);
      } else {
        MoveElements(dtype, from + t[r] * size, to + place * room * size, n * row, serial);
      }
    }
    return Status();
  }

  // The row of the output for each value of the first `depth` partitions; -1 for those that are cut
  // off.
  StatusOr<std::vector<int64_t>> Places(const KernelContext& context, const Dims& dims, int64_t rows,
                                        int depth) const {
    std::vector<int64_t> above, here;
    for (int d = 0; d < depth; ++d) {
      const ragged::Numbers t(partition(context, d));
      const int64_t parents = d == 0 ? rows : static_cast<int64_t>(above.size());
      MR_RETURN_IF_ERROR(CheckRows(context, d, t, parents));
      const int64_t n = is_splits(d) ? t[t.size() - 1] : t.size();
      // The start of row r in the output, counted in rows of the next depth.
      const auto place = [&](int64_t r, int64_t k) {
        const int64_t parent = d > 0 ? above[static_cast<size_t>(r)] : r < dims[0] ? r : -1;
        return parent < 0 || k >= dims[d + 1] ? -1 : parent * dims[d + 1] + k;
      };
      here.clear();
      here.reserve(static_cast<size_t>(n));
      if (is_splits(d)) {
        for (int64_t r = 0; r < parents; ++r) {
          const int64_t size = t[r + 1] - t[r];
          for (int64_t k = 0; k < size; ++k) here.push_back(place(r, k));
        }
      } else {
        for (int64_t i = 0, k = 0; i < n; ++i) {
          k = i > 0 && t[i] == t[i - 1] ? k + 1 : 0;
          here.push_back(place(t[i], k));
        }
      }
      above.swap(here);
    }
    return above;
  }

  static void FillDefault(const KernelContext& context, const TensorShape& values, Tensor* out) {
    const Tensor& value = context.input(2);
    const int64_t row = ProductOf(values.dims(), 1, values.rank()), rows = out->num_elements() / row;
    ContextParallel parallel(context);
    if (value.num_elements() == 1) {
      FillElements(out->dtype(), value.raw_data(), out->raw_data(), rows * row, parallel);
      return;
    }
    // Repeats [element] to [rows, element].
    Dims dims{rows};
    for (int i = 1; i < values.rank(); ++i) dims.push_back(values.dim(i));
    MoveBox(out->dtype(), value.raw_data(), BroadcastStrides(value.shape().dims(), dims), out->raw_data(),
            RowMajorStrides(dims), dims, parallel);
  }

  std::vector<Partition> partitions_;
  int skip_ = 0;   // 1: the first partition is the number of rows
  int depth_ = 0;  // ragged dimensions
};

}  // namespace

void RegisterRaggedConvertKernels(KernelRegistry& registry) {
  registry.Register<ToSparseKernel>(KernelDef("RaggedTensorToSparse").Types("Tsplits", IndexTypes()));
  registry.Register<ToTensorKernel>(
      KernelDef("RaggedTensorToTensor").Types("Tindex", IndexTypes()).Types("Tshape", IndexTypes()));
}

}  // namespace millrace
