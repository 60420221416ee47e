// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// User-defined kernels, in sources written for TensorFlow:
//
//   class ZeroOut : public tensorflow::OpKernel {
//    public:
//     explicit ZeroOut(tensorflow::OpKernelConstruction* context) : OpKernel(context) {}
//     void Compute(tensorflow::OpKernelContext* context) override { … }
//   };
//   REGISTER_KERNEL_BUILDER(Name("ZeroOut").Device(DEVICE_CPU), ZeroOut);
//
// Exceptions of a kernel become errors of the step. Variants are passed on unchanged, but kernels cannot
// access their contents; for resources there is resource_mgr.h.
#ifndef TENSORFLOW_CORE_FRAMEWORK_OP_KERNEL_H_
#define TENSORFLOW_CORE_FRAMEWORK_OP_KERNEL_H_

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "millrace/c/user_op.h"
#include "tensorflow/core/framework/attr_value_reader.h"
#include "tensorflow/core/framework/eigen_devices.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/macros.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow {

class OpKernelConstruction;
class OpKernelContext;

// The memory of an output. All memory is host memory.
struct AllocatorAttributes {
  void set_on_host(bool) {}
  bool on_host() const { return true; }
  void set_gpu_compatible(bool) {}
};

class DeviceBase {
 public:
  struct CpuWorkerThreads {
    int num_threads;
    OpKernelContext* workers;
  };
};

namespace internal {
inline Status Allocate(DataType dtype, const TensorShape& shape, Tensor* tensor) {
  *tensor = Tensor(dtype, shape);
  return tensor->IsInitialized() ? Status()
                                 : errors::ResourceExhausted("No memory for a tensor of shape ", shape);
}
}  // namespace internal

// A tensor that a kernel keeps between steps.
class PersistentTensor {
 public:
  PersistentTensor() {}
  explicit PersistentTensor(const Tensor& tensor) : tensor_(tensor) {}
  template <typename Context>
  Tensor* AccessTensor(Context*) {
    return &tensor_;
  }
  // To be called by the contexts of kernels; `tensor` may be null.
  Status Allocate(DataType dtype, const TensorShape& shape, Tensor** tensor) {
    TF_RETURN_IF_ERROR(internal::Allocate(dtype, shape, &tensor_));
    if (tensor != nullptr) *tensor = &tensor_;
    return Status();
  }
  bool IsInitialized() const { return tensor_.IsInitialized(); }
  int64 NumElements() const { return tensor_.NumElements(); }

 private:
  Tensor tensor_;
};

class OpKernelConstruction {
 public:
  explicit OpKernelConstruction(TF_OpKernelConstruction* c) : c_(c) {}
  OpKernelConstruction(const OpKernelConstruction&) = delete;
  OpKernelConstruction& operator=(const OpKernelConstruction&) = delete;

  // Reads int32, int64, float, bool, string, DataType, TensorShape, PartialTensorShape, and vectors of them.
  template <typename T>
  Status GetAttr(const string& name, T* value) const {
    TF_OpKernelConstruction* const c = c_;
    return internal::GetAttrBy(
        [c, &name](TF_Buffer* buffer, TF_Status* status) {
          Millrace_KernelAttr(c, name.c_str(), buffer, status);
        },
        name, value);
  }
  bool HasAttr(const string& name) const {
    internal::CStatus status;
    const internal::CBuffer buffer;
    Millrace_KernelAttr(c_, name.c_str(), buffer.get(), status.get());
    return status.status().ok();
  }
  int num_inputs() const { return Millrace_KernelTypes(c_, 0, nullptr, 0); }
  int num_outputs() const { return Millrace_KernelTypes(c_, 1, nullptr, 0); }
  Env* env() const { return Env::Default(); }
  Status allocate_temp(DataType dtype, const TensorShape& shape, Tensor* tensor) {
    return internal::Allocate(dtype, shape, tensor);
  }
  Status allocate_persistent(DataType dtype, const TensorShape& shape, PersistentTensor* persistent,
                             Tensor** tensor) {
    return persistent->Allocate(dtype, shape, tensor);
  }
  DataType input_type(int i) const { return Types(0).at(static_cast<size_t>(i)); }
  DataType output_type(int i) const { return Types(1).at(static_cast<size_t>(i)); }
  string node_name() const { return internal::CBuffer(Millrace_KernelNodeName(c_)).text(); }
  string op_name() const { return Millrace_KernelOpName(c_); }
  // Checks the types of inputs and outputs.
  Status MatchSignature(const DataTypeVector& inputs, const DataTypeVector& outputs) const {
    if (Types(0) == inputs && Types(1) == outputs) return Status();
    return errors::InvalidArgument("Signature mismatch of op ", op_name());
  }
  void SetStatus(const Status& status) {
    if (!status.ok()) TF_OpKernelConstruction_Failure(c_, internal::CStatus(status).get());
  }
  void CtxFailure(const Status& status) { SetStatus(status); }
  void CtxFailure(const char*, int, const Status& status) { SetStatus(status); }
  void CtxFailureWithWarning(const Status& status) { SetStatus(status); }
  void CtxFailureWithWarning(const char*, int, const Status& status) { SetStatus(status); }
  TF_OpKernelConstruction* c_construction() const { return c_; }

 private:
  DataTypeVector Types(int outputs) const {
    std::vector<TF_DataType> types(static_cast<size_t>(Millrace_KernelTypes(c_, outputs, nullptr, 0)));
    Millrace_KernelTypes(c_, outputs, types.data(), static_cast<int>(types.size()));
    DataTypeVector result;
    for (const TF_DataType type : types) result.push_back(static_cast<DataType>(type));
    return result;
  }
  TF_OpKernelConstruction* const c_;
};

class ResourceMgr;

// The properties of its node that a kernel keeps.
class NodeDef {
 public:
  // The name of its resource, by the attributes "container" and "shared_name"; see ContainerInfo.
  struct Place {
    Status status;
    string container, name;
    bool is_private = false;
  };
  explicit NodeDef(OpKernelConstruction* c) : name_(c->node_name()), op_(c->op_name()) {
    by_node_name_ = Read(c, 1);
    by_own_name_ = Read(c, 0);
  }
  const string& name() const { return name_; }
  const string& op() const { return op_; }
  const Place& resource_by_node_name() const { return by_node_name_; }
  const Place& resource_by_own_name() const { return by_own_name_; }

 private:
  static Place Read(OpKernelConstruction* c, int use_node_name) {
    Place place;
    unsigned char is_private = 0;
    internal::CStatus status;
    const internal::CBuffer container, name;
    Millrace_KernelResourceName(c->c_construction(), use_node_name, container.get(), name.get(), &is_private,
                                status.get());
    place.status = status.status();
    place.container = container.text();
    place.name = name.text();
    place.is_private = is_private != 0;
    return place;
  }
  string name_, op_;
  Place by_node_name_, by_own_name_;
};

class OpKernel {
 public:
  explicit OpKernel(OpKernelConstruction* c)
      : def_(c), num_inputs_(c->num_inputs()), num_outputs_(c->num_outputs()) {}
  OpKernel(const OpKernel&) = delete;
  OpKernel& operator=(const OpKernel&) = delete;
  virtual ~OpKernel() {}
  // Several steps may call it at the same time.
  virtual void Compute(OpKernelContext* context) = 0;
  const string& name() const { return def_.name(); }
  const string& type_string() const { return def_.op(); }
  const NodeDef& def() const { return def_; }
  int num_inputs() const { return num_inputs_; }
  int num_outputs() const { return num_outputs_; }

 private:
  const NodeDef def_;
  const int num_inputs_, num_outputs_;
};

// The inputs, or the outputs, of a list argument of the op.
class OpInputList {
 public:
  OpInputList() : context_(nullptr), begin_(0), end_(0) {}
  OpInputList(OpKernelContext* context, int begin, int end) : context_(context), begin_(begin), end_(end) {}
  int size() const { return end_ - begin_; }
  inline const Tensor& operator[](int i) const;

 private:
  OpKernelContext* context_;
  int begin_, end_;
};
class OpOutputList {
 public:
  OpOutputList() : context_(nullptr), begin_(0), end_(0) {}
  OpOutputList(OpKernelContext* context, int begin, int end) : context_(context), begin_(begin), end_(end) {}
  int size() const { return end_ - begin_; }
  inline Status allocate(int i, const TensorShape& shape, Tensor** output);
  inline void set(int i, const Tensor& tensor);
  inline Tensor* operator[](int i);

 private:
  OpKernelContext* context_;
  int begin_, end_;
};

// The context of a Compute call. Shards of ParallelFor may read inputs and set the status at the same time;
// outputs are for one thread at a time.
class OpKernelContext {
 public:
  explicit OpKernelContext(TF_OpKernelContext* c)
      : c_(c),
        inputs_(static_cast<size_t>(TF_NumInputs(c))),
        outputs_(static_cast<size_t>(TF_NumOutputs(c))) {}
  OpKernelContext(const OpKernelContext&) = delete;
  OpKernelContext& operator=(const OpKernelContext&) = delete;

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  int64 step_id() const { return TF_StepId(c_); }

  const Tensor& input(int i) {
    Slot& slot = inputs_.at(static_cast<size_t>(i));
    const std::lock_guard<std::mutex> lock(mu_);
    if (!slot.there) {
      TF_Tensor* tensor = nullptr;
      internal::CStatus status;
      TF_GetInput(c_, i, &tensor, status.get());
      status_.Update(status.status());
      slot.tensor = Tensor::Adopt(tensor);
      slot.there = true;
    }
    return slot.tensor;
  }
  Status input(const string& name, const Tensor** tensor) {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 0, &begin, &end));
    if (end != begin + 1)
      return errors::InvalidArgument("OpKernel used list-valued input name '", name,
                                     "' when single-valued input was expected");
    *tensor = &input(begin);
    return Status();
  }
  Status input_list(const string& name, OpInputList* list) {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 0, &begin, &end));
    *list = OpInputList(this, begin, end);
    return Status();
  }
  DataType input_dtype(int i) { return input(i).dtype(); }

  // Inputs of the type Ref(T), such as variables. The mutex is that of the variable; callers that hold it
  // pass lock_held.
  bool input_is_ref(int i) const { return Millrace_InputIsRef(c_, i) != 0; }
  mutex* input_ref_mutex(int i) {
    const std::lock_guard<std::mutex> lock(mu_);
    for (RefMutex& known : ref_mutexes_) {
      if (known.input() == i) return &known;
    }
    ref_mutexes_.emplace_back(c_, i);
    return &ref_mutexes_.back();
  }
  // The variable's own tensor, to be changed in place.
  Tensor mutable_input(int i, bool lock_held) {
    const RefLock lock(input_ref_mutex(i), lock_held);
    TF_Tensor* tensor = nullptr;
    const internal::CStatus status;
    Millrace_RefInput(c_, i, &tensor, status.get());
    SetStatus(status.status());
    return tensor == nullptr ? Tensor() : Tensor::Adopt(tensor);
  }
  Status mutable_input(const string& name, Tensor* tensor, bool lock_held) {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 0, &begin, &end));
    *tensor = mutable_input(begin, lock_held);
    return status_;
  }
  // Sets the value of the variable.
  void replace_ref_input(int i, const Tensor& tensor, bool lock_held) {
    TF_Tensor* const value = tensor.ToC();
    if (value == nullptr) return SetStatus(errors::ResourceExhausted("No memory for input ", i));
    const internal::CStatus status;
    {
      const RefLock lock(input_ref_mutex(i), lock_held);
      Millrace_ReplaceRef(c_, i, value, status.get());
    }
    TF_DeleteTensor(value);
    SetStatus(status.status());
  }
  // Makes the output refer to the same variable.
  void forward_ref_input_to_ref_output(int input, int output) {
    const internal::CStatus status;
    Millrace_ForwardRef(c_, input, output, status.get());
    SetStatus(status.status());
  }
  DataType expected_output_dtype(int i) const {
    return static_cast<DataType>(TF_ExpectedOutputDataType(c_, i));
  }

  // The tensor exists as long as the context.
  Status allocate_output(int i, const TensorShape& shape, Tensor** tensor) {
    if (i < 0 || i >= num_outputs()) return errors::OutOfRange("output index out of range");
    Slot& slot = outputs_[static_cast<size_t>(i)];
    const DataType dtype = expected_output_dtype(i);
    if (dtype == DT_STRING) {
      slot.tensor = Tensor(DT_STRING, shape);
    } else {
      std::vector<int64_t> dims(shape.dim_sizes().begin(), shape.dim_sizes().end());
      if (shape.num_elements() < 0)
        return errors::InvalidArgument("the shape ", shape, " is not fully defined");
      TF_Tensor* const made = TF_AllocateOutput(
          c_, i, static_cast<TF_DataType>(dtype), dims.data(), shape.dims(),
          static_cast<size_t>(shape.num_elements()) * static_cast<size_t>(DataTypeSize(dtype)));
      if (made == nullptr) return errors::ResourceExhausted("No memory for output ", i, " of shape ", shape);
      slot.tensor = Tensor::Adopt(made);
    }
    slot.there = true;
    *tensor = &slot.tensor;
    return Status();
  }
  Status allocate_output(const string& name, const TensorShape& shape, Tensor** tensor) {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 1, &begin, &end));
    if (end != begin + 1)
      return errors::InvalidArgument("OpKernel used list-valued output name '", name,
                                     "' when single-valued output was expected");
    return allocate_output(begin, shape, tensor);
  }
  Status output_list(const string& name, OpOutputList* list) {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 1, &begin, &end));
    *list = OpOutputList(this, begin, end);
    return Status();
  }
  template <typename IndexOrName>
  Status allocate_output(const IndexOrName& at, const TensorShape& shape, Tensor** tensor,
                         AllocatorAttributes) {
    return allocate_output(at, shape, tensor);
  }
  // The memory of an input is never reused: inputs may be shared.
  Status forward_input_or_allocate_output(const std::vector<int>&, int i, const TensorShape& shape,
                                          Tensor** tensor) {
    return allocate_output(i, shape, tensor);
  }
  Status forward_input_or_allocate_output(const std::vector<StringPiece>&, const string& name,
                                          const TensorShape& shape, Tensor** tensor) {
    return allocate_output(name, shape, tensor);
  }
  Status allocate_temp(DataType dtype, const TensorShape& shape, Tensor* tensor) {
    return internal::Allocate(dtype, shape, tensor);
  }
  Status allocate_temp(DataType dtype, const TensorShape& shape, Tensor* tensor, AllocatorAttributes) {
    return allocate_temp(dtype, shape, tensor);
  }
  Status allocate_persistent(DataType dtype, const TensorShape& shape, PersistentTensor* persistent,
                             Tensor** tensor) {
    return persistent->Allocate(dtype, shape, tensor);
  }
  Env* env() const { return Env::Default(); }
  Status set_output(const string& name, const Tensor& tensor) {
    int begin = 0, end = 0;
    TF_RETURN_IF_ERROR(Range(name, 1, &begin, &end));
    if (end != begin + 1)
      return errors::InvalidArgument("OpKernel used list-valued output name '", name,
                                     "' when single-valued output was expected");
    set_output(begin, tensor);
    return Status();
  }
  void set_output(int i, const Tensor& tensor) {
    if (i < 0 || i >= num_outputs()) return SetStatus(errors::OutOfRange("output index out of range"));
    Slot& slot = outputs_[static_cast<size_t>(i)];
    slot.tensor = tensor;
    slot.there = true;
    slot.set = true;
  }
  Tensor* mutable_output(int i) {
    Slot& slot = outputs_.at(static_cast<size_t>(i));
    return slot.there ? &slot.tensor : nullptr;
  }

  const Status& status() const { return status_; }
  void SetStatus(const Status& status) {
    const std::lock_guard<std::mutex> lock(mu_);
    status_.Update(status);
  }
  void CtxFailure(const Status& status) { SetStatus(status); }
  void CtxFailure(const char*, int, const Status& status) { SetStatus(status); }
  void CtxFailureWithWarning(const Status& status) { SetStatus(status); }
  void CtxFailureWithWarning(const char*, int, const Status& status) { SetStatus(status); }

  // Runs parts of [0, total) on the threads of the step; returns when all are done, and throws the first
  // exception of a part again.
  void ParallelFor(int64 total, int64 cost_per_unit, const std::function<void(int64, int64)>& work) {
    struct Parts {
      const std::function<void(int64, int64)>& work;
      std::mutex mu;
      std::exception_ptr thrown;
    } parts{work, {}, nullptr};
    Millrace_KernelParallelFor(
        c_, total, cost_per_unit,
        [](void* data, int64_t begin, int64_t end) {
          Parts* const all = static_cast<Parts*>(data);
          try {
            all->work(begin, end);
          } catch (...) {
            const std::lock_guard<std::mutex> lock(all->mu);
            if (!all->thrown) all->thrown = std::current_exception();
          }
        },
        &parts);
    if (parts.thrown) std::rethrow_exception(parts.thrown);
  }
  // Defined in resource_mgr.h. Exists as long as the context.
  inline ResourceMgr* resource_manager();
  TF_OpKernelContext* c_context() const { return c_; }
  // The name in util/work_sharder.h and in kernels.
  inline OpKernelContext* device() { return this; }
  using WorkerThreads = DeviceBase::CpuWorkerThreads;
  const WorkerThreads* tensorflow_cpu_worker_threads() {
    threads_.num_threads = internal::NumCores();
    threads_.workers = this;
    return &threads_;
  }

  // See eigen_devices.h.
  template <typename Device, typename Devices = internal::EigenDevices>
  const Device& eigen_device() const {
    return *static_cast<const Device*>(Devices::Get(static_cast<const Device*>(nullptr)));
  }
  template <typename Devices = internal::EigenDevices>
  const Eigen::ThreadPoolDevice& eigen_cpu_device() const {
    return eigen_device<Eigen::ThreadPoolDevice, Devices>();
  }

  // Called once after Compute: sets the outputs, or the error.
  void Finish() {
    for (size_t i = 0; i < outputs_.size() && status_.ok(); ++i) {
      Slot& slot = outputs_[i];
      if (!slot.there || (!slot.set && slot.tensor.dtype() != DT_STRING)) continue;
      if (!slot.tensor.IsInitialized()) {
        SetStatus(errors::InvalidArgument("Output ", i, " is set to a tensor that is not initialized"));
        break;
      }
      if (slot.tensor.dtype() != expected_output_dtype(static_cast<int>(i))) {
        SetStatus(errors::InvalidArgument("Output ", i, " is of type ", DataTypeString(slot.tensor.dtype()),
                                          ", not ",
                                          DataTypeString(expected_output_dtype(static_cast<int>(i)))));
        break;
      }
      // Handles and variants are passed on unchanged.
      TF_Tensor* const as_it_is = slot.tensor.IsOpaque() ? slot.tensor.c_tensor() : nullptr;
      TF_Tensor* const copy = as_it_is != nullptr ? nullptr : slot.tensor.ToC();
      internal::CStatus status;
      if (as_it_is == nullptr && copy == nullptr) {
        SetStatus(errors::ResourceExhausted("No memory for output ", i));
      } else {
        TF_SetOutput(c_, static_cast<int>(i), as_it_is != nullptr ? as_it_is : copy, status.get());
        TF_DeleteTensor(copy);
        SetStatus(status.status());
      }
    }
    if (!status_.ok()) TF_OpKernelContext_Failure(c_, internal::CStatus(status_).get());
  }

 private:
  struct Slot {
    Tensor tensor;
    bool there = false;
    bool set = false;  // by set_output, in memory that is not the step's
  };
  Status Range(const string& name, int outputs, int* begin, int* end) const {
    internal::CStatus status;
    Millrace_KernelArgRange(c_, name.c_str(), outputs, begin, end, status.get());
    return status.status();
  }

  class RefMutex : public mutex {
   public:
    RefMutex(TF_OpKernelContext* c, int input) : c_(c), input_(input) {}
    int input() const { return input_; }
    void lock() override { Millrace_LockRef(c_, input_, 1); }
    void unlock() override { Millrace_LockRef(c_, input_, 0); }

   private:
    TF_OpKernelContext* const c_;
    const int input_;
  };
  // Locks unless the caller holds the lock.
  class RefLock {
   public:
    RefLock(mutex* mu, bool held) : mu_(held ? nullptr : mu) {
      if (mu_ != nullptr) mu_->lock();
    }
    RefLock(const RefLock&) = delete;
    RefLock& operator=(const RefLock&) = delete;
    ~RefLock() {
      if (mu_ != nullptr) mu_->unlock();
    }

   private:
    mutex* const mu_;
  };

  TF_OpKernelContext* const c_;
  std::mutex mu_;
  std::deque<RefMutex> ref_mutexes_;
  std::deque<Slot> inputs_, outputs_;
  std::shared_ptr<ResourceMgr> resources_;
  Status status_;
  WorkerThreads threads_;
};

const Tensor& OpInputList::operator[](int i) const { return context_->input(begin_ + i); }
Status OpOutputList::allocate(int i, const TensorShape& shape, Tensor** output) {
  return context_->allocate_output(begin_ + i, shape, output);
}
void OpOutputList::set(int i, const Tensor& tensor) { context_->set_output(begin_ + i, tensor); }
Tensor* OpOutputList::operator[](int i) { return context_->mutable_output(begin_ + i); }

// A kernel that ends by calling `done`, possibly on another thread. The thread that started it waits; a
// kernel that never calls `done` never ends, as in TensorFlow.
class AsyncOpKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using DoneCallback = std::function<void()>;
  virtual void ComputeAsync(OpKernelContext* context, DoneCallback done) = 0;
  void Compute(OpKernelContext* context) override {
    struct End {
      std::mutex mu;
      std::condition_variable changed;
      bool reached = false;
    };
    const std::shared_ptr<End> end = std::make_shared<End>();
    ComputeAsync(context, [end] {
      const std::lock_guard<std::mutex> lock(end->mu);
      end->reached = true;
      end->changed.notify_one();
    });
    std::unique_lock<std::mutex> lock(end->mu);
    end->changed.wait(lock, [&] { return end->reached; });
  }
};

}  // namespace tensorflow

#define OP_REQUIRES(CTX, EXP, STATUS)                  \
  do {                                                 \
    if (!(EXP)) {                                      \
      (CTX)->CtxFailure(__FILE__, __LINE__, (STATUS)); \
      return;                                          \
    }                                                  \
  } while (0)
#define OP_REQUIRES_OK(CTX, ...)                        \
  do {                                                  \
    const ::tensorflow::Status mr_tf_s = (__VA_ARGS__); \
    if (!mr_tf_s.ok()) {                                \
      (CTX)->CtxFailure(__FILE__, __LINE__, mr_tf_s);   \
      return;                                           \
    }                                                   \
  } while (0)
#define OP_REQUIRES_ASYNC(CTX, EXP, STATUS, CALLBACK)  \
  do {                                                 \
    if (!(EXP)) {                                      \
      (CTX)->CtxFailure(__FILE__, __LINE__, (STATUS)); \
      (CALLBACK)();                                    \
      return;                                          \
    }                                                  \
  } while (0)
#define OP_REQUIRES_OK_ASYNC(CTX, STATUS, CALLBACK)   \
  do {                                                \
    const ::tensorflow::Status mr_tf_s = (STATUS);    \
    if (!mr_tf_s.ok()) {                              \
      (CTX)->CtxFailure(__FILE__, __LINE__, mr_tf_s); \
      (CALLBACK)();                                   \
      return;                                         \
    }                                                 \
  } while (0)

#include "tensorflow/core/framework/kernel_def_builder.h"

#endif
