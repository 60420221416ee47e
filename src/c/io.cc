// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums of records, and looks into checkpoints.
#include "millrace/c/io.h"

#include <vector>

#include "base/env.h"
#include "c/internal.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/crc32c.h"

struct Millrace_CheckpointReader {
  std::unique_ptr<millrace::io::CheckpointReader> reader;
  std::vector<const std::pair<const std::string, millrace::io::CheckpointReader::Variable>*> variables;
};

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): the doors to it
using millrace::Status;

uint32_t Millrace_ExtendCrc32c(uint32_t crc, const void* data, size_t size) {
  if (data == nullptr) return crc;
  return millrace::io::ExtendCrc32c(crc, {static_cast<const char*>(data), size});
}

Millrace_CheckpointReader* Millrace_OpenCheckpoint(const char* name, TF_Status* status) {
  Millrace_CheckpointReader* result = nullptr;
  Enter(status, [&]() -> Status {
    if (name == nullptr) return NullArgument("The name");
    auto opened = std::make_unique<Millrace_CheckpointReader>();
    MR_ASSIGN_OR_RETURN(opened->reader, millrace::io::CheckpointReader::Open(millrace::Env::Posix(), name));
    opened->variables.reserve(opened->reader->variables().size());
    for (const auto& variable : opened->reader->variables()) opened->variables.push_back(&variable);
    result = opened.release();
    return Status();
  });
  return result;
}

void Millrace_CloseCheckpoint(Millrace_CheckpointReader* reader) { delete reader; }

int Millrace_CheckpointCount(const Millrace_CheckpointReader* reader) {
  return reader == nullptr ? 0 : static_cast<int>(reader->variables.size());
}

int Millrace_CheckpointVariable(const Millrace_CheckpointReader* reader, int i, const char** name,
                                TF_DataType* dtype, const int64_t** dims, int* num_dims) {
  if (reader == nullptr || i < 0 || i >= static_cast<int>(reader->variables.size())) return 0;
  const auto& [variable_name, variable] = *reader->variables[static_cast<size_t>(i)];
  if (name != nullptr) *name = variable_name.c_str();
  if (dtype != nullptr) *dtype = static_cast<TF_DataType>(variable.dtype);
  if (dims != nullptr) *dims = variable.shape.dims().data();
  if (num_dims != nullptr) *num_dims = variable.shape.rank();
  return 1;
}

TF_Tensor* Millrace_CheckpointTensor(Millrace_CheckpointReader* reader, const char* name, TF_Status* status) {
  TF_Tensor* result = nullptr;
  Enter(status, [&]() -> Status {
    if (reader == nullptr) return NullArgument("The reader");
    if (name == nullptr) return NullArgument("The name");
    MR_ASSIGN_OR_RETURN(const millrace::Tensor tensor, reader->reader->GetTensor(name));
    MR_ASSIGN_OR_RETURN(result, FromTensor(tensor));
    return Status();
  });
  return result;
}
