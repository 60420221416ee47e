// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/checkpoint_reader.h"

#include <utility>

namespace millrace::io {

StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(Env& env, const std::string& name) {
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader);
  if (env.FileExists(BundleIndexPath(name))) {
    MR_ASSIGN_OR_RETURN(reader->bundle_, BundleReader::Open(env, name));
    MR_RETURN_IF_ERROR(reader->ListBundle());
    return reader;
  }
  auto slices = SlicesReader::Open(env, name);
  // The files of a Saver that shards are "NAME-00000-of-00003"; users give the part before the number.
  if (errors::IsNotFound(slices.status())) {
    if (auto shards = SlicesReader::Open(env, StrCat(name, "-?\?\?\?\?-of-?\?\?\?\?")); shards.ok())
      slices = std::move(shards);
  }
  MR_ASSIGN_OR_RETURN(reader->slices_, std::move(slices));
  MR_ASSIGN_OR_RETURN(const auto* const variables, reader->slices_->Variables());
  for (const auto& [key, variable] : *variables) {
    reader->variables_[key] = {.dtype = variable.dtype, .shape = variable.shape};
  }
  return reader;
}

Status CheckpointReader::ListBundle() {
  MR_RETURN_IF_ERROR(bundle_->Start());
  while (true) {
    MR_ASSIGN_OR_RETURN(const bool there, bundle_->Next());
    if (!there) return Status::Ok();
    if (IsSliceKey(bundle_->key())) continue;
    MR_ASSIGN_OR_RETURN(const BundleEntry entry, bundle_->entry());
    variables_[std::string(bundle_->key())] = {.dtype = entry.dtype, .shape = entry.shape};
  }
}

StatusOr<Tensor> CheckpointReader::GetTensor(const std::string& name) {
  if (bundle_ != nullptr) return bundle_->Read(name);
  const auto there = variables_.find(name);
  if (there == variables_.end()) return errors::NotFound(name, " not found in checkpoint file");
  return slices_->ReadSlice(name, TensorSlice::Full(there->second.shape.rank()));
}

std::string CheckpointReader::DebugString() const {
  std::string text;
  for (const auto& [name, variable] : variables_) {
    text += StrCat(name, " (", DataTypeEnumName(variable.dtype), ") ", variable.shape, "\n");
  }
  return text;
}

}  // namespace millrace::io
