// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/checkpoint_reader.h"

#include <utility>

#include "io/checkpoint/checkpoint_reader.h"

namespace millrace {

struct CheckpointReader::Impl {
  std::unique_ptr<io::CheckpointReader> reader;
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  for (const auto& [name, variable] : impl_->reader->variables())
    variables_.emplace(name, Variable{variable.dtype, variable.shape});
}

CheckpointReader::~CheckpointReader() = default;

StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const std::string& name) {
  auto impl = std::make_unique<Impl>();
  MR_ASSIGN_OR_RETURN(impl->reader, io::CheckpointReader::Open(Env::Posix(), name));
  return std::unique_ptr<CheckpointReader>(new CheckpointReader(std::move(impl)));
}

StatusOr<Tensor> CheckpointReader::GetTensor(const std::string& name) {
  return impl_->reader->GetTensor(name);
}

std::string CheckpointReader::DebugString() const { return impl_->reader->DebugString(); }

}  // namespace millrace
