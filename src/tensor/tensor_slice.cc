// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor_slice.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "tensorflow/core/framework/tensor_slice.pb.h"

namespace millrace {
namespace {

Status CheckExtent(int64_t start, int64_t length, std::string_view text) {
  int64_t end;
  if (start >= 0 && length > 0 && !__builtin_add_overflow(start, length, &end)) return Status::Ok();
  return errors::InvalidArgument("Expected non-negative start and positive length but got start = ", start,
                                 ", length = ", length, ": string = ", text);
}

}  // namespace

StatusOr<TensorSlice> TensorSlice::Parse(std::string_view text) {
  std::vector<Extent> extents;
  for (const std::string_view item : StrSplitSkipEmpty(text, ':')) {
    if (item == "-") {
      extents.emplace_back();
      continue;
    }
    const auto pair = StrSplitSkipEmpty(item, ',');
    const auto start = pair.size() == 2 ? SafeStringToInt64(pair[0]) : std::nullopt;
    const auto length = pair.size() == 2 ? SafeStringToInt64(pair[1]) : std::nullopt;
    if (!start.has_value() || !length.has_value()) {
      return errors::InvalidArgument("Expected a pair of numbers or '-' but got '", item,
                                     "': string = ", text);
    }
    MR_RETURN_IF_ERROR(CheckExtent(*start, *length, text));
    extents.push_back({.start = *start, .length = *length});
  }
  return TensorSlice(std::move(extents));
}

StatusOr<TensorSlice> TensorSlice::FromProto(const tensorflow::TensorSliceProto& proto) {
  std::vector<Extent> extents;
  for (const auto& extent : proto.extent()) {
    if (extent.has_length_case() == tensorflow::TensorSliceProto::Extent::HAS_LENGTH_NOT_SET) {
      if (extent.start() != 0) return errors::InvalidArgument("a full extent starts at ", extent.start());
      extents.emplace_back();
      continue;
    }
    MR_RETURN_IF_ERROR(CheckExtent(extent.start(), extent.length(), "a TensorSliceProto"));
    extents.push_back({.start = extent.start(), .length = extent.length()});
  }
  return TensorSlice(std::move(extents));
}

void TensorSlice::ToProto(tensorflow::TensorSliceProto* proto) const {
  proto->Clear();
  for (const Extent& extent : extents_) {
    auto* const out = proto->add_extent();
    if (extent.is_full()) continue;
    out->set_start(extent.start);
    out->set_length(extent.length);
  }
}

bool TensorSlice::IsFull() const {
  return std::all_of(extents_.begin(), extents_.end(), [](const Extent& e) { return e.is_full(); });
}

bool TensorSlice::IsAllOf(const TensorShape& shape) const {
  if (rank() != shape.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    if (!extent(i).is_full() && (extent(i).start != 0 || extent(i).length != shape.dim(i))) return false;
  }
  return true;
}

StatusOr<TensorShape> TensorSlice::ShapeIn(const TensorShape& full) const {
  if (full.rank() != rank()) {
    return errors::Internal("Mismatching ranks: shape = ", full, ", slice = ", ToString());
  }
  TensorShape result;
  for (int i = 0; i < rank(); ++i) {
    if (!extent(i).is_full() && extent(i).start + extent(i).length > full.dim(i)) {
      return errors::Internal("Extent in dimension ", i, " out of bounds: shape = ", full,
                              ", slice = ", ToString());
    }
    MR_RETURN_IF_ERROR(result.TryAddDim(extent(i).is_full() ? full.dim(i) : extent(i).length));
  }
  return result;
}

std::string TensorSlice::ToString() const {
  std::string text;
  for (const Extent& extent : extents_) {
    if (!text.empty()) text += ':';
    text += extent.is_full() ? "-" : StrCat(extent.start, ",", extent.length);
  }
  return text;
}

StatusOr<ShapeAndSlice> ParseShapeAndSlice(const std::string& text) {
  std::vector<std::string_view> parts = StrSplit(text, ' ');
  if (parts.size() < 2) {
    return errors::InvalidArgument("Need least two elements in shape_and_slice specification: ", text);
  }
  ShapeAndSlice result;
  MR_ASSIGN_OR_RETURN(result.slice, TensorSlice::Parse(parts.back()));
  parts.pop_back();
  for (const std::string_view part : parts) {
    const auto size = SafeStringToInt64(part);
    if (!size.has_value()) {
      return errors::InvalidArgument("Non numerical dimension in shape_and_slice: ", text);
    }
    if (const Status status = result.full_shape.TryAddDim(*size); !status.ok()) {
      return status.WithContext(StrCat(": in shape_and_slice ", text));
    }
  }
  MR_ASSIGN_OR_RETURN(result.slice_shape, result.slice.ShapeIn(result.full_shape));
  return result;
}

}  // namespace millrace
