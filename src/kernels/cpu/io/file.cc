// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Whole files by name.
#include <algorithm>
#include <cstdio>

#include "base/env.h"
#include "io/match_files.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/op_kernel.h"

namespace millrace {
namespace {

Status CheckScalar(const Tensor& tensor, const char* what) {
  if (tensor.shape().rank() == 0) return Status();
  return errors::InvalidArgument(what, " tensor must be scalar, but had shape: ", tensor.shape());
}

class ReadFileKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckScalar(context.input(0), "Input filename"));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape()));
    MR_ASSIGN_OR_RETURN(out->scalar<std::string>(),
                        ReadFileToString(Env::Posix(), context.input(0).scalar<std::string>()));
    return Status();
  }
};

// Creates the folders of the file. Other processes see the old file or the complete new one.
class WriteFileKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckScalar(context.input(0), "Input filename"));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(1), "Contents"));
    const std::string& path = context.input(0).scalar<std::string>();
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos && slash > 0) {
      MR_RETURN_IF_ERROR(io::MakeFolders(Env::Posix(), path.substr(0, slash)));
    }
    return WriteFileAtomically(Env::Posix(), path, context.input(1).scalar<std::string>());
  }
};

class MatchingFilesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& patterns = context.input(0);
    if (patterns.shape().rank() > 1) {
      return errors::InvalidArgument("Input patterns tensor must be scalar or vector, but had shape: ",
                                     patterns.shape());
    }
    std::vector<std::string> all;
    for (const std::string& pattern : patterns.flat<std::string>()) {
      MR_ASSIGN_OR_RETURN(std::vector<std::string> found, io::MatchingFiles(Env::Posix(), pattern));
      std::move(found.begin(), found.end(), std::back_inserter(all));
    }
    // A file that matches two patterns is listed twice.
    std::sort(all.begin(), all.end());
    MR_ASSIGN_OR_RETURN(Tensor* const out,
                        context.AllocateOutput(0, TensorShape({static_cast<int64_t>(all.size())})));
    std::move(all.begin(), all.end(), out->data<std::string>());
    return Status();
  }
};

// "<base>-00001-of-00004", and with "?????" for all shards.
class ShardedNameKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const int last = num_inputs() - 1;
    for (int i = 0; i <= last; ++i)
      MR_RETURN_IF_ERROR(CheckScalar(context.input(i), kWhat[i == last ? 2 : i]));
    const auto five_digits = [&](int input) {
      char text[16];
      std::snprintf(text, sizeof text, "%05d", context.input(input).scalar<int32_t>());
      return std::string(text);
    };
    const std::string shard = last == 1 ? std::string(5, '?') : five_digits(1);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape()));
    out->scalar<std::string>() =
        StrCat(context.input(0).scalar<std::string>(), "-", shard, "-of-", five_digits(last));
    return Status();
  }

 private:
  static constexpr const char* kWhat[] = {"basename", "shard", "num_shards"};
};

}  // namespace

void RegisterFileKernels(KernelRegistry& registry) {
  registry.Register<ReadFileKernel>(KernelDef("ReadFile"));
  registry.Register<WriteFileKernel>(KernelDef("WriteFile"));
  registry.Register<MatchingFilesKernel>(KernelDef("MatchingFiles"));
  registry.Register<ShardedNameKernel>(KernelDef("ShardedFilename"));
  registry.Register<ShardedNameKernel>(KernelDef("ShardedFilespec"));
}

}  // namespace millrace
