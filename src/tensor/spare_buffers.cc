// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/spare_buffers.h"

#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/mutex.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

struct Spare {
  const SpareBuffers* owner;
  RefPtr<Buffer> buffer;
};

struct Pool {
  Mutex mu;
  std::unordered_multimap<size_t, Spare> spares MR_GUARDED_BY(mu);  // by bytes
  std::unordered_map<const SpareBuffers*, int64_t> bytes MR_GUARDED_BY(mu);
  // Relaxed: a hint. A thread that misses a buffer that was just given back allocates one.
  std::atomic<size_t> count{0};
};

Pool& ThePool() { return OfProcess<Pool>(); }

}  // namespace

SpareBuffers::~SpareBuffers() {
  Pool& pool = ThePool();
  std::vector<RefPtr<Buffer>> gone;  // freed without the lock
  MutexLock lock(pool.mu);
  for (auto at = pool.spares.begin(); at != pool.spares.end();) {
    if (at->second.owner != this) {
      ++at;
      continue;
    }
    gone.push_back(std::move(at->second.buffer));
    at = pool.spares.erase(at);
  }
  pool.bytes.erase(this);
  pool.count.store(pool.spares.size(), std::memory_order_relaxed);
}

void SpareBuffers::Give(Tensor tensor, int64_t max_bytes) {
  if (!tensor.OwnsBufferAlone() || OwnsMemory(tensor.dtype())) return;
  RefPtr<Buffer> buffer = ShareRef(tensor.buffer());
  const size_t size = buffer->size();
  // A part of a buffer, or memory of another owner, can't be reused for a copy.
  if (size < kMinBytes || size != static_cast<size_t>(tensor.num_bytes()) ||
      tensor.raw_data() != buffer->data() || buffer->memory_space() != nullptr) {
    return;
  }
  tensor.Clear();
  Pool& pool = ThePool();
  MutexLock lock(pool.mu);
  int64_t& kept = pool.bytes[this];
  if (kept + static_cast<int64_t>(size) > max_bytes) return;
  kept += static_cast<int64_t>(size);
  pool.spares.emplace(size, Spare{this, std::move(buffer)});
  pool.count.store(pool.spares.size(), std::memory_order_relaxed);
}

int64_t SpareBuffers::bytes() const {
  Pool& pool = ThePool();
  MutexLock lock(pool.mu);
  const auto at = pool.bytes.find(this);
  return at == pool.bytes.end() ? 0 : at->second;
}

RefPtr<Buffer> SpareBuffers::Take(size_t bytes) {
  Pool& pool = ThePool();
  if (bytes < kMinBytes || pool.count.load(std::memory_order_relaxed) == 0) return nullptr;
  MutexLock lock(pool.mu);
  const auto at = pool.spares.find(bytes);
  if (at == pool.spares.end()) return nullptr;
  RefPtr<Buffer> buffer = std::move(at->second.buffer);
  pool.bytes[at->second.owner] -= static_cast<int64_t>(bytes);
  pool.spares.erase(at);
  pool.count.store(pool.spares.size(), std::memory_order_relaxed);
  return buffer;
}

}  // namespace millrace
