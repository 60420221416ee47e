// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/tensor_file.h"

#include "io/npy.h"

namespace millrace::cli {

bool IsTensorFile(const std::string& path) { return path.ends_with(".npy") || path.ends_with(".npz"); }

Status WriteTensors(Env& env, const std::string& path, const std::map<std::string, Tensor>& tensors) {
  if (path.ends_with(".npz")) return io::WriteNpzFile(env, path, tensors);
  if (!path.ends_with(".npy")) {
    return errors::InvalidArgument(path, "; is the name of neither an .npy nor an .npz file");
  }
  if (tensors.size() != 1) {
    return errors::InvalidArgument(path, "; an .npy file holds one tensor, not ", tensors.size(),
                                   "; name an .npz file");
  }
  return io::WriteNpyFile(env, path, tensors.begin()->second);
}

}  // namespace millrace::cli
