// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/shape_inference.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace millrace {
namespace {

constexpr size_t kChunkBytes = 4096;

std::string RankError(std::string_view how, int64_t want, int got) {
  return StrCat("Shape must be ", how, "rank ", want, " but is rank ", got);
}

}  // namespace

template <typename T>
T* InferenceContext::New(size_t count) const {
  static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= alignof(std::max_align_t));
  constexpr size_t kAlign = alignof(std::max_align_t);
  const size_t bytes = (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  if (bytes > free_.size()) {
    const size_t chunk = std::max(bytes, kChunkBytes);
    chunks_.push_back(std::make_unique<std::byte[]>(chunk));
    free_ = {chunks_.back().get(), chunk};
  }
  T* p = reinterpret_cast<T*>(free_.data());
  free_ = free_.subspan(bytes);
  std::uninitialized_default_construct_n(p, count);
  return p;
}

InferenceContext::InferenceContext(const OpDef& op, const AttrMap& attrs, std::string_view node_name,
                                   int num_outputs, std::span<const PartialShape> input_shapes)
    : op_(op), attrs_(attrs), node_name_(node_name) {
  free_ = {&first_chunk_[0], sizeof(first_chunk_)};
  inputs_.resize(input_shapes.size());
  outputs_.resize(num_outputs);
  for (size_t i = 0; i < input_shapes.size(); ++i) {
    const PartialShape& shape = input_shapes[i];
    if (shape.unknown_rank()) {
      inputs_[i].shape = UnknownShape();
      continue;
    }
    auto* dims = New<DimHandle>(shape.rank());
    for (int d = 0; d < shape.rank(); ++d) dims[d] = MakeDim(shape.dim(d));
    inputs_[i].shape = NewShape(shape.rank(), {dims, static_cast<size_t>(shape.rank())});
  }
  if (num_outputs > 0) {
    const ShapeHandle unknown = UnknownShape();
    for (Output& output : outputs_) output.shape = unknown;
  }
}

ShapeHandle InferenceContext::NewShape(int32_t rank, std::span<const DimHandle> dims) {
  auto* node = New<ShapeNode>(1);
  node->rank = rank;
  node->dims = dims;
  return ShapeHandle(node);
}

StatusOr<std::vector<ShapeHandle>> InferenceContext::InputsNamed(std::string_view arg) const {
  std::vector<ArgRange> ranges;
  MR_RETURN_IF_ERROR(InferArgRanges(op_.inputs, attrs_, &ranges));
  for (const ArgRange& range : ranges) {
    if (range.name != arg) continue;
    if (range.end > num_inputs()) break;
    std::vector<ShapeHandle> shapes;
    for (int i = range.begin; i < range.end; ++i) shapes.push_back(input(i));
    return shapes;
  }
  return errors::InvalidArgument("Unknown input name: ", arg);
}

DimHandle InferenceContext::Dim(ShapeHandle s, int64_t i) const {
  const int rank = Rank(s);
  if (i < 0) i += rank;
  if (rank == kUnknownRank || i < 0 || i >= rank) {
    auto* unknown = New<DimNode>(1);
    unknown->value = kUnknownDim;
    return DimHandle(unknown);
  }
  return s.node_->dims[i];
}

bool InferenceContext::FullyDefined(ShapeHandle s) const {
  return RankKnown(s) && std::ranges::all_of(s.node_->dims, [this](DimHandle d) { return ValueKnown(d); });
}

DimHandle InferenceContext::NumElements(ShapeHandle s) {
  if (!RankKnown(s)) return UnknownDim();
  // A known zero decides, independent of the other dimensions.
  for (const DimHandle d : s.node_->dims) {
    if (Value(d) == 0) return d;
  }
  if (Rank(s) == 1) return Dim(s, 0);
  int64_t product = 1;
  for (const DimHandle d : s.node_->dims) {
    if (!ValueKnown(d) || __builtin_mul_overflow(product, Value(d), &product)) return UnknownDim();
  }
  return MakeDim(product);
}

PartialShape InferenceContext::ToPartialShape(ShapeHandle s) const {
  if (!RankKnown(s)) return PartialShape();
  std::vector<int64_t> dims;
  dims.reserve(s.node_->dims.size());
  for (const DimHandle d : s.node_->dims) dims.push_back(Value(d));
  return PartialShape(std::move(dims));
}

std::string InferenceContext::DebugString(ShapeHandle s) const {
  if (!RankKnown(s)) return "?";
  std::string out = "[";
  for (size_t i = 0; i < s.node_->dims.size(); ++i) {
    const DimHandle d = s.node_->dims[i];
    if (i > 0) out += ",";
    out += ValueKnown(d) ? std::to_string(Value(d)) : "?";
  }
  return out + "]";
}

StatusOr<ShapeHandle> InferenceContext::WithRank(ShapeHandle s, int rank) {
  if (!RankKnown(s)) return UnknownShapeOfRank(rank);
  if (Rank(s) != rank) return Status(ErrorCode::kInvalidArgument, RankError("", rank, Rank(s)));
  return s;
}

StatusOr<ShapeHandle> InferenceContext::WithRankAtLeast(ShapeHandle s, int rank) {
  if (RankKnown(s) && Rank(s) < rank)
    return Status(ErrorCode::kInvalidArgument, RankError("at least ", rank, Rank(s)));
  return s;
}

StatusOr<ShapeHandle> InferenceContext::WithRankAtMost(ShapeHandle s, int rank) {
  if (RankKnown(s) && Rank(s) > rank)
    return Status(ErrorCode::kInvalidArgument, RankError("at most ", rank, Rank(s)));
  return s;
}

StatusOr<DimHandle> InferenceContext::WithValue(DimHandle d, int64_t value) {
  if (Value(d) == value) return d;
  if (!ValueKnown(d)) return MakeDim(value);
  return errors::InvalidArgument("Dimension must be ", value, " but is ", Value(d));
}

StatusOr<DimHandle> InferenceContext::Merge(DimHandle a, DimHandle b) {
  if (a.SameAs(b) || !ValueKnown(b)) return a;
  if (!ValueKnown(a) || Value(a) == Value(b)) return ValueKnown(a) ? a : b;
  return errors::InvalidArgument("Dimensions must be equal, but are ", Value(a), " and ", Value(b));
}

StatusOr<ShapeHandle> InferenceContext::Merge(ShapeHandle a, ShapeHandle b) {
  if (a.SameAs(b) || !RankKnown(b)) return a;
  if (!RankKnown(a)) return b;
  if (Rank(a) != Rank(b)) {
    return errors::InvalidArgument("Shapes must be equal rank, but are ", Rank(a), " and ", Rank(b));
  }
  // Returns one of the operands itself if it is at least as specific as the other.
  bool a_suffices = true;
  bool b_suffices = true;
  for (int i = 0; i < Rank(a); ++i) {
    const DimHandle x = Dim(a, i);
    const DimHandle y = Dim(b, i);
    if (x.SameAs(y) || Value(x) == Value(y)) continue;
    if (ValueKnown(x) && ValueKnown(y)) {
      return errors::InvalidArgument("Dimension ", i, " in both shapes must be equal, but are ", Value(x),
                                     " and ", Value(y), ". Shapes are ", DebugString(a), " and ",
                                     DebugString(b), ".");
    }
    (ValueKnown(x) ? b_suffices : a_suffices) = false;
  }
  if (a_suffices) return a;
  if (b_suffices) return b;
  std::vector<DimHandle> dims(Rank(a));
  for (int i = 0; i < Rank(a); ++i) {
    MR_ASSIGN_OR_RETURN(dims[i], Merge(Dim(a, i), Dim(b, i)));
  }
  return MakeShape(dims);
}

StatusOr<ShapeHandle> InferenceContext::MergePrefix(ShapeHandle s, ShapeHandle prefix) {
  if (!RankKnown(prefix) || !RankKnown(s)) return s;
  MR_ASSIGN_OR_RETURN(s, WithRankAtLeast(s, Rank(prefix)));
  std::vector<DimHandle> dims(s.node_->dims.begin(), s.node_->dims.end());
  for (int i = 0; i < Rank(prefix); ++i) {
    MR_ASSIGN_OR_RETURN(dims[i], Merge(dims[i], Dim(prefix, i)));
  }
  return MakeShape(dims);
}

StatusOr<ShapeHandle> InferenceContext::Subshape(ShapeHandle s, int64_t begin, int64_t end) {
  const bool all = begin == 0 && end == std::numeric_limits<int64_t>::max();
  if (all) return s;
  if (!RankKnown(s)) return UnknownShape();
  const int64_t rank = Rank(s);
  const auto resolve = [rank](int64_t i) { return i < 0 ? i + rank : std::min(i, rank); };
  const int64_t first = resolve(begin);
  const int64_t last = resolve(end);
  if (first < 0) {
    return errors::InvalidArgument("Subshape start out of bounds: ", begin, ", for shape with rank ", rank);
  }
  if (last < 0)
    return errors::InvalidArgument("Subshape end out of bounds: ", end, ", for shape with rank ", rank);
  if (first > last) {
    return errors::InvalidArgument("Subshape must have computed start <= end, but is ", first, " and ", last,
                                   " (computed from start ", begin, " and end ", end,
                                   " over shape with rank ", rank, ")");
  }
  if (first == 0 && last == rank) return s;
  return NewShape(static_cast<int32_t>(last - first), s.node_->dims.subspan(first, last - first));
}

StatusOr<ShapeHandle> InferenceContext::Concatenate(ShapeHandle a, ShapeHandle b) {
  if (!RankKnown(a) || !RankKnown(b)) return UnknownShape();
  if (Rank(a) + Rank(b) > TensorShape::kMaxRank) {
    return errors::InvalidArgument("A tensor of rank ", Rank(a) + Rank(b),
                                   " was requested; the largest rank is ", TensorShape::kMaxRank);
  }
  std::vector<DimHandle> dims(a.node_->dims.begin(), a.node_->dims.end());
  dims.insert(dims.end(), b.node_->dims.begin(), b.node_->dims.end());
  return MakeShape(dims);
}

StatusOr<ShapeHandle> InferenceContext::ReplaceDim(ShapeHandle s, int64_t index, DimHandle d) {
  if (!RankKnown(s)) return UnknownShape();
  const int64_t i = index < 0 ? index + Rank(s) : index;
  if (i < 0 || i >= Rank(s)) {
    return errors::InvalidArgument("Out of range dim_index ", index, " for shape with ", Rank(s),
                                   " dimensions");
  }
  std::vector<DimHandle> dims(s.node_->dims.begin(), s.node_->dims.end());
  dims[i] = d;
  return MakeShape(dims);
}

DimHandle InferenceContext::UnknownDim() { return MakeDim(kUnknownDim); }

DimHandle InferenceContext::MakeDim(int64_t value) {
  auto* node = New<DimNode>(1);
  node->value = std::max(value, kUnknownDim);
  return DimHandle(node);
}

ShapeHandle InferenceContext::UnknownShape() { return NewShape(kUnknownRank, {}); }

ShapeHandle InferenceContext::UnknownShapeOfRank(int64_t rank) {
  if (rank < 0 || rank > TensorShape::kMaxRank) return UnknownShape();
  auto* dims = New<DimHandle>(rank);
  for (int64_t i = 0; i < rank; ++i) dims[i] = UnknownDim();
  return NewShape(static_cast<int32_t>(rank), {dims, static_cast<size_t>(rank)});
}

ShapeHandle InferenceContext::MakeShape(const std::vector<DimHandle>& dims) {
  if (dims.size() > static_cast<size_t>(TensorShape::kMaxRank)) return UnknownShape();
  auto* copy = New<DimHandle>(dims.size());
  std::ranges::copy(dims, copy);
  return NewShape(static_cast<int32_t>(dims.size()), {copy, dims.size()});
}

StatusOr<ShapeHandle> InferenceContext::MakeShapeFromPartial(const PartialShape& shape) {
  if (shape.unknown_rank()) return UnknownShape();
  if (shape.rank() > TensorShape::kMaxRank) {
    return errors::InvalidArgument("A shape of rank ", shape.rank(), " was given; the largest rank is ",
                                   TensorShape::kMaxRank);
  }
  std::vector<DimHandle> dims;
  for (const int64_t size : shape.dims()) {
    if (size < kUnknownDim)
      return errors::InvalidArgument("Shape has a negative dimension: ", shape.ToString());
    dims.push_back(MakeDim(size));
  }
  return MakeShape(dims);
}

StatusOr<ShapeHandle> InferenceContext::MakeShapeFromInput(int i) {
  MR_ASSIGN_OR_RETURN(const ShapeHandle vector, WithRank(input(i), 1));
  inputs_[i].requested_as_shape = true;
  if (inputs_[i].as_shape.IsSet() && RankKnown(inputs_[i].as_shape)) {
    inputs_[i].requested = true;
    return inputs_[i].as_shape;
  }
  const Tensor* value = input_tensor(i);
  if (value == nullptr) {
    const int64_t rank = Value(Dim(vector, 0));
    if (rank > TensorShape::kMaxRank) {
      return errors::InvalidArgument("A shape of rank ", rank, " was given; the largest rank is ",
                                     TensorShape::kMaxRank);
    }
    return UnknownShapeOfRank(rank);
  }
  if (value->rank() != 1) {
    return errors::InvalidArgument("Input tensor must be rank 1, but was rank ", value->rank());
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, IntegerValues(*value));
  for (const int64_t size : sizes) {
    if (size < kUnknownDim) return errors::InvalidArgument("Invalid value in tensor used for shape: ", size);
  }
  return MakeShapeFromPartial(PartialShape(sizes));
}

StatusOr<DimHandle> InferenceContext::MakeDimFromScalarInput(int i) {
  const Tensor* value = input_tensor(i);
  if (value == nullptr) return UnknownDim();
  if (value->rank() != 0) return errors::InvalidArgument("Input must be scalar but has rank ", value->rank());
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, IntegerValues(*value));
  if (size[0] < 0) {
    return errors::InvalidArgument("Dimension size, given by scalar input ", i,
                                   ", must be non-negative but is ", size[0]);
  }
  return MakeDim(size[0]);
}

StatusOr<DimHandle> InferenceContext::Add(DimHandle a, DimHandle b) {
  if (Value(a) == 0) return b;
  if (Value(b) == 0) return a;
  if (!ValueKnown(a) || !ValueKnown(b)) return UnknownDim();
  int64_t sum = 0;
  if (__builtin_add_overflow(Value(a), Value(b), &sum)) {
    return errors::InvalidArgument("Dimension size overflow from adding ", Value(a), " and ", Value(b));
  }
  return MakeDim(sum);
}

StatusOr<DimHandle> InferenceContext::Subtract(DimHandle a, DimHandle b) {
  if (Value(b) == 0) return a;
  if (!ValueKnown(a) || !ValueKnown(b)) return UnknownDim();
  if (Value(a) < Value(b)) {
    return errors::InvalidArgument("Negative dimension size caused by subtracting ", Value(b), " from ",
                                   Value(a));
  }
  return MakeDim(Value(a) - Value(b));
}

StatusOr<DimHandle> InferenceContext::Multiply(DimHandle a, DimHandle b) {
  if (Value(a) == 0 || Value(b) == 1) return a;
  if (Value(b) == 0 || Value(a) == 1) return b;
  if (!ValueKnown(a) || !ValueKnown(b)) return UnknownDim();
  int64_t product = 0;
  if (__builtin_mul_overflow(Value(a), Value(b), &product)) {
    return errors::InvalidArgument("Negative dimension size caused by overflow when multiplying ", Value(a),
                                   " and ", Value(b));
  }
  return MakeDim(product);
}

StatusOr<DimHandle> InferenceContext::Divide(DimHandle a, int64_t divisor, bool evenly) {
  if (divisor <= 0) return errors::InvalidArgument("Divisor must be positive but is ", divisor);
  if (divisor == 1) return a;
  if (!ValueKnown(a)) return UnknownDim();
  if (evenly && Value(a) % divisor != 0) {
    return errors::InvalidArgument("Dimension size must be evenly divisible by ", divisor, " but is ",
                                   Value(a));
  }
  return MakeDim(Value(a) / divisor);
}

StatusOr<std::vector<int64_t>> IntegerValues(const Tensor& tensor) {
  std::vector<int64_t> values;
  if (tensor.IsInitialized() && tensor.dtype() == DataType::kInt32) {
    values.assign(tensor.flat<int32_t>().begin(), tensor.flat<int32_t>().end());
  } else if (tensor.IsInitialized() && tensor.dtype() == DataType::kInt64) {
    values.assign(tensor.flat<int64_t>().begin(), tensor.flat<int64_t>().end());
  } else {
    return errors::InvalidArgument("Input tensor must be int32 or int64, but was ",
                                   DataTypeName(tensor.dtype()));
  }
  return values;
}

}  // namespace millrace
