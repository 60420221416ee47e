// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "base/cancellation.h"
#include "base/mutex.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "kernel/call_frame.h"
#include "kernel/op_kernel.h"
#include "kernel/rendezvous.h"
#include "kernel/resource.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/buffer.h"

namespace millrace {

// A value on an edge: an owned tensor, a borrowed constant, or a reference to a variable's tensor with its
// mutex.
struct TensorValue {
  enum class Kind : uint8_t { kNone, kValue, kConstant, kRef };
  Tensor value;                      // kValue
  const Tensor* borrowed = nullptr;  // kConstant
  Tensor* ref = nullptr;             // kRef
  Mutex* ref_mu = nullptr;           // kRef
  Kind kind = Kind::kNone;
  bool is_dead = false;

  const Tensor& tensor() const {
    return kind == Kind::kValue ? value : kind == Kind::kConstant ? *borrowed : *ref;
  }
};

class SessionTensors;
struct StepHost;  // the executor's

// The services of a whole step for its kernels. Outlives the step's kernels.
struct StepServices {
  // A constructor, so that compilers set members one by one: clearing an aggregate of this size costs 12 ns
  // per step.
  StepServices() {}

  int64_t step_id = 0;
  Device* device = nullptr;
  Allocator* allocator = nullptr;       // of the device's memory, for this step
  Allocator* host_allocator = nullptr;  // of host memory; null: `allocator` is
  ResourceManager* resources = nullptr;
  Rendezvous* rendezvous = nullptr;             // null when nothing is sent
  CallFrame* call_frame = nullptr;              // feeds and fetches
  CancellationManager* cancellation = nullptr;  // never null within a step
  ThreadPool* pool = nullptr;                   // null: run everything on the calling thread
  ThreadPool* inter_op_pool = nullptr;          // for nodes of called functions; null: one after the other
  ResourceManager* step_resources = nullptr;    // dropped when the step ends
  SessionTensors* session_tensors = nullptr;    // null: the step belongs to no session
  int call_depth = 0;                           // function calls in progress around this step
  const StepHost* host = nullptr;               // for calls: the services of the step around them

  // The device with its allocators.
  void UseDevice(Device& of) {
    device = &of;
    allocator = &of.allocator();
    host_allocator = of.has_own_memory() ? &of.host_allocator() : nullptr;
  }
};

// One invocation of a kernel: its inputs, the destination of its outputs, and the services of the step. One
// thread at a time.
class KernelContext {
 public:
  KernelContext(const StepServices& step, const OpKernel* kernel, std::span<TensorValue> inputs,
                std::span<TensorValue> outputs)
      : step_(&step), kernel_(kernel), inputs_(inputs.data()), outputs_(outputs.data()) {}
  // Prepares the context for another node of the same step.
  void Rebind(const OpKernel* kernel, TensorValue* inputs, TensorValue* outputs) {
    kernel_ = kernel;
    inputs_ = inputs;
    outputs_ = outputs;
  }

  const OpKernel& kernel() const { return *kernel_; }
  int num_inputs() const { return kernel_->num_inputs(); }
  int num_outputs() const { return kernel_->num_outputs(); }
  DataType output_type(int i) const { return kernel_->output_type(i); }

  // The value of an input, of either kind. A reference is read without the lock, as in
  // TensorFlow.
  const Tensor& input(int i) const { return inputs_[i].tensor(); }
  bool input_is_ref(int i) const { return inputs_[i].kind == TensorValue::Kind::kRef; }
  // REQUIRES: input_is_ref(i).
  Tensor& ref_input(int i) const { return *inputs_[i].ref; }
  Mutex& ref_mutex(int i) const { return *inputs_[i].ref_mu; }
  // True when the edge into input `i` is dead; only control-flow and send kernels see such inputs.
  bool input_is_dead(int i) const { return inputs_[i].is_dead; }

  // Outputs. Each is set at most once.
  void set_output(int i, Tensor tensor) {
    outputs_[i].value = std::move(tensor);
    outputs_[i].kind = TensorValue::Kind::kValue;
  }
  void set_output_ref(int i, Mutex* mu, Tensor* tensor) {
    outputs_[i].ref = tensor;
    outputs_[i].ref_mu = mu;
    outputs_[i].kind = TensorValue::Kind::kRef;
  }
  void set_output_dead(int i) { outputs_[i].is_dead = true; }
  // Passes a reference input on as a reference output.
  void ForwardRef(int input, int output) {
    set_output_ref(output, inputs_[input].ref_mu, inputs_[input].ref);
  }
  StatusOr<Tensor*> AllocateOutput(int i, const TensorShape& shape) {
    auto made = Tensor::Allocate(output_type(i), shape, output_allocator(i));
    if (!made.ok()) [[unlikely]]
      return std::move(made).status();
    return PutOutput(i, *std::move(made));
  }
  // Makes the tensor of input `i` the output when it may be overwritten: it is a value without other
  // references, of the output's type. The shape is kept, and the input can be read until the kernel writes
  // the output. Null, and no change, when that is not possible.
  Tensor* TryForward(int i, int output) {
    TensorValue& in = inputs_[i];
    if (in.kind != TensorValue::Kind::kValue || in.value.dtype() != output_type(output) ||
        !in.value.OwnsBufferAlone() || !SameMemory(i, output)) {
      return nullptr;
    }
    Tensor* out = &outputs_[output].value;
    *out = std::move(in.value);
    outputs_[output].kind = TensorValue::Kind::kValue;
    // Replaces the input by its new value. The walkers do not write such a slot again before it is consumed.
    in.kind = TensorValue::Kind::kConstant;
    in.borrowed = out;
    return out;
  }
  // Reuses the buffer of the first input in `candidates` that has no other references and a matching type
  // and number of elements, else allocates. The input can still be read until the kernel writes the
  // output.
  StatusOr<Tensor*> ForwardInputOrAllocateOutput(std::initializer_list<int> candidates, int output,
                                                 const TensorShape& shape) {
    for (const int i : candidates) {
      const TensorValue& in = inputs_[i];
      if (in.kind == TensorValue::Kind::kValue && in.value.shape() == shape) {
        if (Tensor* out = TryForward(i, output); out != nullptr) return out;
      } else if (CanForward(i, output_type(output), shape) && SameMemory(i, output)) {
        return PutOutput(output, in.value.WithShape(shape));
      }
    }
    return AllocateOutput(output, shape);
  }
  // The tensor of input `i` when its buffer has no other reference and may be overwritten, else a new one. In
  // device memory, if the device has its own.
  StatusOr<Tensor> ForwardInputOrAllocateTemp(std::initializer_list<int> candidates, DataType dtype,
                                              const TensorShape& shape);
  // In device memory, if the device has its own.
  StatusOr<Tensor> AllocateTemp(DataType dtype, const TensorShape& shape) {
    return Tensor::Allocate(dtype, shape, allocator());
  }
  StatusOr<Tensor> AllocateHostTemp(DataType dtype, const TensorShape& shape) {
    return Tensor::Allocate(dtype, shape, host_allocator());
  }
  // Moves input `i` out when it is an owned value, else copies it (sharing the buffer).
  Tensor TakeInput(int i) {
    TensorValue& in = inputs_[i];
    if (in.kind == TensorValue::Kind::kValue) return std::move(in.value);
    return in.tensor();
  }

  // The execution of a loop in which this runs, and the number of the iteration; 0 and 0 outside of loops.
  // Equal in all partitions of the step.
  uint64_t frame() const { return frame_; }
  int64_t iteration() const { return iteration_; }
  void set_frame(uint64_t frame, int64_t iteration) {
    frame_ = frame;
    iteration_ = iteration;
  }

  // Services.
  const StepServices& step() const { return *step_; }
  int64_t step_id() const { return step_->step_id; }
  Device& device() const { return *step_->device; }
  ResourceManager& resources() const { return *step_->resources; }
  Rendezvous* rendezvous() const { return step_->rendezvous; }
  CallFrame* call_frame() const { return step_->call_frame; }
  CancellationManager& cancellation() const { return *step_->cancellation; }
  // Allocators of the device's memory, and of host memory: the same on a CPU.
  Allocator& allocator() const { return *step_->allocator; }
  Allocator& host_allocator() const {
    return step_->host_allocator == nullptr ? *step_->allocator : *step_->host_allocator;
  }
  // Allocates the memory in which output `i` has to be.
  Allocator& output_allocator(int i) const {
    if (step_->host_allocator == nullptr) [[likely]]
      return *step_->allocator;
    return kernel_->output_on_host(i) ? *step_->host_allocator : *step_->allocator;
  }
  // Calls fn on disjoint ranges covering [0, total), on this thread and, if there is enough work, on others.
  // `cost_ns` is the estimated time of one unit.
  void ParallelFor(int64_t total, int64_t cost_ns, ThreadPool::ShardFn fn) const {
    if (step_->pool != nullptr) {
      step_->pool->ParallelFor(total, cost_ns, fn);
    } else if (total > 0) {
      fn(0, total);
    }
  }
  int parallelism() const { return step_->pool == nullptr ? 1 : step_->pool->parallelism(); }

 private:
  bool CanForward(int input, DataType dtype, const TensorShape& shape) const;
  // Whether an input is in the memory where the output has to be.
  bool SameMemory(int input, int output) const {
    return step_->host_allocator == nullptr ||
           kernel_->input_on_host(input) == kernel_->output_on_host(output);
  }
  Tensor* PutOutput(int i, Tensor tensor) {
    outputs_[i].value = std::move(tensor);
    outputs_[i].kind = TensorValue::Kind::kValue;
    return &outputs_[i].value;
  }

  const StepServices* step_;
  const OpKernel* kernel_;
  TensorValue* inputs_;
  TensorValue* outputs_;
  uint64_t frame_ = 0;
  int64_t iteration_ = 0;
};

}  // namespace millrace
