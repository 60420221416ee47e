// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "kernels/cpu/fused/elementwise_broadcast.h"
#include "kernels/cpu/fused/elementwise_code.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// Less work than this runs on this thread without the pool.
constexpr double kSmallNs = 4000;
// The number of elements that a thread takes at a time.
constexpr int64_t kShard = 4096;

uint64_t Bit(int i) { return uint64_t{1} << i; }

// Runs a program of element-wise instructions block by block, so that intermediate results stay in the
// cache.
class FusedElementwiseKernel final : public OpKernel {
 public:
  explicit FusedElementwiseKernel(KernelConstruction& c) : OpKernel(c) {
    c.SetError(ReadCode(c.attrs()));
    if (!c.status().ok()) return;
    const int64_t block_bytes = std::max(code_.num_registers(), 1) * code_.register_size();
    block_ = std::min(ElementwiseCode::kMaxBlock, ElementwiseCode::kScratchBytes / block_bytes) / 32 * 32;
    for (int v = 0; v < code_.program().num_values(); ++v) {
      const uint8_t reg = code_.register_of(v);
      if (reg != ElementwiseCode::kNoRegister) {
        in_scratch_.push_back({v, reg * block_ * code_.register_size()});
      } else {
        in_memory_.push_back({v, code_.size(v)});
      }
    }
    for (int i = 0; i < code_.num_steps(); ++i) results_ |= Bit(code_.step(i).result);
    steps_ = Bit(code_.num_steps()) - 1;
  }

  Status Compute(KernelContext& context) override {
    // Flat: inputs have one shape or are one number, so that no layout is needed.
    const int inputs = code_.num_inputs();
    const TensorShape* shape = &context.input(0).shape();
    for (int i = 1; i < inputs; ++i) {
      const TensorShape& other = context.input(i).shape();
      if (other.num_elements() > shape->num_elements() ||
          (other.num_elements() == shape->num_elements() && other.rank() > shape->rank()))
        shape = &other;
    }
    uint64_t arrays = 0;
    ElementwiseCode::Addresses at;
    for (int i = 0; i < inputs; ++i) {
      const Tensor& input = context.input(i);
      at[static_cast<size_t>(i)] = const_cast<char*>(static_cast<const char*>(input.raw_data()));
      if (input.shape() == *shape) {
        arrays |= Bit(i);
      } else if (input.num_elements() != 1 || input.rank() > shape->rank()) {
        return ComputeBroadcast(context);
      }
    }
    if (!code_.IsFlat(arrays)) return ComputeBroadcast(context);
    return ComputeFlat(context, TensorShape(*shape), arrays, &at);
  }

 private:
  Status ReadCode(const AttrMap& attrs) {
    MR_ASSIGN_OR_RETURN(ElementwiseProgram program, ElementwiseProgram::Read(attrs));
    MR_ASSIGN_OR_RETURN(code_, ElementwiseCode::Make(std::move(program)));
    return Status();
  }

  struct Place {
    int value;
    int64_t bytes;  // of an element; or an offset in the scratch
  };

  // Most steps have the shapes of the previous step: the last layout is kept.
  Status ComputeBroadcast(KernelContext& context) {
    std::shared_ptr<const ElementwiseLayout> layout;
    {
      MutexLock lock(mu_);
      layout = layout_;
    }
    if (layout == nullptr || !layout->Fits(context)) {
      MR_ASSIGN_OR_RETURN(layout, ElementwiseLayout::Make(code_, context));
      std::shared_ptr<const ElementwiseLayout> kept =
          layout;  // and then the previous one, released without the lock
      MutexLock lock(mu_);
      layout_.swap(kept);
    }
    return BroadcastElementwise(code_, *layout, context).Run();
  }

  Status ComputeFlat(KernelContext& context, const TensorShape& shape, uint64_t arrays,
                     ElementwiseCode::Addresses* at) const {
    for (int o = 0; o < num_outputs(); ++o) {
      Tensor* out = nullptr;
      for (uint64_t can = code_.replaceable_inputs(o) & arrays; can != 0 && out == nullptr; can &= can - 1)
        out = context.TryForward(std::countr_zero(can), o);
      if (out == nullptr) {
        MR_ASSIGN_OR_RETURN(out, context.AllocateOutput(o, shape));
      }
      (*at)[static_cast<size_t>(code_.program().results[static_cast<size_t>(o)])] =
          static_cast<char*>(out->raw_data());
    }
    arrays |= results_;
    const int64_t n = shape.num_elements();
    int failed = -1;
    if (static_cast<double>(n) * code_.cost_ns() <= kSmallNs) {
      failed = RunRange(*at, arrays, 0, n);
    } else {
      // Relaxed: read after ParallelFor has joined.
      std::atomic<int> shared{-1};
      context.ParallelFor((n - 1) / kShard + 1, static_cast<int64_t>(code_.cost_ns() * kShard) + 1,
                          [&](int64_t begin, int64_t end) {
                            const int step = RunRange(*at, arrays, begin * kShard, std::min(n, end * kShard));
                            if (step >= 0) shared.store(step, std::memory_order_relaxed);
                          });
      failed = shared.load(std::memory_order_relaxed);
    }
    return failed < 0 ? Status() : code_.Failure(failed);
  }

  // Elements [begin, end). Returns the first step that failed, or -1.
  int RunRange(const ElementwiseCode::Addresses& base, uint64_t arrays, int64_t begin, int64_t end) const {
    alignas(64) std::array<char, ElementwiseCode::kScratchBytes> scratch;
    ElementwiseCode::Addresses at;
    for (const Place& place : in_scratch_)
      at[static_cast<size_t>(place.value)] = scratch.data() + place.bytes;
    int failed = -1;
    for (int64_t pos = begin; pos < end; pos += block_) {
      for (const Place& place : in_memory_) {
        const auto v = static_cast<size_t>(place.value);
        at[v] = base[v] + ((arrays >> v & 1) != 0 ? pos * place.bytes : 0);
      }
      const int step = code_.Run(at, arrays, steps_, std::min(block_, end - pos));
      if (failed < 0) failed = step;
    }
    return failed;
  }

  ElementwiseCode code_;
  int64_t block_ = ElementwiseCode::kMaxBlock;
  std::vector<Place> in_scratch_, in_memory_;
  uint64_t results_ = 0;  // values that are results of steps
  uint64_t steps_ = 0;    // all of them
  Mutex mu_;
  std::shared_ptr<const ElementwiseLayout> layout_ MR_GUARDED_BY(mu_);
};

}  // namespace

void RegisterFusedElementwiseKernels(KernelRegistry& registry) {
  registry.Register<FusedElementwiseKernel>(KernelDef("_FusedElementwise"));
}

}  // namespace millrace
