// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "millrace/dtype.h"
#include "millrace/meta_graph.h"
#include "millrace/status.h"

namespace millrace {

// A tensor of the graph and its name in a signature.
struct SignatureTensor {
  std::string key;
  std::string tensor;  // "node:0"; "" where the signature names none
  DataType dtype = DataType::kInvalid;
};

// The tensors of the input or output `key` of a signature: one tensor, or the indices, values and dense shape
// of a sparse one, in this order, called "<key><separator>indices", "…values" and "…dense_shape".
std::vector<SignatureTensor> TensorsOf(const std::string& key, const TensorInfo& info, char separator);
// Those of all inputs or outputs, by their keys.
std::map<std::string, SignatureTensor> TensorsByKey(const std::map<std::string, TensorInfo>& infos,
                                                    char separator);

// A signature of a model, as structs or as messages. InvalidArgument for an unknown key, with the existing
// ones.
template <typename Signatures>
StatusOr<const typename Signatures::mapped_type*> FindSignature(const Signatures& signatures,
                                                                const std::string& key) {
  const auto found = signatures.find(key);
  if (found != signatures.end()) return &found->second;
  std::set<std::string> keys;
  for (const auto& [name, signature] : signatures) keys.insert(name);
  return errors::InvalidArgument("The model has no signature '", key, "'; it has ",
                                 keys.empty() ? "none" : StrJoin(keys, ", "));
}

}  // namespace millrace
