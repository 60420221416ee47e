// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SparseSegmentSum, Mean and SqrtN of indexed rows by segments; and the gradients of the latter two.
#include <cmath>
#include <limits>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/row_function.h"
#include "kernels/cpu/sparse/util.h"

namespace millrace {
namespace {

enum class SegmentScale { kSum, kMean, kSqrtN };

// The factor for the rows of a segment of n.
double ScaleOf(SegmentScale scale, int64_t n) {
  if (scale == SegmentScale::kSum || n == 0) return 1;
  return scale == SegmentScale::kMean ? 1 / static_cast<double>(n) : 1 / std::sqrt(static_cast<double>(n));
}

Status CheckIds(const Tensor& indices, const Tensor& ids) {
  if (!indices.shape().IsVector()) return errors::InvalidArgument("indices should be a vector.");
  if (!ids.shape().IsVector()) return errors::InvalidArgument("segment_ids should be a vector.");
  if (indices.dim(0) != ids.dim(0)) {
    return errors::InvalidArgument("segment_ids and indices should have same size.");
  }
  return Status();
}

StatusOr<TensorShape> RowsShape(const TensorShape& data, int64_t rows) {
  Dims dims;
  dims.push_back(rows);
  for (int d = 1; d < data.rank(); ++d) dims.push_back(data.dim(d));
  return ShapeFromValues(dims);
}

// segment_ids ascend; missing ids give rows of zeros.
class SparseSegmentKernel final : public OpKernel {
 public:
  SparseSegmentKernel(KernelConstruction& c, SegmentScale scale) : OpKernel(c), scale_(scale) {}
  Status Compute(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const Tensor& indices = context.input(1);
    const Tensor& ids = context.input(2);
    MR_RETURN_IF_ERROR(CheckIds(indices, ids));
    if (data.rank() < 1) return errors::InvalidArgument("data must be at least rank 1");
    int64_t last = -1;
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      const int32_t id = ids.data<int32_t>()[i];
      if (id < 0) return errors::InvalidArgument("segment ids must be >= 0");
      if (id < last) return errors::InvalidArgument("segment ids are not increasing");
      last = id;
      const int64_t index = IntValue(indices, i);
      if (index < 0 || index >= data.dim(0)) {
        return errors::InvalidArgument("Bad: indices[", i, "] == ", index, " out of range [0, ", data.dim(0),
                                       ")");
      }
    }
    int64_t segments = last + 1;
    if (num_inputs() == 4) {
      MR_RETURN_IF_ERROR(RequireScalar(context.input(3), "num_segments"));
      segments = IntValue(context.input(3));
      if (segments < 0) return errors::InvalidArgument("num_segments must be >= 0, got ", segments);
      if (last >= segments) return errors::InvalidArgument("segment ids must be < num_segments");
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, RowsShape(data.shape(), segments));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    return VisitReal(data.dtype(), NoSuchType(context, data.dtype()), [&]<typename T>() {
      Run(data, indices, ids, out->flat<T>());
      return Status();
    });
  }

 private:
  template <typename T>
  void Run(const Tensor& data, const Tensor& indices, const Tensor& ids, std::span<T> out) const {
    using Sum = std::conditional_t<kIsSmallFloat<T>, float, T>;
    std::fill(out.begin(), out.end(), T(0.0f));
    const int64_t row = ProductOf(data.shape().dims(), 1, data.rank());
    std::vector<Sum> sums(static_cast<size_t>(out.empty() ? 0 : row));
    const int32_t* const id = ids.data<int32_t>();
    const int64_t n = sums.empty() ? 0 : ids.num_elements();
    const cpu::BinaryFns* const fns = RowFunction(cpu::BinaryOp::kAdd, data.dtype(), row);
    constexpr auto ahead = static_cast<int64_t>(kPrefetchRows);
    const size_t row_bytes = static_cast<size_t>(row) * sizeof(T);
    for (int64_t i = 0; i < n;) {
      std::fill(sums.begin(), sums.end(), Sum(0));
      const int64_t first = i;
      for (; i < n && id[i] == id[first]; ++i) {
        if (i + ahead < n) PrefetchRow(data.data<T>() + IntValue(indices, i + ahead) * row, row_bytes);
        const T* const from = data.data<T>() + IntValue(indices, i) * row;
        if constexpr (std::is_same_v<Sum, T>) {
          if (fns != nullptr) {
            fns->same(sums.data(), from, sums.data(), row);
            continue;
          }
        }
        for (int64_t k = 0; k < row; ++k) sums[k] = Plus(sums[k], static_cast<Sum>(from[k]));
      }
      const double scale = ScaleOf(scale_, i - first);
      T* const to = out.data() + id[first] * row;
      if (scale_ == SegmentScale::kSum) {
        for (int64_t k = 0; k < row; ++k) to[k] = T(sums[k]);
      } else {
        for (int64_t k = 0; k < row; ++k) to[k] = T(static_cast<Sum>(static_cast<double>(sums[k]) * scale));
      }
    }
  }

  const SegmentScale scale_;
};

// Adds each row of `grad`, scaled, to the rows that its segment consists of.
class SparseSegmentGradKernel final : public OpKernel {
 public:
  SparseSegmentGradKernel(KernelConstruction& c, SegmentScale scale) : OpKernel(c), scale_(scale) {}
  Status Compute(KernelContext& context) override {
    const Tensor& grad = context.input(0);
    const Tensor& indices = context.input(1);
    const Tensor& ids = context.input(2);
    const Tensor& rows = context.input(3);
    MR_RETURN_IF_ERROR(CheckIds(indices, ids));
    if (!rows.shape().IsScalar()) return errors::InvalidArgument("output_dim0 should be a scalar.");
    if (grad.rank() < 1) return errors::InvalidArgument("grad must be at least rank 1");
    const int64_t n = ids.num_elements(), out_rows = rows.scalar<int32_t>(), segments = grad.dim(0);
    std::vector<int64_t> counts(static_cast<size_t>(std::min(segments, n)), 0);
    std::vector<int64_t> slot(static_cast<size_t>(n));  // of counts: ids ascend, so equal ones are adjacent
    std::vector<int64_t> places(static_cast<size_t>(n));
    for (int64_t i = 0, used = -1; i < n; ++i) {
      const int32_t id = ids.data<int32_t>()[i];
      if (id < 0 || id >= segments) {
        return errors::InvalidArgument("Segment id ", id, " out of range [0, ", segments, ").");
      }
      if (i > 0 && id < ids.data<int32_t>()[i - 1]) {
        return errors::InvalidArgument("segment ids are not increasing");
      }
      if (i == 0 || id != ids.data<int32_t>()[i - 1]) ++used;
      slot[i] = used;
      ++counts[used];
      const int64_t index = IntValue(indices, i);
      if (index < 0 || index >= out_rows) {
        return errors::InvalidArgument("Index ", index, " out of range [0, ", out_rows, ").");
      }
      places[i] = index;
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, RowsShape(grad.shape(), out_rows));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    return VisitReal(grad.dtype(), NoSuchType(context, grad.dtype()), [&]<typename T>() {
      if constexpr (std::is_floating_point_v<T>) {
        std::fill_n(out->data<T>(), out->num_elements(), T(0));
        const int64_t row = ProductOf(grad.shape().dims(), 1, grad.rank());
        std::vector<T> scales(counts.size());
        for (size_t k = 0; k < counts.size(); ++k) scales[k] = static_cast<T>(ScaleOf(scale_, counts[k]));
        RunLoop([=, scales = scales.data(), slot = slot.data(), places = places.data(),
                 id = ids.data<int32_t>(), all = grad.data<T>(), sums = out->data<T>()]() MR_INLINE_LAMBDA {
          for (int64_t i = 0; i < n; ++i) {
            const T scale = scales[slot[i]];
            const T* const from = all + id[i] * row;
            T* const to = sums + places[i] * row;
            for (int64_t k = 0; k < row; ++k) to[k] += from[k] * scale;
          }
        });
        return Status();
      }
      return NoSuchType(context, grad.dtype());
    });
  }

 private:
  const SegmentScale scale_;
};

void Add(KernelRegistry& registry, const std::string& op, SegmentScale scale, const TypeList& types) {
  const auto make = [scale](KernelConstruction& c) {
    return std::make_unique<SparseSegmentKernel>(c, scale);
  };
  registry.Register(KernelDef(op).Types("T", types).Types("Tidx", IndexTypes()), make);
  registry.Register(KernelDef(op + "WithNumSegments")
                        .Types("T", types)
                        .Types("Tidx", IndexTypes())
                        .Types("Tnumsegments", IndexTypes()),
                    make);
}

void AddGrad(KernelRegistry& registry, const char* op, SegmentScale scale) {
  registry.Register(
      KernelDef(op).Types("T", {DataType::kFloat, DataType::kDouble}).Types("Tidx", IndexTypes()),
      [scale](KernelConstruction& c) { return std::make_unique<SparseSegmentGradKernel>(c, scale); });
}

}  // namespace

void RegisterSparseSegmentKernels(KernelRegistry& registry) {
  const TypeList floats = {DataType::kFloat, DataType::kDouble};
  Add(registry, "SparseSegmentSum", SegmentScale::kSum, RealTypes());
  Add(registry, "SparseSegmentMean", SegmentScale::kMean, floats);
  Add(registry, "SparseSegmentSqrtN", SegmentScale::kSqrtN, floats);
  AddGrad(registry, "SparseSegmentMeanGrad", SegmentScale::kMean);
  AddGrad(registry, "SparseSegmentSqrtNGrad", SegmentScale::kSqrtN);
}

}  // namespace millrace
