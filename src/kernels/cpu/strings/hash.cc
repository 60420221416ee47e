// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// StringToHashBucket and its fast and strong versions.
#include <array>

#include "kernels/cpu/strings/util.h"
#include "kernels/shared/fingerprint.h"

namespace millrace {
namespace {

constexpr int64_t kHashCostNs = 20;

template <uint64_t (*kHash)(std::string_view)>
class HashBucketKernel final : public OpKernel {
 public:
  explicit HashBucketKernel(KernelConstruction& c)
      : OpKernel(c), num_buckets_(static_cast<uint64_t>(c.Attr<int64_t>("num_buckets"))) {}
  Status Compute(KernelContext& context) override {
    return MapStrings<int64_t>(context, kHashCostNs, [this](const std::string& text) {
      return static_cast<int64_t>(kHash(text) % num_buckets_);
    });
  }

 private:
  const uint64_t num_buckets_;  // at least 1, as declared
};

class StrongHashBucketKernel final : public OpKernel {
 public:
  explicit StrongHashBucketKernel(KernelConstruction& c)
      : OpKernel(c), num_buckets_(static_cast<uint64_t>(c.Attr<int64_t>("num_buckets"))) {
    const auto key = c.Attr<std::vector<int64_t>>("key");
    if (key.size() == 2) {
      key_ = {static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1])};
    } else {
      c.SetError(errors::InvalidArgument("Key must have 2 elements"));
    }
  }
  Status Compute(KernelContext& context) override {
    return MapStrings<int64_t>(context, kHashCostNs, [this](const std::string& text) {
      return static_cast<int64_t>(SipHash(key_[0], key_[1], text) % num_buckets_);
    });
  }

 private:
  const uint64_t num_buckets_;
  std::array<uint64_t, 2> key_{};
};

}  // namespace

void RegisterStringHashKernels(KernelRegistry& registry) {
  registry.Register<HashBucketKernel<MurmurHash64>>(KernelDef("StringToHashBucket"));
  registry.Register<HashBucketKernel<FarmFingerprint64>>(KernelDef("StringToHashBucketFast"));
  registry.Register<StrongHashBucketKernel>(KernelDef("StringToHashBucketStrong"));
}

}  // namespace millrace
