// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/c/io.h"

#include <climits>

#include "base/env.h"
#include "c/internal.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/crc32c.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/tensor.pb.h"

using millrace::Status;
using millrace::Tensor;
using millrace::c_api::Enter;
using millrace::c_api::NullArgument;
using millrace::io::CheckpointReader;

struct Millrace_Checkpoint {
  struct Variable {
    std::string name;
    TF_DataType dtype;
    std::vector<int64_t> dims;
  };
  std::unique_ptr<CheckpointReader> reader;
  std::vector<Variable> variables;
};

uint32_t Millrace_ExtendCrc32c(uint32_t crc, const char* data, size_t size) {
  return data == nullptr ? crc : millrace::io::ExtendCrc32c(crc, {data, size});
}

TF_Tensor* Millrace_ReadTensor(const void* proto, size_t size, TF_Status* status) {
  TF_Tensor* result = nullptr;
  Enter(status, [&]() -> Status {
    if (proto == nullptr && size > 0) return NullArgument("The message");
    tensorflow::TensorProto message;
    if (size > INT_MAX || !message.ParseFromArray(proto, static_cast<int>(size)))
      return millrace::errors::InvalidArgument("Not a TensorProto");
    MR_ASSIGN_OR_RETURN(const Tensor value, millrace::TakeTensorFromProto(&message));
    MR_ASSIGN_OR_RETURN(result, millrace::c_api::FromTensor(value));
    return Status();
  });
  return result;
}

Millrace_Checkpoint* Millrace_OpenCheckpoint(const char* name, TF_Status* status) {
  std::unique_ptr<Millrace_Checkpoint> checkpoint;
  Enter(status, [&]() -> Status {
    if (name == nullptr) return NullArgument("The name of the checkpoint");
    auto opened = std::make_unique<Millrace_Checkpoint>();
    MR_ASSIGN_OR_RETURN(opened->reader, CheckpointReader::Open(millrace::Env::Posix(), name));
    for (const auto& [key, variable] : opened->reader->variables()) {
      const std::span<const int64_t> dims = variable.shape.dims();
      opened->variables.push_back(
          {key, static_cast<TF_DataType>(variable.dtype), {dims.begin(), dims.end()}});
    }
    checkpoint = std::move(opened);
    return Status();
  });
  return checkpoint.release();
}

void Millrace_CloseCheckpoint(Millrace_Checkpoint* checkpoint) { delete checkpoint; }

int Millrace_CheckpointCount(const Millrace_Checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0 : static_cast<int>(checkpoint->variables.size());
}

int Millrace_CheckpointVariable(const Millrace_Checkpoint* checkpoint, int index, const char** name,
                                TF_DataType* dtype, const int64_t** dims, int* num_dims) {
  if (index < 0 || index >= Millrace_CheckpointCount(checkpoint)) return 0;
  const Millrace_Checkpoint::Variable& variable = checkpoint->variables[static_cast<size_t>(index)];
  if (name != nullptr) *name = variable.name.c_str();
  if (dtype != nullptr) *dtype = variable.dtype;
  if (dims != nullptr) *dims = variable.dims.data();
  if (num_dims != nullptr) *num_dims = static_cast<int>(variable.dims.size());
  return 1;
}

TF_Tensor* Millrace_CheckpointTensor(Millrace_Checkpoint* checkpoint, const char* name, TF_Status* status) {
  TF_Tensor* result = nullptr;
  Enter(status, [&]() -> Status {
    if (checkpoint == nullptr || name == nullptr) return NullArgument("The checkpoint or the name");
    MR_ASSIGN_OR_RETURN(const Tensor value, checkpoint->reader->GetTensor(name));
    MR_ASSIGN_OR_RETURN(result, millrace::c_api::FromTensor(value));
    return Status();
  });
  return result;
}
