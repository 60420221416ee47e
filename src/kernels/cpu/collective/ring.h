// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "kernel/collectives.h"
#include "kernels/cpu/collective/merge.h"

namespace millrace {

// One member's part of one collective operation. The members form a ring in the order of their ranks, and
// each sends buffers to the next one. Tensors are cut into chunks of about a MiB, which are sent
// independently. Values depend neither on these nor on timing. Holds a reference to itself until it ends.
class Ring : public RefCounted {
 public:
  // `key` identifies the operation in the step. `done` is called once, when all sent buffers have been
  // received, or after the first error, which has then reached all members.
  Ring(RefPtr<StepCollectives> step, CollectiveGroup group, std::string key,
       UniqueFunction<void(Status)> done);

  // Element i of `out` is ((x0[i] op x1[i]) op x2[i]) op …, by rank; then divided by the size if `divide`.
  void Reduce(const Tensor& in, MergeOp op, bool divide, const Tensor& out);
  // `tensor` of the source is sent to the others, whose `tensor` is written.
  void Broadcast(const Tensor& tensor);
  // `out` gets the tensors of all members, by rank.
  void Gather(const Tensor& in, const Tensor& out);
  // Ends the operation of this member with an error.
  void Fail(const Status& status) MR_EXCLUDES(mu_);
  // REQUIRES: called once, after one of the above.
  void Started() { End(Status()); }

 private:
  struct Chunks;
  int Next(int rank) const { return (rank + 1) % size_; }
  int Previous(int rank) const { return (rank + size_ - 1) % size_; }
  // Sends to the next member, and receives from the previous one.
  void Give(const std::string& part, const Tensor& buffer);
  void Take(const std::string& part, const Tensor& like, UniqueFunction<void(const Tensor&)> then);
  // A chunk of the result comes from the last member of the chain, and is sent on to the one before it.
  void PassOn(const std::string& part, int last, const Tensor& chunk);
  void Begin() MR_EXCLUDES(mu_);
  void End(const Status& status) MR_EXCLUDES(mu_);

  const RefPtr<StepCollectives> step_;
  const CollectiveGroup group_;
  const std::string key_;
  const int size_;
  const int rank_;
  Mutex mu_;
  int pending_ MR_GUARDED_BY(mu_) = 1;
  Status status_ MR_GUARDED_BY(mu_);
  UniqueFunction<void(Status)> done_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
