// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/env.h"
#include "io/checkpoint/region.h"
#include "io/checkpoint/table.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/allocator.h"
#include "tensor/tensor_slice.h"

namespace tensorflow {
class SavedTensorSliceMeta;
}  // namespace tensorflow

// The first format of TensorFlow's checkpoints: tables from names and slices to messages with the elements,
// and under the empty key a list of all. A checkpoint is one such file, or several whose names match a
// pattern.
namespace millrace::io {

// Writes one file, which appears under its name when it is complete. Not thread-safe.
class SlicesWriter {
 public:
  SlicesWriter(Env& env, std::string path) : env_(env), path_(std::move(path)) {}

  // `tensor`, which is shared until Finish, is the part `slice` of a tensor of shape `full_shape`.
  Status Add(const std::string& name, const TensorShape& full_shape, const TensorSlice& slice,
             const Tensor& tensor);
  // A whole tensor of that type and shape, which `read` returns when it is written, so that only one tensor
  // is in memory at a time.
  Status AddLater(const std::string& name, const TensorShape& shape, DataType dtype,
                  std::function<StatusOr<Tensor>()> read);
  Status Finish(CancellationManager* cancellation = nullptr);

 private:
  struct Variable {
    TensorShape shape;
    DataType dtype = DataType::kInvalid;
    std::vector<TensorSlice> slices;
  };
  struct Part {
    std::string name;
    TensorSlice slice;
    Tensor tensor;
    std::function<StatusOr<Tensor>()> read;  // instead of the tensor
  };
  Status AddPart(const std::string& name, const TensorShape& full_shape, DataType dtype, Part part);
  StatusOr<Tensor> Read(const Part& part) const;
  Status WriteTable(WritableFile& file, CancellationManager* cancellation) const;

  Env& env_;
  const std::string path_;
  std::map<std::string, Variable> variables_;
  std::map<std::string, Part> parts_;  // by key
};

// Reads such a checkpoint. One thread at a time.
class SlicesReader {
 public:
  struct StoredSlice {
    TensorSlice slice;
    size_t file = 0;
  };
  struct Variable {
    DataType dtype = DataType::kInvalid;
    TensorShape shape;
    std::vector<StoredSlice> slices;
  };

  // Of the matching files, number `preferred` (if there is one) is read first and the others only when they
  // are needed. NotFound if no file matches.
  static StatusOr<std::unique_ptr<SlicesReader>> Open(Env& env, const std::string& pattern,
                                                      int64_t preferred = -1,
                                                      CancellationManager* cancellation = nullptr);

  // Null if there is none of that name. Valid until the next call.
  StatusOr<const Variable*> Find(const std::string& name);
  // A part of an existing tensor. Memory: the size of the messages, plus that of the tensor.
  StatusOr<Tensor> ReadSlice(const std::string& name, const TensorSlice& slice,
                             Allocator& allocator = CpuAllocator());
  // Everything that there is.
  StatusOr<const std::map<std::string, Variable>*> Variables();

 private:
  struct File {
    std::string path;
    std::unique_ptr<TableReader> table;  // null before it is looked into
  };
  SlicesReader(Env& env, CancellationManager* cancellation) : env_(env), cancellation_(cancellation) {}
  Status Load(size_t i);
  Status LoadAll();
  Status AddVariables(size_t i, const tensorflow::SavedTensorSliceMeta& meta);
  StatusOr<Tensor> ReadStored(const std::string& name, const Variable& variable, const StoredSlice& stored,
                              Allocator& allocator);

  Env& env_;
  CancellationManager* const cancellation_;
  std::vector<File> files_;
  std::map<std::string, Variable> variables_;
};

}  // namespace millrace::io
