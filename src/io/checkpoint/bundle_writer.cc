// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/temporary_file.h"
#include "io/checkpoint/bundle.h"
#include "io/match_files.h"

namespace millrace::io {

StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Open(Env& env, std::string prefix,
                                                           CancellationManager* cancellation) {
  if (const std::string folder = FolderOf(prefix); !folder.empty()) {
    MR_RETURN_IF_ERROR(MakeFolders(env, folder));
  }
  std::string data_path = TemporaryName(BundleDataPath(prefix, 0, 1));
  MR_ASSIGN_OR_RETURN(auto file, env.NewWritableFile(data_path));
  return std::unique_ptr<BundleWriter>(
      new BundleWriter(env, std::move(prefix), std::move(data_path), std::move(file), cancellation));
}

BundleWriter::~BundleWriter() {
  if (finished_) return;
  file_->Close().IgnoreError("the file is deleted anyway");
  env_.DeleteFile(data_path_).IgnoreError("only disk space is lost");
}

Status BundleWriter::AddEntry(std::string key, const Tensor& tensor) {
  MR_RETURN_IF_ERROR(status_);
  if (key.empty()) return errors::InvalidArgument("a tensor of a checkpoint has no name");
  if (key.size() > kMaxTableKey) {
    return errors::InvalidArgument("the name of a tensor has ", key.size(), " bytes");
  }
  if (entries_.contains(key)) return errors::InvalidArgument("Adding duplicate key: ", key);
  BundleEntry entry{.dtype = tensor.dtype(), .shape = tensor.shape(), .slices = {}};
  status_ = data_.Write(tensor, &entry);
  if (!status_.ok()) return status_.WithContext(StrCat(" (saving ", key, " to ", prefix_, ")"));
  entries_.emplace(std::move(key), std::move(entry));
  return Status::Ok();
}

Status BundleWriter::Add(const std::string& name, const Tensor& tensor) { return AddEntry(name, tensor); }

Status BundleWriter::AddSlice(const std::string& name, const TensorShape& full_shape,
                              const TensorSlice& slice, const Tensor& tensor) {
  MR_ASSIGN_OR_RETURN(const TensorShape slice_shape, slice.ShapeIn(full_shape));
  if (slice_shape != tensor.shape()) {
    return errors::InvalidArgument("slice ", slice.ToString(), " of a tensor ", name, " of shape ",
                                   full_shape, " has shape ", slice_shape, ", not ", tensor.shape());
  }
  if (slice.IsAllOf(full_shape)) return Add(name, tensor);
  if (name.empty()) return errors::InvalidArgument("a tensor of a checkpoint has no name");
  const auto there = entries_.find(name);
  if (there != entries_.end()) {
    if (there->second.slices.empty()) return errors::InvalidArgument("Adding duplicate key: ", name);
    if (there->second.dtype != tensor.dtype() || there->second.shape != full_shape) {
      return errors::InvalidArgument("slices of tensor ", name, " belong to a ",
                                     DataTypeName(there->second.dtype), there->second.shape, " and to a ",
                                     DataTypeName(tensor.dtype()), full_shape);
    }
  }
  MR_RETURN_IF_ERROR(AddEntry(SliceKey(name, slice), tensor));
  BundleEntry& full = entries_[name];
  full.dtype = tensor.dtype();
  full.shape = full_shape;
  full.slices.push_back(slice);
  return Status::Ok();
}

Status BundleWriter::Finish() {
  MR_RETURN_IF_ERROR(status_);
  if (finished_) return errors::FailedPrecondition(prefix_, ": the checkpoint has been finished");
  MR_RETURN_IF_ERROR(file_->Sync());
  MR_RETURN_IF_ERROR(file_->Close());
  MR_RETURN_IF_ERROR(CommitBundle(env_, prefix_, {data_path_}, entries_, /*big_endian=*/false));
  finished_ = true;
  return Status::Ok();
}

}  // namespace millrace::io
