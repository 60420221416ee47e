// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/immutable_const.h"

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/env.h"
#include "io/memmapped_package.h"
#include "kernels/cpu/kernel_util.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

// Memory that a file is mapped to, and who keeps it mapped.
struct Region {
  std::string_view bytes;
  std::shared_ptr<const void> keeper;
};

// A file, or a region of a package that the name says.
StatusOr<Region> MapRegion(Env& env, const std::string& name) {
  std::unique_ptr<ReadOnlyMemoryRegion> mapped;
  std::shared_ptr<io::MemmappedEnv> package;
  if (const auto parts = io::SplitQualifiedName(name)) {
    MR_ASSIGN_OR_RETURN(package, io::MemmappedEnv::OpenShared(env, parts->first));
    MR_ASSIGN_OR_RETURN(mapped, package->NewReadOnlyMemoryRegion(parts->second));
  } else if (io::IsMemmappedName(name)) {
    return errors::NotFound("Region ", name, " is not found: LoadMemmappedGraph says which package it is in");
  } else {
    MR_ASSIGN_OR_RETURN(mapped, env.NewReadOnlyMemoryRegion(name));
  }
  const std::string_view bytes = mapped->bytes();
  using Both = std::pair<std::unique_ptr<ReadOnlyMemoryRegion>, std::shared_ptr<io::MemmappedEnv>>;
  return Region{bytes, std::make_shared<Both>(std::move(mapped), std::move(package))};
}

// A tensor over memory that is mapped from a file.
class ImmutableConstKernel final : public OpKernel {
 public:
  explicit ImmutableConstKernel(KernelConstruction& c) : OpKernel(c) {
    auto value = Map(c);
    if (value.ok()) {
      value_ = *std::move(value);
    } else {
      c.SetError(value.status());
    }
  }
  Status Compute(KernelContext& context) override {
    context.set_output(0, value_);
    return Status();
  }
  const Tensor* ConstantOutput() const override { return &value_; }

 private:
  static StatusOr<Tensor> Map(KernelConstruction& c) {
    const auto dtype = c.Attr<DataType>("dtype");
    const auto partial = c.Attr<PartialShape>("shape");
    const auto name = c.Attr<std::string>("memory_region_name");
    MR_RETURN_IF_ERROR(c.status());
    if (OwnsMemory(dtype)) {
      return errors::Unimplemented("Sorry, ", DataTypeName(dtype),
                                   " is not currently supported by ImmutableConst");
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, partial.ToTensorShape());
    MR_ASSIGN_OR_RETURN(const Region region, MapRegion(Env::Posix(), name));
    const auto size = static_cast<int64_t>(ElementSize(dtype));
    if (size <= 0 || shape.num_elements() > static_cast<int64_t>(region.bytes.size()) / size) {
      return errors::InvalidArgument("Region ", name, " has ", region.bytes.size(), " bytes, too few for ",
                                     shape, " elements of type ", DataTypeName(dtype));
    }
    const auto bytes = static_cast<size_t>(shape.num_elements() * size);
    // Elements must lie where the processor can read them, and a bool must be 0 or 1.
    constexpr uintptr_t kLargestAlignment = 16;
    if (dtype == DataType::kBool ||
        reinterpret_cast<uintptr_t>(region.bytes.data()) % kLargestAlignment != 0) {
      MR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(dtype, shape));
      auto* to = static_cast<char*>(copy.raw_data());
      if (bytes > 0) std::memcpy(to, region.bytes.data(), bytes);
      for (size_t i = 0; dtype == DataType::kBool && i < bytes; ++i) to[i] = to[i] != 0 ? 1 : 0;
      return copy;
    }
    if (bytes == 0) return Tensor::Allocate(dtype, shape);
    // Nobody writes to what this kernel has a share in.
    void* const data = const_cast<char*>(region.bytes.data());
    return Tensor::FromBuffer(dtype, shape, Buffer::Wrap(data, bytes, [kept = region.keeper] {}), data);
  }

  Tensor value_;
};

}  // namespace

void RegisterImmutableConstKernels(KernelRegistry& registry) {
  registry.Register<ImmutableConstKernel>(KernelDef("ImmutableConst"));
}

}  // namespace millrace
