// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_file.h"
#include "io/checkpoint/bundle_format.h"
#include "io/checkpoint/slices.h"
#include "io/checkpoint/slices_codec.h"
#include "io/match_files.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/util/saved_tensor_slice.pb.h"

namespace millrace::io {
namespace {

constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 31;

Status CheckTensor(const std::string& name, const Tensor& tensor) {
  if (!tensor.IsInitialized()) return errors::FailedPrecondition("the tensor ", name, " has no value");
  const uint64_t bytes = MostListBytes(tensor) + name.size() + 1024;
  if (bytes <= kMaxMessageBytes) return Status::Ok();
  return errors::InvalidArgument("Tensor slice is too large to serialize (conservative estimate: ", bytes,
                                 " bytes)");
}

}  // namespace

Status SlicesWriter::Add(const std::string& name, const TensorShape& full_shape, const TensorSlice& slice,
                         const Tensor& tensor) {
  MR_ASSIGN_OR_RETURN(const TensorShape shape, slice.ShapeIn(full_shape));
  if (shape != tensor.shape()) {
    return errors::Internal("Incompatible tensor shape and slice: shape = ", tensor.shape(),
                            ", slice = ", slice.ToString(), " of ", full_shape);
  }
  MR_RETURN_IF_ERROR(CheckTensor(name, tensor));
  return AddPart(name, full_shape, tensor.dtype(), Part{name, slice, tensor, nullptr});
}

Status SlicesWriter::AddLater(const std::string& name, const TensorShape& shape, DataType dtype,
                              std::function<StatusOr<Tensor>()> read) {
  return AddPart(name, shape, dtype, Part{name, TensorSlice::Full(shape.rank()), Tensor(), std::move(read)});
}

Status SlicesWriter::AddPart(const std::string& name, const TensorShape& full_shape, DataType dtype,
                             Part part) {
  if (name.empty()) return errors::InvalidArgument("a tensor of a checkpoint has no name");
  if (!IsSliceType(dtype)) {
    return errors::Unimplemented("Saving data type ", DataTypeName(dtype), " not yet supported");
  }
  const auto there = variables_.find(name);
  if (there != variables_.end()) {
    if (there->second.shape != full_shape) {
      return errors::Internal("Mismatching shapes: existing tensor = ", there->second.shape,
                              ", trying to add name ", name, ", shape = ", full_shape);
    }
    if (there->second.dtype != dtype) {
      return errors::Internal("Mismatching types: existing type = ", DataTypeName(there->second.dtype),
                              ", trying to add name ", name, ", type = ", DataTypeName(dtype));
    }
  }
  const TensorSlice slice = part.slice;
  const bool is_new = parts_.emplace(SliceKey(name, slice), std::move(part)).second;
  if (!is_new) return errors::InvalidArgument("Adding duplicate key: ", name, " ", slice.ToString());
  Variable& variable = variables_[name];
  variable.shape = full_shape;
  variable.dtype = dtype;
  variable.slices.push_back(slice);
  return Status::Ok();
}

StatusOr<Tensor> SlicesWriter::Read(const Part& part) const {
  if (part.read == nullptr) return part.tensor;
  MR_ASSIGN_OR_RETURN(Tensor tensor, part.read());
  const Variable& variable = variables_.at(part.name);
  if (tensor.dtype() != variable.dtype || tensor.shape() != variable.shape) {
    return errors::Internal("the tensor ", part.name, " is ", DataTypeName(tensor.dtype()), tensor.shape(),
                            ", not as declared");
  }
  MR_RETURN_IF_ERROR(CheckTensor(part.name, tensor));
  return tensor;
}

Status SlicesWriter::WriteTable(WritableFile& file, CancellationManager* cancellation) const {
  TableWriter table(file);
  tensorflow::SavedTensorSlices meta;
  for (const auto& [name, variable] : variables_) {
    auto* const out = meta.mutable_meta()->add_tensor();
    out->set_name(name);
    ShapeToProto(variable.shape, out->mutable_shape());
    out->set_type(DataTypeToProto(variable.dtype));
    for (const TensorSlice& slice : variable.slices) slice.ToProto(out->add_slice());
  }
  meta.mutable_meta()->mutable_versions()->set_producer(1);
  MR_RETURN_IF_ERROR(table.Add("", meta.SerializeAsString()));
  for (const auto& [key, part] : parts_) {
    if (cancellation != nullptr && cancellation->IsCancelled()) {
      return errors::Cancelled("the checkpoint was not finished");
    }
    MR_ASSIGN_OR_RETURN(const Tensor tensor, Read(part));
    tensorflow::SavedTensorSlices message;
    message.mutable_data()->set_name(part.name);
    part.slice.ToProto(message.mutable_data()->mutable_slice());
    ElementsToList(tensor, message.mutable_data()->mutable_data());
    MR_RETURN_IF_ERROR(table.Add(key, message.SerializeAsString()));
  }
  MR_RETURN_IF_ERROR(table.Finish());
  MR_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

Status SlicesWriter::Finish(CancellationManager* cancellation) {
  if (const std::string folder = FolderOf(path_); !folder.empty()) {
    MR_RETURN_IF_ERROR(MakeFolders(env_, folder));
  }
  const std::string temporary = TemporaryName(path_);
  MR_ASSIGN_OR_RETURN(const auto file, env_.NewWritableFile(temporary));
  Status status = WriteTable(*file, cancellation);
  if (status.ok()) status = env_.RenameFile(temporary, path_);
  if (status.ok()) {
    DeleteStaleTemporaries(env_, path_);
  } else {
    env_.DeleteFile(temporary).IgnoreError("the first error is the one to report");
  }
  return status;
}

}  // namespace millrace::io
