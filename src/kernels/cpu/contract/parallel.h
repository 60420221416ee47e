// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace millrace::cpu {

// A borrowed reference to a callable void(int64_t begin, int64_t end). It owns nothing: the callable must
// outlive the call it is passed to. It is two pointers, to the object and to a function, and cheap to
// pass.
class ShardFn {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, ShardFn>)
      ShardFn(F&& fn)  // NOLINT(google-explicit-constructor): reads like std::function at the call
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(fn)))),
        call_([](void* object, int64_t begin, int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(object))(begin, end);
        }) {}

  void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int64_t);
};

// The interface by which the kernels of this folder run on several threads. The engine implements it with its
// pool. Contract: For() calls `fn` on disjoint, non-empty ranges whose union is [0, total), perhaps at the
// same time on several threads, one of which is the caller; it returns when all have returned. It may choose
// any ranges: no result here depends on the choice. `cost_per_unit_ns` is an estimate for one unit.
struct Parallel {
  virtual ~Parallel() = default;
  virtual int num_threads() const = 0;
  virtual void For(int64_t total, int64_t cost_per_unit_ns, ShardFn fn) = 0;
};

// Runs everything in the calling thread.
class SerialParallel final : public Parallel {
 public:
  int num_threads() const override { return 1; }
  void For(int64_t total, int64_t /*cost_per_unit_ns*/, ShardFn fn) override {
    if (total > 0) fn(0, total);
  }
};

}  // namespace millrace::cpu
