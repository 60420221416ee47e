// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "eager/eager_context.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <thread>
#include <utility>

#include "graph/function_body.h"
#include "session/session_factory.h"
#include "session/session_options.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace {
namespace {

uint64_t NextGeneration() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only the number matters
}

// When more kernels than this are prepared, those of stateless ops are dropped.
constexpr size_t kMaxKernels = 4096;

// The kernels that a thread has used, by the hash of their keys, so that it finds them without a lock.
struct Remembered {
  uint64_t generation = 0;
  uint64_t hash = 0;
  RefPtr<EagerKernel> kernel;
  bool running = false;  // on this thread, so the reference must stay
};
using Memory = std::array<Remembered, 64>;
// A pointer: a library that is loaded late has little room for variables of threads.
thread_local std::unique_ptr<Memory> memory;

Remembered& SlotOf(uint64_t hash) {
  if (memory == nullptr) memory = std::make_unique<Memory>();
  return (*memory)[hash % memory->size()];
}

// Drops the references of this thread, except those to kernels that it runs.
void Forget() {
  if (memory == nullptr) return;
  for (Remembered& slot : *memory) {
    if (!slot.running) slot = {};
  }
}

int Threads(int configured) {
  if (configured > 0) return configured;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

// A kernel while an op uses it: the thread's slot holds the reference, without an atomic operation per op.
// Ops that run within another op of the thread, whose slot is the same one, hold their own.
struct EagerContext::KernelUse {
  KernelUse() = default;
  KernelUse(const KernelUse&) = delete;
  KernelUse& operator=(const KernelUse&) = delete;
  ~KernelUse() {
    if (slot != nullptr) slot->running = false;
  }
  void Take(Remembered& of) {
    kernel = of.kernel.get();
    if (of.running) return;  // an outer op of the same kernel holds it
    of.running = true;
    slot = &of;
  }

  const EagerKernel* kernel = nullptr;
  Remembered* slot = nullptr;
  RefPtr<EagerKernel> own;
};

StatusOr<std::unique_ptr<EagerContext>> EagerContext::Make(const Options& options) {
  MR_ASSIGN_OR_RETURN(const DeviceOptions devices, DeviceOptionsOf(options.session));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<DeviceSet> set, DeviceFactoryRegistry::Global().CreateDevices(devices));
  auto local = std::make_shared<LocalDevices>(std::move(set));
  return std::unique_ptr<EagerContext>(new EagerContext(options, std::move(local)));
}

EagerContext::EagerContext(const Options& options, std::shared_ptr<LocalDevices> devices)
    : devices_(std::move(devices)),
      worker_(std::make_unique<LocalWorker>(devices_)),
      compiler_(std::make_unique<StepCompiler>(std::vector<Worker*>{worker_.get()},
                                               CompileOptionsOf(options.session))),
      generation_(NextGeneration()) {
  worker_->functions().SetCompiler(compiler_.get());
  const bool own = options.session.use_per_session_threads;
  pool_ = GetThreadPool(Threads(options.session.intra_op_parallelism_threads), own);
  inter_pool_ = GetThreadPool(Threads(options.session.inter_op_parallelism_threads), own);
  environment_.cancellation = &cancellation_;
  environment_.pool = pool_.get();
  environment_.inter_op_pool = inter_pool_.get();
  environment_.step_resources = &step_resources_;
  environment_.functions = &worker_->functions();
  host_device_name_ = &InternDeviceName(host_device().name());
  if (options.is_async) executor_ = std::make_unique<EagerExecutor>();
}

EagerContext::~EagerContext() {
  executor_.reset();
  {
    WriterLock lock(mu_);
    // Other threads may still have references.
    for (auto& [hash, kernel] : kernels_) kernel->Close();
    for (const RefPtr<EagerKernel>& kernel : dropped_) kernel->Close();
    kernels_.clear();
    dropped_.clear();
  }
  worker_->functions().DropInstances();
}

StatusOr<Device*> EagerContext::FindDevice(std::string_view name) const {
  // "CPU:1" stands for "/device:CPU:1".
  if (!name.empty() && name[0] != '/') {
    if (auto found = FindDevice(StrCat("/device:", name)); found.ok()) return found;
  }
  const StatusOr<DeviceName> wanted = DeviceName::Parse(name);
  const std::vector<Device*> found = wanted.ok() ? devices().Matching(*wanted) : std::vector<Device*>();
  if (found.empty()) return errors::InvalidArgument(name, " unknown device.");
  return found.front();
}

StatusOr<const OpRegistration*> EagerContext::LookUp(const std::string& name, bool* is_function) {
  *is_function = false;
  if (const auto op = OpRegistry::Global().LookUp(name); op.ok()) return *op;
  ReaderLock lock(mu_);
  *is_function = true;
  if (const auto function = functions_.LookUp(name); function.ok()) return *function;
  return errors::NotFound(
      "'", name,
      "' is neither a type of a primitive operation nor a name of a function registered in "
      "binary running on this host. Make sure the operation or function is registered in "
      "the binary running in this process.");
}

Status EagerContext::AddFunction(const tensorflow::FunctionDef& def) {
  const std::string& name = def.signature().name();
  if (OpRegistry::Global().LookUp(name).ok()) {
    return errors::InvalidArgument("Cannot add function '", name,
                                   "' because an op with the same name already exists.");
  }
  WriterLock lock(mu_);
  FunctionLibrary with = functions_;
  MR_RETURN_IF_ERROR(with.Add(def));
  Status valid = ValidateFunction(with, OpRegistry::Global(), def);
  if (!valid.ok() && valid.code() != ErrorCode::kNotFound) return valid;  // what it calls may follow
  MR_RETURN_IF_ERROR(worker_->functions().AddFunctions(with));
  functions_ = with;
  return Status();
}

Status EagerContext::RemoveFunction(const std::string& name) {
  WriterLock lock(mu_);
  if (functions_.Find(name) == nullptr) {
    return errors::InvalidArgument("Tried to remove non-existent function '", name, "'.");
  }
  std::set<std::string, std::less<>> others;
  for (std::string& other : functions_.Names()) {
    if (other != name) others.insert(std::move(other));
  }
  FunctionLibrary rest = functions_.Only(others);
  removed_.push_back(std::exchange(functions_, std::move(rest)));
  return Status();
}

bool EagerContext::HasFunction(const std::string& name) {
  ReaderLock lock(mu_);
  return functions_.Find(name) != nullptr;
}

RefPtr<EagerKernel> EagerContext::Find(uint64_t hash, const EagerOp& op, const Device& device) const {
  const auto [begin, end] = kernels_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second->key().Is(op, device)) return it->second;
  }
  return nullptr;
}

RefPtr<EagerKernel> EagerContext::FindLocked(uint64_t hash, const EagerOp& op, const Device& device) {
  ReaderLock lock(mu_);
  return Find(hash, op, device);
}

Status EagerContext::Prepare(const EagerOp& op, KernelUse* use) {
  Device& device = op.device() == nullptr ? host_device() : *op.device();
  const uint64_t hash = EagerKey::Hash(op, device);
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  Remembered& slot = SlotOf(hash);
  if (slot.generation == generation && slot.hash == hash && slot.kernel->key().Is(op, device)) [[likely]] {
    use->Take(slot);
    return Status();
  }
  Kernels freed;
  RefPtr<EagerKernel> kernel = FindLocked(hash, op, device);
  if (kernel == nullptr) {
    MutexLock making(make_mu_);
    kernel = FindLocked(hash, op, device);
    if (kernel == nullptr) {
      MR_ASSIGN_OR_RETURN(kernel, EagerKernel::Make(op, device, devices_->resources(device), environment_));
      WriterLock lock(mu_);
      if (kernels_.size() >= kMaxKernels) freed = Drop(false);
      kernels_.emplace(hash, kernel);
    }
  }
  if (slot.running) {
    use->kernel = kernel.get();
    use->own = std::move(kernel);
    return Status();
  }
  // `generation` is older than the kernel if others have been dropped meanwhile: it is looked up again then.
  slot = {.generation = generation, .hash = hash, .kernel = std::move(kernel)};
  use->Take(slot);
  return Status();
}

Status EagerContext::Execute(const EagerOp& op, std::span<EagerTensor*> outputs, int* num_outputs) {
  if (!op.status().ok()) [[unlikely]]
    return op.status();
  KernelUse use;
  MR_RETURN_IF_ERROR(Prepare(op, &use));
  const EagerKernel* const kernel = use.kernel;
  MR_RETURN_IF_ERROR(kernel->CheckInputs(op.inputs()));
  const size_t count = kernel->output_types().size();
  if (count > outputs.size()) {
    return errors::InvalidArgument("Expecting ", count, " outputs, but *num_retvals is ", outputs.size());
  }
  *num_outputs = static_cast<int>(count);
  if (executor_ != nullptr) [[unlikely]]
    return ExecuteLater(op, *kernel, outputs.first(count));
  for (const RefPtr<EagerTensor>& input : op.inputs()) MR_RETURN_IF_ERROR(input->Await());
  Tensor few[2];
  std::vector<Tensor> many(count > std::size(few) ? count : 0);
  const std::span<Tensor> results(many.empty() ? few : many.data(), count);
  MR_RETURN_IF_ERROR(kernel->Run(op.inputs(), results));
  const std::string& device =
      op.device() == nullptr ? *host_device_name_ : InternDeviceName(op.device()->name());
  for (size_t i = 0; i < count; ++i) outputs[i] = new EagerTensor(std::move(results[i]), device);
  return Status();
}

Status EagerContext::ExecuteLater(const EagerOp& op, const EagerKernel& kernel,
                                  std::span<EagerTensor*> outputs) {
  const std::string& device =
      op.device() == nullptr ? *host_device_name_ : InternDeviceName(op.device()->name());
  std::vector<RefPtr<EagerTensor>> results;
  for (const DataType type : kernel.output_types()) results.push_back(MakeRef<EagerTensor>(type, device));
  const auto run = [inputs = op.inputs(), results,
                    kernel = ShareRef(&kernel)](const Status& failed) -> Status {
    Status status = failed;
    for (const RefPtr<EagerTensor>& input : inputs) {
      if (status.ok()) status = input->Await();
    }
    std::vector<Tensor> values(results.size());
    if (status.ok()) status = kernel->Run(inputs, values);
    for (size_t i = 0; i < results.size(); ++i) {
      if (status.ok()) {
        results[i]->Set(std::move(values[i]));
      } else {
        results[i]->Fail(status);
      }
    }
    return status;
  };
  MR_RETURN_IF_ERROR(executor_->Add(run));
  for (size_t i = 0; i < results.size(); ++i) outputs[i] = results[i].release();
  return Status();
}

StatusOr<RefPtr<EagerTensor>> EagerContext::Copy(EagerTensor& tensor, const Device& device) {
  if (const_cast<Device&>(device).has_own_memory()) {
    return errors::Unimplemented("Tensors are kept in host memory, not on ", device.name());
  }
  MR_RETURN_IF_ERROR(tensor.Await());
  return MakeRef<EagerTensor>(tensor.value(), InternDeviceName(device.name()));
}

EagerContext::Kernels EagerContext::Drop(bool stateful) {
  for (auto it = kernels_.begin(); it != kernels_.end();) {
    if (it->second->is_stateful() && !stateful) {
      ++it;
    } else {
      dropped_.push_back(std::move(it->second));
      it = kernels_.erase(it);
    }
  }
  generation_.store(NextGeneration(), std::memory_order_release);
  Forget();
  // No thread can get a reference to a kernel of which this is the only one.
  const auto [begin, end] = std::ranges::partition(dropped_, [](const RefPtr<EagerKernel>& kernel) {
    return kernel->owns_resources() || !kernel->RefCountIsOne();
  });
  Kernels freed(std::make_move_iterator(begin), std::make_move_iterator(end));
  dropped_.erase(begin, end);
  return freed;
}

void EagerContext::ClearKernels() {
  if (executor_ != nullptr) executor_->Wait().IgnoreError("later calls report it");
  Kernels freed;
  WriterLock lock(mu_);
  freed = Drop(true);
}

Status EagerContext::Await() { return executor_ == nullptr ? Status() : executor_->Wait(); }

void EagerContext::ClearError() {
  if (executor_ != nullptr) executor_->ClearError();
}

void EagerContext::StartStep() {
  WriterLock lock(mu_);
  ++open_steps_;
}

void EagerContext::EndStep() {
  {
    WriterLock lock(mu_);
    if (open_steps_ == 0 || --open_steps_ > 0) return;
  }
  step_resources_.Clear();
}

size_t EagerContext::num_dropped_kernels_for_test() {
  ReaderLock lock(mu_);
  return dropped_.size();
}

size_t EagerContext::num_kernels_for_test() {
  ReaderLock lock(mu_);
  return kernels_.size();
}

}  // namespace millrace
