// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collective/ring.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace millrace {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr int64_t kMostChunks = 32;

// The elements of a tensor in chunks, which share its buffer. All members cut alike.
std::vector<Tensor> Cut(const Tensor& tensor) {
  const int64_t n = tensor.num_elements();
  const auto bytes = static_cast<int64_t>(tensor.num_bytes());
  const int64_t count = std::clamp<int64_t>((bytes + kChunkBytes - 1) / kChunkBytes, 1, kMostChunks);
  const Tensor flat = tensor.WithShape(TensorShape({n}));
  const int64_t each = n / count;
  std::vector<Tensor> chunks;
  for (int64_t i = 0; i < count; ++i)
    chunks.push_back(flat.Slice(each * i, i + 1 == count ? n : each * (i + 1)));
  return chunks;
}

void Copy(const Tensor& from, Tensor to) {
  if (from.num_bytes() > 0) std::memcpy(to.raw_data(), from.raw_data(), from.num_bytes());
}

}  // namespace

Ring::Ring(RefPtr<StepCollectives> step, CollectiveGroup group, std::string key,
           UniqueFunction<void(Status)> done)
    : step_(std::move(step)),
      group_(std::move(group)),
      key_(std::move(key)),
      size_(static_cast<int>(group_.devices.size())),
      rank_(group_.rank),
      done_(std::move(done)) {}

void Ring::Reduce(const Tensor& in, MergeOp op, bool divide, const Tensor& out) {
  const int last = size_ - 1;
  const std::vector<Tensor> own = Cut(in);
  const std::vector<Tensor> results = Cut(out);
  for (size_t i = 0; i < own.size(); ++i) {
    const std::string sum = StrCat("sum", i);
    const std::string whole = StrCat("whole", i);
    const auto finish = [divide, size = size_](Tensor chunk) {
      if (divide) DivideBy(size, &chunk);
    };
    if (size_ == 1) {
      Copy(own[i], results[i]);
      finish(results[i]);
      continue;
    }
    if (rank_ == 0) {
      Give(sum, own[i]);
    } else {
      Take(sum, own[i],
           [this, op, last, sum, whole, finish, mine = own[i], result = results[i]](const Tensor& t) {
             Tensor merged = result;
             Merge(op, t, mine, &merged);
             if (rank_ < last) return Give(sum, merged);
             finish(merged);
             Give(whole, merged);
           });
    }
    if (rank_ < last) PassOn(whole, last, results[i]);
  }
}

void Ring::PassOn(const std::string& part, int last, const Tensor& chunk) {
  Take(part, chunk, [this, part, last, chunk](const Tensor& t) {
    Copy(t, chunk);
    if (Next(rank_) != last) Give(part, chunk);
  });
}

void Ring::Broadcast(const Tensor& tensor) {
  if (size_ == 1) return;
  const int source = group_.source_rank;
  const std::vector<Tensor> chunks = Cut(tensor);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const std::string part = StrCat("chunk", i);
    if (rank_ == source) {
      Give(part, chunks[i]);
    } else {
      PassOn(part, source, chunks[i]);
    }
  }
}

void Ring::Gather(const Tensor& in, const Tensor& out) {
  const int64_t n = in.num_elements();
  const Tensor all = out.WithShape(TensorShape({n * size_}));
  const auto part_of = [&](int rank) { return all.Slice(n * rank, n * (rank + 1)); };
  Copy(in, part_of(rank_));
  if (size_ == 1) return;
  const auto name_of = [](int rank, size_t i) { return StrCat("of", rank, ".", i); };
  const std::vector<Tensor> own = Cut(part_of(rank_));
  for (size_t i = 0; i < own.size(); ++i) Give(name_of(rank_, i), own[i]);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const std::vector<Tensor> theirs = Cut(part_of(rank));
    for (size_t i = 0; i < theirs.size(); ++i) PassOn(name_of(rank, i), rank, theirs[i]);
  }
}

void Ring::Give(const std::string& part, const Tensor& buffer) {
  Begin();
  step_->Provide(StrCat(key_, ";", part), group_.devices[static_cast<size_t>(rank_)],
                 group_.devices[static_cast<size_t>(Next(rank_))], buffer,
                 [self = ShareRef(this)](const Status& status) { self->End(status); });
}

void Ring::Take(const std::string& part, const Tensor& like, UniqueFunction<void(const Tensor&)> then) {
  Begin();
  step_->Fetch(
      StrCat(key_, ";", part), group_.devices[static_cast<size_t>(Previous(rank_))],
      group_.devices[static_cast<size_t>(rank_)], like.dtype(), like.num_elements(),
      [self = ShareRef(this), use = std::move(then)](const Status& status, const Tensor& buffer) mutable {
        if (status.ok()) use(buffer);
        self->End(status);
      });
}

void Ring::Begin() {
  MutexLock lock(mu_);
  ++pending_;
}

void Ring::Fail(const Status& status) {
  Begin();
  End(status);
}

void Ring::End(const Status& status) {
  bool first_error = false;
  if (!status.ok()) {
    MutexLock lock(mu_);
    first_error = status_.ok();
    status_.Update(status);
  }
  // Ends all other waiting operations of the step, in all tasks.
  if (first_error) step_->Abort(status);
  UniqueFunction<void(Status)> done;
  Status result;
  {
    MutexLock lock(mu_);
    if (--pending_ > 0) return;
    done = std::move(done_);
    result = status_;
  }
  done(std::move(result));
}

}  // namespace millrace
