// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The generator of a kernel: each run reserves a separate part of the stream.
#ifndef TENSORFLOW_CORE_UTIL_GUARDED_PHILOX_RANDOM_H_
#define TENSORFLOW_CORE_UTIL_GUARDED_PHILOX_RANDOM_H_

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/lib/random/random.h"

namespace tensorflow {

// Thread-safe after Init.
class GuardedPhiloxRandom {
 public:
  GuardedPhiloxRandom() : initialized_(false) {}
  // Seeds with the attributes "seed" and "seed2".
  Status Init(OpKernelConstruction* context) {
    int64 seed, seed2;
    TF_RETURN_IF_ERROR(context->GetAttr("seed", &seed));
    TF_RETURN_IF_ERROR(context->GetAttr("seed2", &seed2));
    Init(seed, seed2);
    return Status();
  }
  // Two zeros: unpredictable seeds.
  void Init(int64 seed, int64 seed2) {
    const bool drawn = seed == 0 && seed2 == 0;
    Init(random::PhiloxRandom(drawn ? random::New64() : static_cast<uint64>(seed),
                              drawn ? random::New64() : static_cast<uint64>(seed2)));
  }
  void Init(const random::PhiloxRandom& generator) {
    mutex_lock lock(mu_);
    CHECK(!initialized_);
    generator_ = generator;
    initialized_ = true;
  }
  // A generator from which this run may take that many blocks of four numbers.
  random::PhiloxRandom ReserveSamples128(int64 samples) {
    mutex_lock lock(mu_);
    CHECK(initialized_);
    const random::PhiloxRandom reserved = generator_;
    generator_.Skip(static_cast<uint64>(samples));
    return reserved;
  }
  random::PhiloxRandom ReserveSamples32(int64 samples) { return ReserveSamples128((samples + 3) / 4); }
  // With `multiplier` blocks for each output.
  random::PhiloxRandom ReserveRandomOutputs(int64 outputs, int multiplier) {
    return ReserveSamples128(outputs * multiplier);
  }

 private:
  mutex mu_;
  bool initialized_;
  random::PhiloxRandom generator_;
};

}  // namespace tensorflow

#endif
