// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Crosses of the features of a batch: for each row every combination of one value of each column, as
// concatenated strings or as a hash.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cpu/sparse/util.h"
#include "kernels/shared/fingerprint.h"

namespace millrace {
namespace {

constexpr int64_t kMostCrosses = std::numeric_limits<int32_t>::max();

// The positions of the values of each row of one column.
struct Column {
  const Tensor* values = nullptr;
  bool is_sparse = false;
  std::vector<int64_t> order;  // of sparse ones: values by row
  Tensor begins;               // of sparse ones: of each row, and the end
  int64_t width = 0;           // of dense ones

  const int64_t* begin() const { return begins.data<int64_t>(); }
  int64_t Count(int64_t row) const { return is_sparse ? begin()[row + 1] - begin()[row] : width; }
  int64_t Place(int64_t row, int64_t i) const {
    return is_sparse ? order[static_cast<size_t>(begin()[row] + i)] : row * width + i;
  }
  uint64_t Hash(int64_t place) const {
    return values->dtype() == DataType::kString ? FarmFingerprint64(values->data<std::string>()[place])
                                                : static_cast<uint64_t>(values->data<int64_t>()[place]);
  }
  void Append(int64_t place, std::string* text) const {
    if (values->dtype() == DataType::kString) {
      *text += values->data<std::string>()[place];
    } else {
      *text += std::to_string(values->data<int64_t>()[place]);
    }
  }
};

class SparseCrossKernel final : public OpKernel {
 public:
  explicit SparseCrossKernel(KernelConstruction& c)
      : OpKernel(c),
        num_sparse_(static_cast<int>(c.Attr<int64_t>("N"))),
        num_buckets_(static_cast<uint64_t>(c.Attr<int64_t>("num_buckets"))),
        hash_key_(static_cast<uint64_t>(c.Attr<int64_t>("hash_key"))) {
    if (c.Attr<std::vector<DataType>>("sparse_types").size() != static_cast<size_t>(num_sparse_)) {
      c.SetError(errors::InvalidArgument("Expected ", num_sparse_, " sparse_types"));
    }
  }
  Status Compute(KernelContext& context) override {
    std::vector<Column> columns;
    int64_t batch = -1;
    for (int i = 0; i < num_sparse_; ++i) MR_RETURN_IF_ERROR(AddSparse(context, i, &batch, &columns));
    for (int i = 3 * num_sparse_; i < num_inputs(); ++i) {
      MR_RETURN_IF_ERROR(AddDense(context.input(i), i - 3 * num_sparse_, &batch, &columns));
    }
    batch = std::max<int64_t>(batch, 0);
    // A column without values results in no crosses, and there may be very many rows.
    bool none = columns.empty();
    for (const Column& column : columns) none = none || column.values->num_elements() == 0;
    const int64_t rows = none ? 0 : batch;
    int64_t total = 0, widest = 0;
    for (int64_t row = 0; row < rows; ++row) {
      MR_ASSIGN_OR_RETURN(const int64_t count, CountCrosses(columns, row));
      total += count;
      widest = std::max(widest, count);
      if (total > kMostCrosses)
        return errors::ResourceExhausted("There are more than ", kMostCrosses, " crosses");
    }
    MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({total, 2})));
    MR_ASSIGN_OR_RETURN(Tensor* const values, context.AllocateOutput(1, TensorShape({total})));
    context.set_output(2, Tensor::Vector<int64_t>({batch, widest}));
    int64_t at = 0;
    for (int64_t row = 0; row < rows; ++row) at = CrossRow(columns, row, at, indices, values);
    return Status();
  }

 private:
  static Status SetBatch(int64_t size, int position, int64_t* batch) {
    if (*batch < 0) *batch = size;
    if (*batch == size) return Status();
    return errors::InvalidArgument("Expected batch size ", *batch, " got ", size, " at position ", position);
  }

  Status AddSparse(KernelContext& context, int i, int64_t* batch, std::vector<Column>* columns) const {
    const Tensor& values = context.input(num_sparse_ + i);
    auto sparse = ReadSparse(context.input(i), values, context.input(2 * num_sparse_ + i));
    if (!sparse.ok()) return sparse.status().WithContext(StrCat(" at position ", i));
    if (sparse->rank() != 2) {
      return errors::InvalidArgument("Expected D2 of index to be 2 got ", sparse->rank(), " at position ", i);
    }
    MR_RETURN_IF_ERROR(SetBatch(sparse->shape[0], i, batch));
    Column column;
    column.values = &values;
    column.is_sparse = true;
    TensorShape begins_shape;
    MR_RETURN_IF_ERROR(begins_shape.TryAddDim(*batch == INT64_MAX ? -1 : *batch + 1));
    MR_ASSIGN_OR_RETURN(column.begins, context.AllocateTemp(DataType::kInt64, begins_shape));
    const std::span<int64_t> begins = column.begins.flat<int64_t>();
    std::fill(begins.begin(), begins.end(), 0);
    for (int64_t v = 0; v < sparse->size(); ++v) {
      const int64_t row = sparse->index(v)[0];
      if (row < 0 || row >= *batch) {
        return errors::InvalidArgument("Row ", row, " of a value at position ", i, " is not in [0, ", *batch,
                                       ")");
      }
      ++begins[static_cast<size_t>(row) + 1];
    }
    for (size_t row = 1; row < begins.size(); ++row) begins[row] += begins[row - 1];
    column.order.resize(static_cast<size_t>(sparse->size()));
    std::iota(column.order.begin(), column.order.end(), 0);
    const auto by_row = [&](int64_t a, int64_t b) { return sparse->index(a)[0] < sparse->index(b)[0]; };
    std::stable_sort(column.order.begin(), column.order.end(), by_row);
    columns->push_back(std::move(column));
    return Status();
  }

  static Status AddDense(const Tensor& values, int i, int64_t* batch, std::vector<Column>* columns) {
    if (!values.shape().IsMatrix()) {
      return errors::InvalidArgument("Dense inputs should be a matrix but received shape ", values.shape(),
                                     " at position ", i);
    }
    MR_RETURN_IF_ERROR(SetBatch(values.dim(0), i, batch));
    Column column;
    column.values = &values;
    column.width = values.dim(1);
    columns->push_back(std::move(column));
    return Status();
  }

  static StatusOr<int64_t> CountCrosses(const std::vector<Column>& columns, int64_t row) {
    for (const Column& column : columns) {
      if (column.Count(row) == 0) return int64_t{0};
    }
    int64_t count = columns.empty() ? 0 : 1;
    for (const Column& column : columns) {
      if (!MultiplyFits(count, column.Count(row), &count) || count > kMostCrosses) {
        return errors::ResourceExhausted("There are more than ", kMostCrosses, " crosses");
      }
    }
    return count;
  }

  // The last column varies fastest.
  int64_t CrossRow(const std::vector<Column>& columns, int64_t row, int64_t at, Tensor* indices,
                   Tensor* values) const {
    for (const Column& column : columns) {
      if (column.Count(row) == 0) return at;
    }
    std::vector<int64_t> pick(columns.size(), 0);
    for (int64_t i = 0; !columns.empty(); ++i) {
      indices->data<int64_t>()[2 * at] = row;
      indices->data<int64_t>()[2 * at + 1] = i;
      if (values->dtype() == DataType::kInt64) {
        values->data<int64_t>()[at] = Hashed(columns, row, pick);
      } else {
        values->data<std::string>()[at] = Joined(columns, row, pick);
      }
      ++at;
      size_t c = columns.size();
      while (c > 0 && ++pick[c - 1] == columns[c - 1].Count(row)) pick[--c] = 0;
      if (c == 0) break;
    }
    return at;
  }

  int64_t Hashed(const std::vector<Column>& columns, int64_t row, const std::vector<int64_t>& pick) const {
    uint64_t hash = hash_key_;
    for (size_t c = 0; c < columns.size(); ++c) {
      hash = FingerprintCat64(hash, columns[c].Hash(columns[c].Place(row, pick[c])));
    }
    const uint64_t buckets =
        num_buckets_ > 0 ? num_buckets_ : static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return static_cast<int64_t>(hash % buckets);
  }

  static std::string Joined(const std::vector<Column>& columns, int64_t row,
                            const std::vector<int64_t>& pick) {
    std::string text;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (c > 0) text += "_X_";
      columns[c].Append(columns[c].Place(row, pick[c]), &text);
    }
    return text;
  }

  const int num_sparse_;
  const uint64_t num_buckets_;
  const uint64_t hash_key_;
};

}  // namespace

void RegisterSparseCrossKernels(KernelRegistry& registry) {
  registry.Register<SparseCrossKernel>(KernelDef("SparseCross"));
}

}  // namespace millrace
