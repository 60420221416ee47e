// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/signature.h"

namespace millrace {

std::vector<SignatureTensor> TensorsOf(const std::string& key, const TensorInfo& info, char separator) {
  if (!info.sparse) return {{key, info.name, info.dtype}};
  const std::string prefix = key + separator;
  return {{prefix + "indices", info.sparse->indices, DataType::kInt64},
          {prefix + "values", info.sparse->values, info.dtype},
          {prefix + "dense_shape", info.sparse->dense_shape, DataType::kInt64}};
}

std::map<std::string, SignatureTensor> TensorsByKey(const std::map<std::string, TensorInfo>& infos,
                                                    char separator) {
  std::map<std::string, SignatureTensor> tensors;
  for (const auto& [key, info] : infos) {
    for (SignatureTensor& tensor : TensorsOf(key, info, separator)) {
      std::string name = tensor.key;
      tensors.insert_or_assign(std::move(name), std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace millrace
