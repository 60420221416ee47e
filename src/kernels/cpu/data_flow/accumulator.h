// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernel/kernel_context.h"
#include "kernels/shared/waiting_resource.h"

namespace millrace {

// The attributes of a node that declare its accumulator.
struct AccumulatorSpec {
  std::string name;
  DataType dtype = DataType::kFloat;
  PartialShape shape;
  bool sum = false;  // a take gives the sum of the gradients, not their mean
  bool sparse = false;
};

// Sums gradients until their number is that for which a step waits, which then gets their mean. Gradients of
// a global step before the accumulator's are dropped. Thread-safe.
class Accumulator : public WaitingResource {
 public:
  const AccumulatorSpec& spec() const { return spec_; }
  int32_t num_accumulated() const MR_EXCLUDES(mu_);
  void SetGlobalStep(int64_t step) MR_EXCLUDES(mu_);
  std::string DebugString() const override;

 protected:
  explicit Accumulator(AccumulatorSpec spec) : WaitingResource(/*in_order=*/true), spec_(std::move(spec)) {}
  // Moves the sum into tensors, and resets it.
  virtual Status TakeSum(std::vector<Tensor>* tensors) MR_REQUIRES(mu_) = 0;

  const AccumulatorSpec spec_;
  int64_t count_ MR_GUARDED_BY(mu_) = 0;
  int64_t global_step_ MR_GUARDED_BY(mu_) = 0;

 private:
  // Attempt: `number` gradients are required; the tensors are the result.
  bool Try(Attempt& attempt, Status* status) override MR_REQUIRES(mu_);
  Status CancelledStatus(const Attempt& attempt) const override;
};

class DenseAccumulator final : public Accumulator {
 public:
  explicit DenseAccumulator(AccumulatorSpec spec) : Accumulator(std::move(spec)) {}
  // Adds the gradient in input `input`.
  Status Apply(KernelContext& context, int64_t local_step, int input) MR_EXCLUDES(mu_);

 private:
  Status TakeSum(std::vector<Tensor>* tensors) override MR_REQUIRES(mu_);

  Tensor sum_ MR_GUARDED_BY(mu_);
};

// Gradients are rows by index; the mean of a row is over the gradients that have it.
class SparseAccumulator final : public Accumulator {
 public:
  explicit SparseAccumulator(AccumulatorSpec spec) : Accumulator(std::move(spec)) {}
  // `shape`, of the whole gradient, may be null: unknown.
  Status Apply(int64_t local_step, const Tensor& indices, const Tensor& values, const Tensor* shape)
      MR_EXCLUDES(mu_);

 private:
  struct Row {
    size_t at = 0;  // bytes
    int64_t count = 0;
  };
  Status Check(const Tensor& indices, const Tensor& values, const Tensor* shape) const MR_REQUIRES(mu_);
  Status TakeSum(std::vector<Tensor>* tensors) override MR_REQUIRES(mu_);

  TensorShape row_shape_ MR_GUARDED_BY(mu_);  // of the values summed up so far
  std::map<int64_t, Row> rows_ MR_GUARDED_BY(mu_);
  std::vector<char> sums_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
