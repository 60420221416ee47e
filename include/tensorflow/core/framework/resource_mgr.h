// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Resources of user-defined kernels: objects that outlive a step, found by container and name, or by a handle
// that is passed through the graph.
//
//   class Counter : public ResourceBase { … };
//   // In the kernel that owns it (an output of the type resource; see ResourceOpKernel in
//   resource_op_kernel.h): OP_REQUIRES_OK(c, MakeResourceHandleToOutput(c, 0, container, name,
//   TypeIndex::Make<Counter>()));
//   // In kernels that use it:
//   core::RefCountPtr<Counter> counter;
//   OP_REQUIRES_OK(c, LookupResource(c, HandleFromInput(c, 0), &counter));
#ifndef TENSORFLOW_CORE_FRAMEWORK_RESOURCE_MGR_H_
#define TENSORFLOW_CORE_FRAMEWORK_RESOURCE_MGR_H_

#include <functional>
#include <typeinfo>

#include "millrace/c/user_op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace tensorflow {

class ResourceBase : public core::RefCounted {
 public:
  // Sources for TensorFlow up to 1.12 override the first, later ones the second.
  virtual string DebugString() { return "resource"; }
  virtual string DebugString() const { return const_cast<ResourceBase*>(this)->DebugString(); }
};

// The name of a type, which is the same in all libraries of a process.
class TypeIndex {
 public:
  template <typename T>
  static TypeIndex Make() {
    const std::type_info& type = typeid(T);
    string name = type.name();
    // Types that are local to a file: those of another library may have the same name.
    if (name.find("_GLOBAL__N_") != string::npos || name[0] == '*')
      name += "@" + std::to_string(reinterpret_cast<std::uintptr_t>(&type));
    return TypeIndex(std::move(name));
  }
  const string& name() const { return name_; }
  bool operator==(const TypeIndex& other) const { return name_ == other.name_; }
  bool operator!=(const TypeIndex& other) const { return name_ != other.name_; }

 private:
  explicit TypeIndex(string name) : name_(std::move(name)) {}
  string name_;
};

// The resources of a device. A copy refers to the same ones. Thread-safe.
class ResourceMgr {
 public:
  explicit ResourceMgr(Millrace_Resources* resources) : resources_(resources) {}
  const string& default_container() const {
    static const string* const name = new string("localhost");
    return *name;
  }

  // Takes over the caller's reference, also on errors.
  template <typename T>
  Status Create(const string& container, const string& name, T* resource) {
    internal::CStatus status;
    Millrace_CreateResource(resources_, container.c_str(), name.c_str(), Type<T>().c_str(),
                            static_cast<ResourceBase*>(resource), Release, status.get());
    return status.status();
  }
  // Gives the caller a reference.
  template <typename T>
  Status Lookup(const string& container, const string& name, T** resource) const {
    return Find<T>(container, name, resource, nullptr);
  }
  template <typename T>
  Status Lookup(const string& container, const string& name, core::RefCountPtr<T>* resource) const {
    T* found = nullptr;
    TF_RETURN_IF_ERROR(Lookup(container, name, &found));
    resource->reset(found);
    return Status();
  }
  // Makes it with `creator` if it does not exist. One of several callers does, and the others wait for it.
  template <typename T>
  Status LookupOrCreate(const string& container, const string& name, T** resource,
                        std::function<Status(T**)> creator) {
    return Find<T>(container, name, resource, &creator);
  }
  template <typename T>
  Status LookupOrCreate(const string& container, const string& name, core::RefCountPtr<T>* resource,
                        std::function<Status(T**)> creator) {
    T* found = nullptr;
    TF_RETURN_IF_ERROR(LookupOrCreate(container, name, &found, std::move(creator)));
    resource->reset(found);
    return Status();
  }
  template <typename T>
  Status Delete(const string& container, const string& name) {
    internal::CStatus status;
    Millrace_DeleteResource(resources_, container.c_str(), name.c_str(), Type<T>().c_str(), status.get());
    return status.status();
  }

 private:
  template <typename T>
  struct Search {
    T* found = nullptr;
    std::function<Status(T**)>* creator = nullptr;
  };
  template <typename T>
  static string Type() {
    return TypeIndex::Make<T>().name();
  }
  static void Release(void* object) { static_cast<ResourceBase*>(object)->Unref(); }
  // Called by a function of a library, so it must not throw.
  template <typename T>
  static void* Make(void* data, TF_Status* status) {
    T* made = nullptr;
    Status result;
    try {
      result = (*static_cast<Search<T>*>(data)->creator)(&made);
    } catch (...) {
      result = internal::CaughtError("the creator of a resource");
    }
    if (result.ok() && made == nullptr) result = errors::Internal("the creator of a resource made none");
    TF_SetStatus(status, static_cast<TF_Code>(result.code()), result.error_message().c_str());
    return static_cast<ResourceBase*>(made);
  }
  template <typename T>
  static void Take(void* data, void* object) {
    T* const found = static_cast<T*>(static_cast<ResourceBase*>(object));
    found->Ref();
    static_cast<Search<T>*>(data)->found = found;
  }
  template <typename T>
  Status Find(const string& container, const string& name, T** resource,
              std::function<Status(T**)>* creator) const {
    Search<T> search;
    search.creator = creator;
    internal::CStatus status;
    Millrace_FindResource(resources_, container.c_str(), name.c_str(), Type<T>().c_str(),
                          creator == nullptr ? nullptr : Make<T>, Release, Take<T>, &search, status.get());
    TF_RETURN_IF_ERROR(status.status());
    *resource = search.found;
    return Status();
  }

  Millrace_Resources* resources_;
};

inline ResourceMgr* OpKernelContext::resource_manager() {
  const std::lock_guard<std::mutex> lock(mu_);
  if (resources_ == nullptr) resources_ = std::make_shared<ResourceMgr>(Millrace_KernelResources(c_));
  return resources_.get();
}

// The name of a kernel's resource, by the attributes "container" and "shared_name" of its node.
class ContainerInfo {
 public:
  // Without a shared name: under the node's name if `use_node_name_as_default`, otherwise under a name that
  // no other kernel has.
  Status Init(ResourceMgr* resources, const NodeDef& node, bool use_node_name_as_default = false) {
    resources_ = *resources;
    place_ = use_node_name_as_default ? node.resource_by_node_name() : node.resource_by_own_name();
    return place_.status;
  }
  ResourceMgr* resource_manager() { return &resources_; }
  const string& container() const { return place_.container; }
  const string& name() const { return place_.name; }
  bool resource_is_private_to_kernel() const { return place_.is_private; }

 private:
  ResourceMgr resources_{nullptr};
  NodeDef::Place place_;
};

// The content of a tensor of the type resource.
class ResourceHandle {
 public:
  const string& container() const { return container_; }
  const string& name() const { return name_; }
  const string& maybe_type_name() const { return type_; }
  void set_container(const string& container) { container_ = container; }
  void set_name(const string& name) { name_ = name; }
  void set_maybe_type_name(const string& type) { type_ = type; }

 private:
  string container_, name_, type_;
};

inline Status MakeResourceHandleToOutput(OpKernelContext* context, int output_index, const string& container,
                                         const string& name, const TypeIndex& type) {
  internal::CStatus status;
  Millrace_SetOutputHandle(context->c_context(), output_index, container.c_str(), name.c_str(),
                           type.name().c_str(), status.get());
  return status.status();
}

inline Status HandleFromInput(OpKernelContext* context, int input, ResourceHandle* handle) {
  internal::CStatus status;
  const internal::CBuffer container, name, type;
  Millrace_InputHandle(context->c_context(), input, container.get(), name.get(), type.get(), status.get());
  handle->set_container(container.text());
  handle->set_name(name.text());
  handle->set_maybe_type_name(type.text());
  return status.status();
}
// An input that is not a handle of a resource of this device fails the kernel, and the result is empty.
inline ResourceHandle HandleFromInput(OpKernelContext* context, int input) {
  ResourceHandle handle;
  context->SetStatus(HandleFromInput(context, input, &handle));
  return handle;
}

// The resource of a handle; gives the caller a reference.
template <typename T>
Status LookupResource(OpKernelContext* context, const ResourceHandle& handle, T** resource) {
  TF_RETURN_IF_ERROR(context->status());
  return context->resource_manager()->Lookup(handle.container(), handle.name(), resource);
}
template <typename T>
Status LookupResource(OpKernelContext* context, const ResourceHandle& handle,
                      core::RefCountPtr<T>* resource) {
  TF_RETURN_IF_ERROR(context->status());
  return context->resource_manager()->Lookup(handle.container(), handle.name(), resource);
}
template <typename T>
Status CreateResource(OpKernelContext* context, const ResourceHandle& handle, T* resource) {
  if (!context->status().ok()) {
    resource->Unref();
    return context->status();
  }
  return context->resource_manager()->Create(handle.container(), handle.name(), resource);
}
template <typename T>
Status LookupOrCreateResource(OpKernelContext* context, const ResourceHandle& handle, T** resource,
                              std::function<Status(T**)> creator) {
  TF_RETURN_IF_ERROR(context->status());
  return context->resource_manager()->LookupOrCreate(handle.container(), handle.name(), resource,
                                                     std::move(creator));
}
template <typename T>
Status DeleteResource(OpKernelContext* context, const ResourceHandle& handle) {
  TF_RETURN_IF_ERROR(context->status());
  return context->resource_manager()->template Delete<T>(handle.container(), handle.name());
}

}  // namespace tensorflow

#endif
