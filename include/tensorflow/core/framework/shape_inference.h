// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Shape functions: the shapes of an op's outputs, as far as they follow from those of its inputs.
#ifndef TENSORFLOW_CORE_FRAMEWORK_SHAPE_INFERENCE_H_
#define TENSORFLOW_CORE_FRAMEWORK_SHAPE_INFERENCE_H_

#include <deque>
#include <limits>
#include <vector>

#include "millrace/c/user_op.h"
#include "tensorflow/core/framework/attr_value_reader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tensorflow {
namespace shape_inference {

// A size, or -1 for an unknown one.
class DimensionHandle {
 public:
  DimensionHandle() : value_(-1) {}
  explicit DimensionHandle(int64 value) : value_(value) {}
  bool SameHandle(DimensionHandle other) const { return value_ >= 0 && value_ == other.value_; }

 private:
  friend class InferenceContext;
  int64 value_;
};
class ShapeHandle {
 public:
  ShapeHandle() : known_(false) {}
  bool SameHandle(const ShapeHandle& other) const { return known_ == other.known_ && sizes_ == other.sizes_; }

 private:
  friend class InferenceContext;
  explicit ShapeHandle(std::vector<int64> sizes) : known_(true), sizes_(std::move(sizes)) {}
  bool known_;  // whether the rank is known
  std::vector<int64> sizes_;
};

// A size that is a number or a handle.
struct DimensionOrConstant {
  DimensionOrConstant(DimensionHandle d) : dim(d) {}                 // NOLINT
  DimensionOrConstant(int64 value) : dim(DimensionHandle(value)) {}  // NOLINT
  DimensionOrConstant(int value) : dim(DimensionHandle(value)) {}    // NOLINT
  DimensionOrConstant(long value) : dim(DimensionHandle(value)) {}   // NOLINT
  DimensionHandle dim;
};

// A template, because its static members may be defined in headers before C++17.
template <typename Unused>
struct UnknownSizes {
  static constexpr int64 kUnknownDim = -1;
  static constexpr int32 kUnknownRank = -1;
};
#if __cplusplus < 201703L
template <typename Unused>
constexpr int64 UnknownSizes<Unused>::kUnknownDim;
template <typename Unused>
constexpr int32 UnknownSizes<Unused>::kUnknownRank;
#endif

class InferenceContext : public UnknownSizes<void> {
 public:
  explicit InferenceContext(TF_ShapeInferenceContext* c) : c_(c) {}
  InferenceContext(const InferenceContext&) = delete;
  InferenceContext& operator=(const InferenceContext&) = delete;

  int num_inputs() const { return static_cast<int>(TF_ShapeInferenceContextNumInputs(c_)); }
  int num_outputs() const { return Millrace_ShapeNumOutputs(c_); }
  ShapeHandle input(int64 i) const {
    return Read([this, i](int64_t* dims, int max) {
      return Millrace_ShapeInput(c_, static_cast<int>(i), dims, max);
    });
  }
  // The shapes of an argument, by its name.
  Status input(const string& name, std::vector<ShapeHandle>* shapes) const {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 0, &begin, &end));
    shapes->clear();
    for (int i = begin; i < end; ++i) shapes->push_back(input(i));
    return Status();
  }
  // The value if it is known when the graph is built, or null. Valid as long as the context.
  const Tensor* input_tensor(int i) {
    TF_Tensor* const value = Millrace_ShapeInputTensor(c_, i);
    if (value == nullptr) return nullptr;
    values_.push_back(Tensor::Adopt(value));
    return &values_.back();
  }
  void set_output(int i, const ShapeHandle& shape) {
    std::vector<int64_t> dims(shape.sizes_.begin(), shape.sizes_.end());
    internal::CStatus status;
    Millrace_ShapeSetOutput(c_, i, dims.data(), shape.known_ ? static_cast<int>(dims.size()) : -1,
                            status.get());
    status_.Update(status.status());
  }
  Status set_output(const string& name, const std::vector<ShapeHandle>& shapes) {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 1, &begin, &end));
    if (static_cast<size_t>(end - begin) != shapes.size())
      return errors::InvalidArgument("Must have exactly ", end - begin, " shapes.");
    for (int i = begin; i < end; ++i) set_output(i, shapes[static_cast<size_t>(i - begin)]);
    return Status();
  }
  template <typename T>
  Status GetAttr(const string& name, T* value) const {
    TF_ShapeInferenceContext* const c = c_;
    return internal::GetAttrBy(
        [c, &name](TF_Buffer* buffer, TF_Status* status) {
          Millrace_ShapeAttr(c, name.c_str(), buffer, status);
        },
        name, value);
  }
  // The first error of set_output.
  const Status& status() const { return status_; }

  bool RankKnown(const ShapeHandle& s) const { return s.known_; }
  int32 Rank(const ShapeHandle& s) const {
    return s.known_ ? static_cast<int32>(s.sizes_.size()) : kUnknownRank;
  }
  DimensionHandle Dim(const ShapeHandle& s, int64 i) const {
    if (!s.known_) return DimensionHandle();
    const int64 rank = static_cast<int64>(s.sizes_.size());
    const int64 at = i < 0 ? i + rank : i;
    return at < 0 || at >= rank ? DimensionHandle() : DimensionHandle(s.sizes_[static_cast<size_t>(at)]);
  }
  static int64 Value(const DimensionOrConstant& d) { return d.dim.value_; }
  static bool ValueKnown(const DimensionOrConstant& d) { return Value(d) >= 0; }
  bool FullyDefined(const ShapeHandle& s) const { return s.known_ && NumElementsOf(s) >= 0; }
  DimensionHandle NumElements(const ShapeHandle& s) const {
    return s.known_ ? DimensionHandle(NumElementsOf(s)) : DimensionHandle();
  }
  string DebugString(const ShapeHandle& s) const {
    return s.known_ ? PartialTensorShape(s.sizes_).DebugString() : "?";
  }
  string DebugString(const DimensionHandle& d) const { return d.value_ < 0 ? "?" : std::to_string(d.value_); }

  Status WithRank(const ShapeHandle& s, int64 rank, ShapeHandle* out) {
    if (!s.known_) return *out = UnknownShapeOfRank(rank), Status();
    if (Rank(s) == rank) return *out = s, Status();
    return errors::InvalidArgument("Shape must be rank ", rank, " but is rank ", Rank(s));
  }
  Status WithRankAtLeast(const ShapeHandle& s, int64 rank, ShapeHandle* out) {
    if (!s.known_ || Rank(s) >= rank) return *out = s, Status();
    return errors::InvalidArgument("Shape must be at least rank ", rank, " but is rank ", Rank(s));
  }
  Status WithRankAtMost(const ShapeHandle& s, int64 rank, ShapeHandle* out) {
    if (!s.known_ || Rank(s) <= rank) return *out = s, Status();
    return errors::InvalidArgument("Shape must be at most rank ", rank, " but is rank ", Rank(s));
  }
  Status WithValue(const DimensionHandle& d, int64 value, DimensionHandle* out) {
    if (d.value_ >= 0 && d.value_ != value)
      return errors::InvalidArgument("Dimension must be ", value, " but is ", d.value_);
    return *out = DimensionHandle(value), Status();
  }
  Status Merge(const DimensionHandle& a, const DimensionHandle& b, DimensionHandle* out) {
    if (a.value_ >= 0 && b.value_ >= 0 && a.value_ != b.value_)
      return errors::InvalidArgument("Dimensions must be equal, but are ", a.value_, " and ", b.value_);
    return *out = a.value_ >= 0 ? a : b, Status();
  }
  Status Merge(const ShapeHandle& a, const ShapeHandle& b, ShapeHandle* out) {
    if (!a.known_) return *out = b, Status();
    if (!b.known_) return *out = a, Status();
    if (Rank(a) != Rank(b))
      return errors::InvalidArgument("Shapes must be equal rank, but are ", Rank(a), " and ", Rank(b));
    ShapeHandle merged = a;
    for (int i = 0; i < Rank(a); ++i) {
      DimensionHandle d;
      const Status status = Merge(Dim(a, i), Dim(b, i), &d);
      if (!status.ok()) {
        return errors::InvalidArgument("Dimension ", i, " in both shapes must be equal, but are ",
                                       Value(Dim(a, i)), " and ", Value(Dim(b, i)), ". Shapes are ",
                                       DebugString(a), " and ", DebugString(b), ".");
      }
      merged.sizes_[static_cast<size_t>(i)] = d.value_;
    }
    return *out = merged, Status();
  }
  Status Subshape(const ShapeHandle& s, int64 start, ShapeHandle* out) {
    return Subshape(s, start, std::numeric_limits<int64>::max(), out);
  }
  Status Subshape(const ShapeHandle& s, int64 start, int64 end, ShapeHandle* out) {
    if (!s.known_) return *out = start == 0 && end > (1 << 30) ? s : ShapeHandle(), Status();
    const int64 rank = Rank(s);
    const int64 from = start < 0 ? start + rank : std::min(start, rank);
    const int64 to = end < 0 ? end + rank : std::min(end, rank);
    if (from < 0 || to < 0 || from > to) {
      return errors::InvalidArgument("Subshape must have computed start <= end, but is ", from, " and ", to,
                                     " (computed from start ", start, " and end ", end,
                                     " over shape with rank ", rank, ")");
    }
    return *out = ShapeHandle(std::vector<int64>(s.sizes_.begin() + from, s.sizes_.begin() + to)), Status();
  }
  Status Concatenate(const ShapeHandle& a, const ShapeHandle& b, ShapeHandle* out) {
    if (!a.known_ || !b.known_) return *out = ShapeHandle(), Status();
    *out = a;
    out->sizes_.insert(out->sizes_.end(), b.sizes_.begin(), b.sizes_.end());
    return Status();
  }
  Status ReplaceDim(const ShapeHandle& s, int64 i, const DimensionHandle& d, ShapeHandle* out) {
    if (!s.known_) return *out = s, Status();
    const int64 at = i < 0 ? i + Rank(s) : i;
    if (at < 0 || at >= Rank(s))
      return errors::InvalidArgument("Out of range dim_index ", i, " for shape with ", Rank(s),
                                     " dimensions");
    ShapeHandle changed = s;
    changed.sizes_[static_cast<size_t>(at)] = d.value_;
    return *out = changed, Status();
  }

  // Merges the first dimensions of `s` with those of `prefix`; returns both with the merged sizes.
  Status MergePrefix(const ShapeHandle& s, const ShapeHandle& prefix, ShapeHandle* s_out,
                     ShapeHandle* prefix_out) {
    *s_out = s;
    *prefix_out = prefix;
    if (!s.known_ || !prefix.known_) return Status();
    if (Rank(s) < Rank(prefix)) return WithRankAtLeast(s, Rank(prefix), s_out);
    ShapeHandle head, tail;
    TF_RETURN_IF_ERROR(Subshape(s, 0, Rank(prefix), &head));
    TF_RETURN_IF_ERROR(Subshape(s, Rank(prefix), &tail));
    TF_RETURN_IF_ERROR(Merge(head, prefix, prefix_out));
    return Concatenate(*prefix_out, tail, s_out);
  }

  DimensionHandle MakeDim(const DimensionOrConstant& d) const { return d.dim; }
  DimensionHandle UnknownDim() const { return DimensionHandle(); }
  ShapeHandle UnknownShape() const { return ShapeHandle(); }
  ShapeHandle UnknownShapeOfRank(int64 rank) const {
    return ShapeHandle(std::vector<int64>(static_cast<size_t>(rank), kUnknownDim));
  }
  ShapeHandle Scalar() const { return ShapeHandle(std::vector<int64>()); }
  ShapeHandle Vector(const DimensionOrConstant& d) const { return MakeShape({d}); }
  ShapeHandle Matrix(const DimensionOrConstant& a, const DimensionOrConstant& b) const {
    return MakeShape({a, b});
  }
  ShapeHandle MakeShape(std::initializer_list<DimensionOrConstant> dims) const {
    std::vector<int64> sizes;
    for (const DimensionOrConstant& d : dims) sizes.push_back(Value(d));
    return ShapeHandle(sizes);
  }
  ShapeHandle MakeShape(const std::vector<DimensionHandle>& dims) const {
    std::vector<int64> sizes;
    for (const DimensionHandle& d : dims) sizes.push_back(d.value_);
    return ShapeHandle(sizes);
  }
  Status MakeShapeFromShapeTensor(int i, ShapeHandle* out) {
    internal::CStatus status;
    *out = Read([this, i, &status](int64_t* dims, int max) {
      return Millrace_ShapeFromInput(c_, i, dims, max, status.get());
    });
    return status.status();
  }
  Status MakeShapeFromTensorShape(const TensorShape& shape, ShapeHandle* out) {
    return *out = ShapeHandle(shape.dim_sizes()), Status();
  }
  Status MakeShapeFromPartialTensorShape(const PartialTensorShape& shape, ShapeHandle* out) {
    return *out = shape.unknown_rank() ? ShapeHandle() : ShapeHandle(shape.dim_sizes()), Status();
  }
  // The size in a scalar input.
  Status MakeDimForScalarInput(int i, DimensionHandle* out) {
    const Tensor* const value = input_tensor(i);
    if (value == nullptr) return *out = DimensionHandle(), Status();
    if (value->dims() != 0)
      return errors::InvalidArgument("Input must be scalar but has rank ", value->dims());
    if (value->dtype() != DT_INT32 && value->dtype() != DT_INT64)
      return errors::InvalidArgument("Scalar input must be int32 or int64 but is ",
                                     DataTypeString(value->dtype()));
    const int64 size =
        value->dtype() == DT_INT32 ? static_cast<int64>(value->scalar<int32>()()) : value->scalar<int64>()();
    if (size < 0)
      return errors::InvalidArgument("Dimension size, given by scalar input ", i,
                                     ", must be non-negative but is ", size);
    return *out = DimensionHandle(size), Status();
  }

  Status Add(const DimensionHandle& a, const DimensionOrConstant& b, DimensionHandle* out) {
    return Combine(a, b, out, [](int64 x, int64 y, int64* z) { return !__builtin_add_overflow(x, y, z); });
  }
  Status Subtract(const DimensionHandle& a, const DimensionOrConstant& b, DimensionHandle* out) {
    return Combine(a, b, out, [](int64 x, int64 y, int64* z) { return (*z = x - y) >= 0; });
  }
  Status Multiply(const DimensionHandle& a, const DimensionOrConstant& b, DimensionHandle* out) {
    if (a.value_ == 0 || Value(b) == 0) return *out = DimensionHandle(0), Status();
    return Combine(a, b, out, [](int64 x, int64 y, int64* z) { return !__builtin_mul_overflow(x, y, z); });
  }
  Status Divide(const DimensionHandle& a, const DimensionOrConstant& b, bool evenly, DimensionHandle* out) {
    if (ValueKnown(b) && Value(b) == 0) return errors::InvalidArgument("Divisor must be positive but is 0");
    if (evenly && ValueKnown(a) && ValueKnown(b) && a.value_ % Value(b) != 0)
      return errors::InvalidArgument("Dimension size must be evenly divisible by ", Value(b), " but is ",
                                     a.value_);
    return Combine(a, b, out, [](int64 x, int64 y, int64* z) { return *z = x / y, true; });
  }
  Status Min(const DimensionHandle& a, const DimensionOrConstant& b, DimensionHandle* out) {
    return Combine(a, b, out, [](int64 x, int64 y, int64* z) { return *z = std::min(x, y), true; });
  }
  Status Max(const DimensionHandle& a, const DimensionOrConstant& b, DimensionHandle* out) {
    return Combine(a, b, out, [](int64 x, int64 y, int64* z) { return *z = std::max(x, y), true; });
  }

 private:
  Status Range(const string& name, int outputs, int* begin, int* end) const {
    internal::CStatus status;
    Millrace_ShapeArgRange(c_, name.c_str(), outputs, begin, end, status.get());
    return status.status();
  }
  template <typename ReadDims>
  static ShapeHandle Read(ReadDims read) {
    int64_t dims[256];
    const int rank = read(dims, 256);
    return rank < 0 || rank > 256 ? ShapeHandle() : ShapeHandle(std::vector<int64>(dims, dims + rank));
  }
  static int64 NumElementsOf(const ShapeHandle& s) { return PartialTensorShape(s.sizes_).num_elements(); }
  template <typename F>
  static Status Combine(const DimensionHandle& a, const DimensionOrConstant& b, DimensionHandle* out, F f) {
    int64 result = kUnknownDim;
    if (ValueKnown(a) && ValueKnown(b) && !f(a.value_, Value(b), &result))
      return errors::InvalidArgument("The sizes ", a.value_, " and ", Value(b),
                                     " have no size as their result");
    return *out = DimensionHandle(result), Status();
  }

  TF_ShapeInferenceContext* const c_;
  std::deque<Tensor> values_;
  Status status_;
};

}  // namespace shape_inference
}  // namespace tensorflow

#endif
