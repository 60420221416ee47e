// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "millrace/dtype.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// Reads a checkpoint of either format without a graph. Not thread-safe.
class CheckpointReader {
 public:
  struct Variable {
    DataType dtype = DataType::kInvalid;
    TensorShape shape;
  };

  // `name` is a result of Saver::Save or LatestCheckpoint; for the first format it may be a file pattern.
  // NotFound if there is none, DataLoss if it is damaged.
  static StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& name);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  // By name. Tensors that are stored in slices are listed once, with their full shapes.
  const std::map<std::string, Variable>& variables() const { return variables_; }
  bool HasTensor(const std::string& name) const { return variables_.contains(name); }
  // NotFound "Key … not found in checkpoint", for the first format "… not found in checkpoint file".
  StatusOr<Tensor> GetTensor(const std::string& name);
  // A line "name (DT_FLOAT) [2,3]" for each variable.
  std::string DebugString() const;

 private:
  struct Impl;
  explicit CheckpointReader(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
  std::map<std::string, Variable> variables_;
};

}  // namespace millrace
