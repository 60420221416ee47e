// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"
#include "io/checkpoint/bundle_format.h"
#include "io/checkpoint/slices.h"
#include "io/checkpoint/slices_codec.h"
#include "io/match_files.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/util/saved_tensor_slice.pb.h"

namespace millrace::io {
namespace {

Status Parse(std::string_view bytes, tensorflow::SavedTensorSlices* message) {
  if (bytes.size() <= INT32_MAX && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status::Ok();
  }
  return errors::DataLoss("an entry is not parseable");
}

}  // namespace

StatusOr<std::unique_ptr<SlicesReader>> SlicesReader::Open(Env& env, const std::string& pattern,
                                                           int64_t preferred,
                                                           CancellationManager* cancellation) {
  constexpr char kText[] = "Unsuccessful TensorSliceReader constructor: ";
  const auto paths = MatchingFiles(env, pattern);
  if (!paths.ok()) {
    return errors::InvalidArgument(kText, "Failed to get matching files on ", pattern, ": ", paths.status());
  }
  if (paths->empty()) {
    return errors::NotFound(kText, "Failed to find any matching files for ", pattern);
  }
  std::unique_ptr<SlicesReader> reader(new SlicesReader(env, cancellation));
  for (const std::string& path : *paths) reader->files_.push_back({.path = path, .table = nullptr});
  const auto n = static_cast<int64_t>(paths->size());
  if (preferred >= 0 && preferred < n) {
    MR_RETURN_IF_ERROR(reader->Load(static_cast<size_t>(preferred)));
  } else {
    MR_RETURN_IF_ERROR(reader->LoadAll());
  }
  return reader;
}

Status SlicesReader::Load(size_t i) {
  File& file = files_[i];
  if (file.table != nullptr) return Status::Ok();
  auto table = TableReader::Open(env_, file.path);
  if (!table.ok()) {
    return errors::DataLoss("Unable to open table file ", file.path, ": ", table.status(),
                            ": perhaps your file is in a different file format and you need to use a "
                            "different restore operator?");
  }
  const auto bytes = (*table)->Get("");
  tensorflow::SavedTensorSlices message;
  if (!bytes.ok() || !bytes->has_value() || !Parse(**bytes, &message).ok() || !message.has_meta()) {
    return errors::DataLoss(
        "Failed to find the saved tensor slices at the beginning of the checkpoint file: ", file.path);
  }
  MR_RETURN_IF_ERROR(CheckCheckpointVersion(message.meta().versions()));
  if (const Status status = AddVariables(i, message.meta()); !status.ok()) {
    return status.WithContext(StrCat(" (in ", file.path, ")"));
  }
  file.table = *std::move(table);
  return Status::Ok();
}

Status SlicesReader::LoadAll() {
  for (size_t i = 0; i < files_.size(); ++i) MR_RETURN_IF_ERROR(Load(i));
  return Status::Ok();
}

Status SlicesReader::AddVariables(size_t i, const tensorflow::SavedTensorSliceMeta& meta) {
  for (const auto& tensor : meta.tensor()) {
    const auto dtype = DataTypeFromProto(tensor.type());
    const auto shape = ShapeFromProto(tensor.shape());
    if (!dtype.ok() || IsRefType(*dtype) || !shape.ok()) {
      return errors::DataLoss("Invalid type or shape of tensor ", CEscape(tensor.name()));
    }
    Variable& variable = variables_[tensor.name()];
    if (variable.dtype == DataType::kInvalid) {
      variable.dtype = *dtype;
      variable.shape = *shape;
    } else if (variable.dtype != *dtype || variable.shape != *shape) {
      return errors::DataLoss("Slices of tensor ", CEscape(tensor.name()), " belong to a ",
                              DataTypeName(variable.dtype), variable.shape, " and to a ",
                              DataTypeName(*dtype), *shape);
    }
    for (const auto& proto : tensor.slice()) {
      auto slice = TensorSlice::FromProto(proto);
      const Status status = slice.ok() ? slice->ShapeIn(*shape).status() : slice.status();
      if (!status.ok()) {
        return errors::DataLoss("Invalid slice of tensor ", CEscape(tensor.name()), ": ", status.message());
      }
      variable.slices.push_back({.slice = *std::move(slice), .file = i});
    }
  }
  return Status::Ok();
}

StatusOr<const SlicesReader::Variable*> SlicesReader::Find(const std::string& name) {
  auto there = variables_.find(name);
  if (there == variables_.end()) {
    MR_RETURN_IF_ERROR(LoadAll());
    there = variables_.find(name);
  }
  return there == variables_.end() ? nullptr : &there->second;
}

StatusOr<const std::map<std::string, SlicesReader::Variable>*> SlicesReader::Variables() {
  MR_RETURN_IF_ERROR(LoadAll());
  return &variables_;
}

StatusOr<Tensor> SlicesReader::ReadStored(const std::string& name, const Variable& variable,
                                          const StoredSlice& stored, Allocator& allocator) {
  if (cancellation_ != nullptr && cancellation_->IsCancelled()) {
    return errors::Cancelled("the checkpoint was not read");
  }
  const auto wrong = [&](const auto&... why) {
    return errors::DataLoss(why..., " (slice ", stored.slice.ToString(), " of tensor ", CEscape(name), " in ",
                            files_[stored.file].path, ")");
  };
  const auto bytes = files_[stored.file].table->Get(SliceKey(name, stored.slice));
  if (!bytes.ok()) return wrong(bytes.status().message());
  if (!bytes->has_value()) return wrong("Failed to seek to the record");
  tensorflow::SavedTensorSlices message;
  if (!Parse(**bytes, &message).ok()) return wrong("Failed to parse the record");
  MR_ASSIGN_OR_RETURN(const TensorShape shape, stored.slice.ShapeIn(variable.shape));
  // Before anything is allocated.
  if (!ListHasElements(message.data().data(), variable.dtype, shape.num_elements())) {
    return wrong("The record has another number of elements than ", shape);
  }
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(variable.dtype, shape, allocator));
  ElementsFromList(message.data().data(), &tensor);
  return tensor;
}

StatusOr<Tensor> SlicesReader::ReadSlice(const std::string& name, const TensorSlice& slice,
                                         Allocator& allocator) {
  MR_ASSIGN_OR_RETURN(const Variable* variable, Find(name));
  if (variable == nullptr) return errors::NotFound(CEscape(name), " not found in checkpoint file");
  if (!IsSliceType(variable->dtype)) {
    return errors::Unimplemented("Restoring data type ", DataTypeName(variable->dtype), " not yet supported");
  }
  MR_ASSIGN_OR_RETURN(const TensorShape shape, slice.ShapeIn(variable->shape));
  const Region wanted(slice, variable->shape);
  const auto regions = [&] {
    std::vector<Region> result;
    for (const StoredSlice& stored : variable->slices) result.emplace_back(stored.slice, variable->shape);
    return result;
  };
  MR_ASSIGN_OR_RETURN(bool covers, Covers(regions(), wanted));
  if (!covers) {  // the other files may have more of it
    MR_RETURN_IF_ERROR(LoadAll());
    MR_ASSIGN_OR_RETURN(covers, Covers(regions(), wanted));
  }
  if (!covers)
    return errors::InvalidArgument("Error copying slice data: ", CEscape(name), " is not complete");
  // The slices are read before the whole is allocated, so that a small malicious file cannot cause a large
  // allocation.
  std::vector<std::pair<Region, Tensor>> parts;
  for (const StoredSlice& stored : variable->slices) {
    const Region region(stored.slice, variable->shape);
    if (region.CommonElements(wanted) == 0) continue;
    MR_ASSIGN_OR_RETURN(Tensor part, ReadStored(name, *variable, stored, allocator));
    if (stored.slice.IsAllOf(variable->shape) && slice.IsAllOf(variable->shape)) return part;
    parts.emplace_back(region, std::move(part));
  }
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(variable->dtype, shape, allocator));
  for (const auto& [region, part] : parts) CopyCommon(region, part, wanted, &tensor);
  return tensor;
}

}  // namespace millrace::io
