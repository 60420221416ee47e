// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/state/variable_util.h"

#include <algorithm>
#include <functional>

#include "kernels/cpu/vector/stream.h"
#include "tensor/buffer.h"
#include "tensor/spare_buffers.h"

namespace millrace {
namespace {

// Memory for new values of a variable: that of saved values, else new memory.
StatusOr<Tensor> AllocateBeside(KernelContext& context, DataType dtype, const TensorShape& shape) {
  // Strings and the like are in host memory, also those of a variable on a device with memory of its own.
  if (OwnsMemory(dtype)) return context.AllocateHostTemp(dtype, shape);
  if (context.allocator().memory_space() == nullptr) {
    const auto bytes = static_cast<size_t>(shape.num_elements()) * ElementSize(dtype);
    if (RefPtr<Buffer> spare = SpareBuffers::Take(bytes); spare != nullptr) {
      void* const data = spare->data();
      return Tensor::FromBuffer(dtype, shape, std::move(spare), data);
    }
  }
  return context.AllocateTemp(dtype, shape);
}

void CopyTo(KernelContext& context, const Tensor& from, Tensor& to) {
  static constexpr int64_t kBlock = 64 << 10;
  static constexpr int64_t kCostNs = 4000;  // of a block
  const auto bytes = static_cast<int64_t>(from.num_bytes());
  if (OwnsMemory(from.dtype()) || bytes < cpu::kMinStreamBytes) {
    ContextParallel parallel(context);
    MoveElements(from.dtype(), from.raw_data(), to.raw_data(), from.num_elements(), parallel);
    return;
  }
  const char* const source = static_cast<const char*>(from.raw_data());
  char* const target = static_cast<char*>(to.raw_data());
  context.ParallelFor((bytes + kBlock - 1) / kBlock, kCostNs, [&](int64_t begin, int64_t end) {
    const int64_t at = begin * kBlock;
    cpu::StreamOut(source + at, target + at, static_cast<size_t>(std::min(end * kBlock, bytes) - at));
    cpu::StreamFence();
  });
}

}  // namespace

Status MakeWritable(KernelContext& context, Tensor& tensor) {
  if (tensor.num_elements() == 0 || tensor.OwnsBufferAlone()) return Status();
  MR_ASSIGN_OR_RETURN(Tensor copy, AllocateBeside(context, tensor.dtype(), tensor.shape()));
  CopyTo(context, tensor, copy);
  tensor = std::move(copy);
  return Status();
}

Status StoreInput(KernelContext& context, int i, Tensor& variable) {
  // A view of a much larger buffer would keep all of it alive.
  const Tensor& value = context.input(i);
  if (!context.input_is_ref(i) && value.OwnsBufferAlone() &&
      value.buffer()->size() <= 2 * value.num_bytes()) {
    Tensor taken = context.TakeInput(i);
    if (taken.OwnsBufferAlone()) {
      variable = std::move(taken);
      return Status();
    }
    // The buffer belongs to a constant of the graph: releases the reference just taken.
  }
  const Tensor& source = context.input(i);
  if (variable.shape() == source.shape() && variable.raw_data() == source.raw_data()) return Status();
  ContextParallel parallel(context);
  if (variable.shape() == source.shape() && variable.OwnsBufferAlone()) {
    MoveElements(source.dtype(), source.raw_data(), variable.raw_data(), source.num_elements(), parallel);
    return Status();
  }
  MR_ASSIGN_OR_RETURN(Tensor copy, AllocateBeside(context, source.dtype(), source.shape()));
  CopyTo(context, source, copy);
  variable = std::move(copy);
  return Status();
}

Status UpdateBy(KernelContext& context, const cpu::BinaryFns& fns, Tensor& variable, const Tensor& value) {
  static constexpr int64_t kBlock = 4096;  // elements
  const int64_t n = variable.num_elements();
  if (n == 0) return Status();
  const auto size = static_cast<int64_t>(ElementSize(variable.dtype()));
  const bool in_place = variable.OwnsBufferAlone();
  Tensor fresh;
  if (!in_place) {
    MR_ASSIGN_OR_RETURN(fresh, AllocateBeside(context, variable.dtype(), variable.shape()));
  }
  const char* from = static_cast<const char*>(variable.raw_data());
  const char* by = static_cast<const char*>(value.raw_data());
  char* to = static_cast<char*>(in_place ? variable.raw_data() : fresh.raw_data());
  const bool stream = !in_place && n * size >= cpu::kMinStreamBytes;
  const auto run = [&](int64_t begin, int64_t end) {
    if (!stream) {
      const int64_t at = begin * kBlock * size;
      fns.same(from + at, by + at, to + at, std::min(end * kBlock, n) - begin * kBlock);
      return;
    }
    static constexpr int64_t kScratchBytes = 8192;
    alignas(64) char scratch[kScratchBytes];
    const int64_t block = kScratchBytes / size;
    for (int64_t first = begin * kBlock, last = std::min(end * kBlock, n); first < last; first += block) {
      const int64_t count = std::min(block, last - first), at = first * size;
      fns.same(from + at, by + at, scratch, count);
      cpu::StreamOut(scratch, to + at, static_cast<size_t>(count * size));
    }
    cpu::StreamFence();
  };
  if (n <= kBlock) {
    run(0, 1);
  } else {
    context.ParallelFor((n + kBlock - 1) / kBlock, kBlock, run);
  }
  if (!in_place) variable = std::move(fresh);
  return Status();
}

StatusOr<const ResourceHandle*> HandleInput(const KernelContext& context, int i) {
  const Tensor& t = context.input(i);
  if (t.num_elements() != 1) {
    return errors::InvalidArgument("Input ", i, " must be a scalar resource handle, got shape ", t.shape());
  }
  return &t.scalar<ResourceHandle>();
}

Status UninitializedVariable(const ResourceHandle& handle, std::string_view why) {
  return errors::FailedPrecondition(
      "Error while reading resource variable ", handle.name, " from Container: ",
      handle.container.empty() ? ResourceManager::kDefaultContainer : std::string_view(handle.container),
      ". This could mean that the variable was uninitialized. ", why);
}

StatusOr<RefPtr<Variable>> FindVariable(const KernelContext& context, int i) {
  MR_ASSIGN_OR_RETURN(const ResourceHandle* handle, HandleInput(context, i));
  auto found = context.resources().LookupHandle<Variable>(*handle);
  if (!found.ok() && errors::IsNotFound(found.status())) {
    return UninitializedVariable(*handle, found.status().ToString());
  }
  return found;
}

LockedVariables::~LockedVariables() MR_NO_THREAD_SAFETY_ANALYSIS {
  for (int i = 0; i < locked_; ++i) mutexes_[i]->Unlock();
}

Status LockedVariables::Open(KernelContext& context, int n, DataType dtype) MR_NO_THREAD_SAFETY_ANALYSIS {
  n_ = n;
  for (int i = 0; i < n; ++i) {
    if (context.input_is_ref(i)) {
      tensors_[i] = &context.ref_input(i);
      mutexes_[i] = &context.ref_mutex(i);
    } else {
      MR_ASSIGN_OR_RETURN(held_[i], FindVariable(context, i));
      tensors_[i] = &held_[i]->tensor();
      mutexes_[i] = &held_[i]->mu();
    }
    for (int k = 0; k < i; ++k) {
      if (tensors_[k] == tensors_[i]) {
        return errors::InvalidArgument("Inputs ", k, " and ", i, " of ", context.kernel().op_name(),
                                       " are the same variable");
      }
    }
  }
  // In order of address, so that two ops on the same variables don't deadlock.
  std::sort(mutexes_, mutexes_ + n, std::less<>());
  for (; locked_ < n; ++locked_) mutexes_[locked_]->Lock();
  for (int i = 0; i < n; ++i) {
    if (held_[i] != nullptr && !held_[i]->is_initialized) {
      return UninitializedVariable(context.input(i).scalar<ResourceHandle>(), "The variable has no value.");
    }
    if (!tensors_[i]->IsInitialized()) {
      return errors::FailedPrecondition("Attempting to use uninitialized variables: input ", i, " of ",
                                        context.kernel().name());
    }
    if (tensors_[i]->dtype() != dtype) {
      return errors::InvalidArgument("Trying to update variable with wrong dtype. Expected ",
                                     DataTypeName(tensors_[i]->dtype()), " got ", DataTypeName(dtype));
    }
  }
  return Status();
}

Status LockedVariables::MakeAllWritable(KernelContext& context) {
  for (int i = 0; i < n_; ++i) MR_RETURN_IF_ERROR(MakeWritable(context, *tensors_[i]));
  return Status();
}

Status LockedVariables::Prepare(KernelContext& context) {
  for (int i = 0; i < n_; ++i) {
    const Tensor& old = *tensors_[i];
    if (old.num_elements() == 0 || old.OwnsBufferAlone()) continue;
    MR_ASSIGN_OR_RETURN(fresh_[i], AllocateBeside(context, old.dtype(), old.shape()));
  }
  return Status();
}

void LockedVariables::Publish() {
  for (int i = 0; i < n_; ++i) {
    if (beside(i)) *tensors_[i] = std::move(fresh_[i]);
  }
}

}  // namespace millrace
