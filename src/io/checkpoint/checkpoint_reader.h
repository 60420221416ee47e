// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/env.h"
#include "io/checkpoint/bundle.h"
#include "io/checkpoint/slices.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace::io {

// Reads a checkpoint of either format. Not thread-safe.
class CheckpointReader {
 public:
  struct Variable {
    DataType dtype = DataType::kInvalid;
    TensorShape shape;
  };

  // `name` is the prefix of a checkpoint of the second format, if there is one of that name, else a pattern
  // for the files of the first, or their names without "-00000-of-00002".
  static StatusOr<std::unique_ptr<CheckpointReader>> Open(Env& env, const std::string& name);

  // The variables; tensors that are stored in slices are listed with their full shapes.
  const std::map<std::string, Variable>& variables() const { return variables_; }
  bool HasTensor(const std::string& name) const { return variables_.contains(name); }
  // NotFound "Key … not found in checkpoint", or "… not found in checkpoint file" in the first format.
  StatusOr<Tensor> GetTensor(const std::string& name);
  // A line "name (DT_FLOAT) [2,3]" for each variable.
  std::string DebugString() const;
  // Null for the other format.
  BundleReader* bundle() const { return bundle_.get(); }

 private:
  CheckpointReader() = default;
  Status ListBundle();

  std::unique_ptr<BundleReader> bundle_;
  std::unique_ptr<SlicesReader> slices_;
  std::map<std::string, Variable> variables_;
};

}  // namespace millrace::io
