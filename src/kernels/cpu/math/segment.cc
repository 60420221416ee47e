// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sums, products, means, minima and maxima of rows with the same segment id.
#include <algorithm>
#include <limits>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/row_function.h"

namespace millrace {
namespace {

enum class SegmentOp { kSum, kProd, kMean, kMax, kMin };

cpu::BinaryOp FunctionOf(SegmentOp op) {
  switch (op) {
    case SegmentOp::kProd:
      return cpu::BinaryOp::kMul;
    case SegmentOp::kMax:
      return cpu::BinaryOp::kMaximum;
    case SegmentOp::kMin:
      return cpu::BinaryOp::kMinimum;
    default:
      return cpu::BinaryOp::kAdd;
  }
}

template <typename T>
T Combined(SegmentOp op, T a, T b) {
  if (op == SegmentOp::kProd) return Times(a, b);
  if constexpr (!kIsComplex<T>) {
    if (op == SegmentOp::kMax) return LessThan(a, b) ? b : a;
    if (op == SegmentOp::kMin) return LessThan(b, a) ? b : a;
  }
  return Plus(a, b);
}

// Combines rows of n elements with others by the op.
template <typename T>
class Accumulator {
 public:
  Accumulator(SegmentOp op, DataType dtype, int64_t n)
      : op_(op), n_(n), fns_(RowFunction(FunctionOf(op), dtype, n)) {}
  void operator()(T* into, const T* row) const {
    if (fns_ != nullptr) {
      fns_->same(into, row, into, n_);
    } else {
      for (int64_t i = 0; i < n_; ++i) into[i] = Combined(op_, into[i], row[i]);
    }
  }

 private:
  const SegmentOp op_;
  const int64_t n_;
  const cpu::BinaryFns* const fns_;
};

template <typename T>
void DivideBy(T* row, int64_t count, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kIsSmallFloat<T>) {
      row[i] = T(float(row[i]) / static_cast<float>(count));
    } else if constexpr (std::is_integral_v<T>) {
      row[i] = static_cast<T>(static_cast<int64_t>(row[i]) / count);
    } else {
      row[i] /= T(static_cast<ComputeType<T>>(count));
    }
  }
}

Status CheckSegmentOp(const KernelContext& context, SegmentOp op, DataType dtype) {
  const bool ordered = op == SegmentOp::kMax || op == SegmentOp::kMin;
  return ordered && IsComplexType(dtype) ? NoSuchType(context, dtype) : Status();
}

// segment_ids ascend; ids that are missing give rows of zeros (of ones for products).
class SegmentKernel final : public OpKernel {
 public:
  SegmentKernel(KernelConstruction& c, SegmentOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const Tensor& ids = context.input(1);
    MR_RETURN_IF_ERROR(CheckSegmentOp(context, op_, data.dtype()));
    if (!ids.shape().IsVector()) return errors::InvalidArgument("segment_ids should be a vector.");
    if (data.rank() < 1 || data.dim(0) != ids.num_elements()) {
      return errors::InvalidArgument("segment_ids should be the same size as dimension 0 of input.");
    }
    const int64_t rows = ids.num_elements();
    int64_t last = -1;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t id = IntValue(ids, i);
      if (id < 0) return errors::InvalidArgument("segment ids must be >= 0");
      if (id < last) return errors::InvalidArgument("segment ids are not increasing");
      last = id;
    }
    if (last == std::numeric_limits<int64_t>::max())
      return errors::InvalidArgument("segment id ", last, " is too large");
    MR_ASSIGN_OR_RETURN(TensorShape shape, OutputShape(data.shape(), last + 1));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    return VisitNumber(data.dtype(), NoSuchType(context, data.dtype()), [&]<typename T>() {
      Run(data.data<T>(), ids, last + 1, rows == 0 ? 0 : data.num_elements() / rows, out->data<T>());
      return Status();
    });
  }

 private:
  static StatusOr<TensorShape> OutputShape(const TensorShape& data, int64_t rows) {
    Dims dims;
    dims.push_back(rows);
    for (int i = 1; i < data.rank(); ++i) dims.push_back(data.dim(i));
    return ShapeFromValues(dims);
  }

  template <typename T>
  void Run(const T* data, const Tensor& ids, int64_t segments, int64_t row, T* out) const {
    const T gap(op_ == SegmentOp::kProd ? 1.0f : 0.0f);
    const Accumulator<T> accumulate(op_, kDataTypeOf<T>, row);
    int64_t next = 0;
    const int64_t rows = ids.num_elements();
    for (int64_t i = 0; i < rows;) {
      const int64_t id = IntValue(ids, i);
      std::fill(out + next * row, out + id * row, gap);
      T* into = out + id * row;
      std::copy_n(data + i * row, row, into);
      const int64_t first = i;
      for (++i; i < rows && IntValue(ids, i) == id; ++i) accumulate(into, data + i * row);
      if (op_ == SegmentOp::kMean) DivideBy(into, i - first, row);
      next = id + 1;
    }
    std::fill(out + next * row, out + segments * row, gap);
  }

  const SegmentOp op_;
};

// segment_ids in any order, whose shape is a prefix of the data's; rows with a negative id are dropped.
class UnsortedSegmentKernel final : public OpKernel {
 public:
  UnsortedSegmentKernel(KernelConstruction& c, SegmentOp op) : OpKernel(c), op_(op) {}
  Status Compute(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const Tensor& ids = context.input(1);
    const Tensor& num = context.input(2);
    if (!num.shape().IsScalar()) {
      return errors::InvalidArgument("num_segments should be a scalar, not shape ", num.shape());
    }
    const int64_t segments = IntValue(num);
    if (segments < 0)
      return errors::InvalidArgument("Input num_segments == ", segments, " must not be negative.");
    bool prefix = ids.rank() <= data.rank();
    for (int i = 0; prefix && i < ids.rank(); ++i) prefix = ids.dim(i) == data.dim(i);
    if (!prefix) {
      return errors::InvalidArgument("data.shape = ", data.shape(),
                                     " does not start with segment_ids.shape = ", ids.shape());
    }
    Dims dims;
    dims.push_back(segments);
    for (int i = ids.rank(); i < data.rank(); ++i) dims.push_back(data.dim(i));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    // Without data the ids are not checked.
    const int64_t asked = data.num_elements() == 0 ? 0 : ids.num_elements();
    for (int64_t i = 0; i < asked; ++i) {
      if (IntValue(ids, i) >= segments) {
        return errors::InvalidArgument("segment_ids", IndexText(ids.shape(), i), " = ", IntValue(ids, i),
                                       " is out of range [0, ", segments, ")");
      }
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    const int64_t row = ProductOf(data.shape().dims(), ids.rank(), data.rank());
    return VisitNumber(data.dtype(), NoSuchType(context, data.dtype()), [&]<typename T>() {
      T* to = out->data<T>();
      std::fill_n(to, out->num_elements(), Empty<T>());
      const Accumulator<T> accumulate(op_, data.dtype(), row);
      for (int64_t i = 0; i < ids.num_elements(); ++i) {
        if (const int64_t id = IntValue(ids, i); id >= 0) accumulate(to + id * row, data.data<T>() + i * row);
      }
      return Status();
    });
  }

 private:
  // The result of an empty segment: the lowest number for a maximum, the highest for a minimum.
  template <typename T>
  T Empty() const {
    if constexpr (!kIsComplex<T>) {
      if (op_ == SegmentOp::kMax) return Lowest<T>();
      if (op_ == SegmentOp::kMin) return Highest<T>();
    }
    return T(op_ == SegmentOp::kProd ? 1.0f : 0.0f);
  }
  template <typename T>
  static T Lowest() {
    if constexpr (std::is_same_v<T, half>) return T(-65504.0f);
    if constexpr (std::is_same_v<T, bfloat16>) return T(-0x1.fep127f);
    return std::numeric_limits<T>::lowest();
  }
  template <typename T>
  static T Highest() {
    if constexpr (std::is_same_v<T, half>) return T(65504.0f);
    if constexpr (std::is_same_v<T, bfloat16>) return T(0x1.fep127f);
    return std::numeric_limits<T>::max();
  }

  const SegmentOp op_;
};

void Add(KernelRegistry& registry, const char* op, SegmentOp what, const TypeList& types) {
  registry.Register(KernelDef(op).Types("T", types).Types("Tindices", IndexTypes()),
                    [what](KernelConstruction& c) { return std::make_unique<SegmentKernel>(c, what); });
}

}  // namespace

void RegisterSegmentKernels(KernelRegistry& registry) {
  Add(registry, "SegmentSum", SegmentOp::kSum, NumberTypes());
  Add(registry, "SegmentProd", SegmentOp::kProd, NumberTypes());
  Add(registry, "SegmentMean", SegmentOp::kMean, RealTypes());
  Add(registry, "SegmentMax", SegmentOp::kMax, RealTypes());
  Add(registry, "SegmentMin", SegmentOp::kMin, RealTypes());
  for (const auto& [name, op] :
       {std::pair("UnsortedSegmentSum", SegmentOp::kSum), std::pair("UnsortedSegmentProd", SegmentOp::kProd),
        std::pair("UnsortedSegmentMax", SegmentOp::kMax), std::pair("UnsortedSegmentMin", SegmentOp::kMin)}) {
    const bool ordered = op == SegmentOp::kMax || op == SegmentOp::kMin;
    registry.Register(
        KernelDef(name).Types("T", ordered ? RealTypes() : NumberTypes()).Types("Tindices", IndexTypes()),
        [op = op](KernelConstruction& c) { return std::make_unique<UnsortedSegmentKernel>(c, op); });
  }
}

}  // namespace millrace
