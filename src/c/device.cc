// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Types of devices that libraries add through millrace/c/device.h.
#include "millrace/c/device.h"

#include <algorithm>
#include <chrono>

#include "base/mutex.h"
#include "c/device.h"
#include "c/internal.h"
#include "device/device.h"
#include "device/stream.h"
#include "kernels/device/register.h"

using millrace::DeviceAttributes;
using millrace::DeviceOptions;
using millrace::Event;
using millrace::MakeRef;
using millrace::Mutex;
using millrace::MutexLock;
using millrace::RefPtr;
using millrace::Status;
using millrace::Tensor;
namespace errors = millrace::errors;

// Ends with Millrace_Complete.
struct Millrace_Completion {
  millrace::Device::CopyDone done;
};

namespace millrace::c_api {
namespace {

class CEvent final : public Event {
 public:
  void Then(Callback callback) override {
    {
      MutexLock lock(mu_);
      if (!reached_) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(status_);
  }
  int64_t TimeNs() const override {
    MutexLock lock(mu_);
    return time_ns_;
  }
  void Reach(const Status& status) {
    std::vector<Callback> callbacks;
    {
      MutexLock lock(mu_);
      reached_ = true;
      status_ = status;
      time_ns_ = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
      callbacks.swap(callbacks_);
    }
    for (Callback& callback : callbacks) callback(status);
  }

 private:
  mutable Mutex mu_;
  bool reached_ MR_GUARDED_BY(mu_) = false;
  int64_t time_ns_ MR_GUARDED_BY(mu_) = 0;
  std::vector<Callback> callbacks_ MR_GUARDED_BY(mu_);
  Status status_;  // does not change once the event is reached
};

class CDevice final : public Device {
 public:
  CDevice(DeviceAttributes attributes, const Millrace_DeviceType& type, void* device)
      : Device(std::move(attributes)), functions_(type), device_(device), allocator_(*this), stream_(*this) {}
  ~CDevice() override {
    Sync().IgnoreError("the device goes, whether it is lost or not");
    functions_.destroy(device_);
  }
  void* handle() const { return device_; }
  Allocator& allocator() override { return allocator_; }
  Stream* stream() override { return &stream_; }
  bool CanCopyFrom(const Device& source) const override { return &source == this; }

  void CopyToHost(const Tensor& from, const Tensor& to, CopyDone done) override {
    Tensor target = to;
    functions_.copy_to_host(device_, from.raw_data(), target.raw_data(), from.num_bytes(),
                            new Millrace_Completion{[from, target, last = std::move(done)](
                                                        const Status& status) mutable { last(status); }});
  }
  Status CopyFromHost(const Tensor& from, const Tensor& to) override {
    Tensor target = to;
    functions_.copy_from_host(device_, from.raw_data(), target.raw_data(), from.num_bytes(),
                              Holding(from, to));
    return Status();
  }
  Status CopyFromDevice(Device& /*source*/, const Tensor& from, const Tensor& to) override {
    Tensor target = to;
    functions_.copy_within(device_, from.raw_data(), target.raw_data(), from.num_bytes(), Holding(from, to));
    return Status();
  }

 private:
  class Memory final : public Allocator {
   public:
    explicit Memory(CDevice& device) : Allocator(&device), device_(device) {}
    std::string_view name() const override { return device_.type(); }
    void* Allocate(size_t bytes) override { return device_.functions_.allocate(device_.device_, bytes); }
    void Deallocate(void* p, size_t bytes) override {
      device_.functions_.deallocate(device_.device_, p, bytes);
    }

   private:
    CDevice& device_;
  };

  class Work final : public Stream {
   public:
    explicit Work(CDevice& device) : device_(device) {}
    RefPtr<Event> Record() override {
      RefPtr<CEvent> event = MakeRef<CEvent>();
      device_.functions_.record(device_.device_, new Millrace_Completion{[this, event](const Status& status) {
                                  event->Reach(status.ok() ? device_.error() : status);
                                }});
      return event;
    }
    // The functions of the type have no such thing: what comes later is put in later.
    void WaitFor(RefPtr<Event> event) override {
      event->Wait().IgnoreError("an error is one of the other stream, which reports it");
    }

   private:
    CDevice& device_;
  };

  // Holds both tensors until a copy is done. One that fails breaks the stream.
  Millrace_Completion* Holding(const Tensor& from, const Tensor& to) {
    return new Millrace_Completion{[this, from, to](const Status& status) {
      if (status.ok()) return;
      MutexLock lock(mu_);
      if (error_.ok()) error_ = status;
    }};
  }
  Status error() const {
    MutexLock lock(mu_);
    return error_;
  }

  const Millrace_DeviceType functions_;
  void* const device_;
  Memory allocator_;
  Work stream_;
  mutable Mutex mu_;
  Status error_ MR_GUARDED_BY(mu_);
};

constexpr int kMaxDevices = 4096;

Status CheckType(const Millrace_DeviceType* type) {
  if (type == nullptr || type->name == nullptr) return NullArgument("The device type or its name");
  if (type->struct_size < sizeof(Millrace_DeviceType)) {
    return errors::InvalidArgument("Device type '", type->name, "' has ", type->struct_size, " bytes, not ",
                                   sizeof(Millrace_DeviceType));
  }
  if (type->count == nullptr || type->create == nullptr || type->destroy == nullptr ||
      type->allocate == nullptr || type->deallocate == nullptr || type->copy_from_host == nullptr ||
      type->copy_to_host == nullptr || type->copy_within == nullptr || type->record == nullptr) {
    return errors::InvalidArgument("Device type '", type->name, "' lacks a function");
  }
  const std::string spelled = StrCat("/device:", type->name, ":0");
  const auto parsed = DeviceName::Parse(spelled);
  if (!parsed.ok() || parsed->type != type->name || parsed->ToString() != spelled) {
    return errors::InvalidArgument("'", type->name, "' cannot be the name of a device type");
  }
  return Status();
}

Status MakeDevices(const Millrace_DeviceType& type, const std::string& name, const DeviceOptions& options,
                   std::vector<std::unique_ptr<Device>>* devices) {
  int count = type.count(type.user_data);
  if (const auto it = options.device_count.find(name); it != options.device_count.end())
    count = std::min(count, it->second);
  if (count > kMaxDevices)
    return errors::InvalidArgument("There cannot be ", count, " devices of type ", name);
  for (int i = 0; i < count; ++i) {
    TF_Status made;
    void* const device = type.create(type.user_data, i, &made);
    if (!made.status.ok()) return made.status;
    if (device == nullptr) return errors::Internal("Device ", i, " of type ", name, " was not made");
    DeviceAttributes attributes;
    attributes.name = StrCat(options.name_prefix, "/device:", name, ":", i);
    attributes.type = name;
    attributes.memory_limit = type.memory_limit == nullptr ? 0 : type.memory_limit(device);
    attributes.incarnation = NewIncarnation();
    devices->push_back(std::make_unique<CDevice>(std::move(attributes), type, device));
  }
  return Status();
}

}  // namespace

void* HandleOfDevice(Device& device) {
  const auto* const added = dynamic_cast<const CDevice*>(&device);
  return added == nullptr ? nullptr : added->handle();
}

}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): the doors to it

void Millrace_Complete(Millrace_Completion* completion, const TF_Status* status) {
  if (completion == nullptr) return;
  const std::unique_ptr<Millrace_Completion> owned(completion);
  owned->done(status == nullptr ? Status() : status->status);
}

void Millrace_RegisterDeviceType(const Millrace_DeviceType* type, TF_Status* status) {
  Enter(status, [&]() -> Status {
    MR_RETURN_IF_ERROR(CheckType(type));
    const std::string name = type->name;
    MR_RETURN_IF_ERROR(millrace::DeviceFactoryRegistry::Global().Register(
        name, type->priority,
        [copy = *type, name](const DeviceOptions& options,
                             std::vector<std::unique_ptr<millrace::Device>>* devices) {
          return MakeDevices(copy, name, options, devices);
        }));
    millrace::RegisterDeviceKernels(millrace::KernelRegistry::Global(), name);
    return Status();
  });
}
