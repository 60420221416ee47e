// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Resources of kernels of the client: objects that outlive a step.
#include "c/internal.h"
#include "c/op_handles.h"
#include "kernel/resource.h"
#include "kernel/resource_op.h"
#include "millrace/c/user_op.h"

using millrace::RefPtr;
using millrace::ResourceHandle;
using millrace::Status;
using millrace::StatusOr;
using millrace::Tensor;
using millrace::Unnamed;
namespace errors = millrace::errors;

namespace millrace::c_api {
namespace {

// All objects of clients are of this type for the engine, so that a name belongs to one of them.
class UserResource final : public Resource {
 public:
  UserResource(void* object, void (*release)(void*), std::string_view type)
      : object_(object), release_(release), type_(type) {}
  ~UserResource() override { release_(object_); }
  std::string DebugString() const override { return type_; }
  void* object() const { return object_; }
  const std::string& type() const { return type_; }

 private:
  void* const object_;
  void (*const release_)(void*);
  const std::string type_;
};

ResourceManager& Of(Millrace_Resources* resources) { return *reinterpret_cast<ResourceManager*>(resources); }

Status OfType(const UserResource& resource, std::string_view container, std::string_view name,
              std::string_view type) {
  if (resource.type() == type) return Status();
  return errors::InvalidArgument("Resource ", container, "/", name, " is of the type ", resource.type(),
                                 ", not ", type);
}

// The engine's errors name its own type.
Status Named(Status status, std::string_view container, std::string_view name, std::string_view type) {
  if (status.code() == ErrorCode::kAlreadyExists)
    return errors::AlreadyExists("Resource ", container, "/", name, "/", type);
  if (status.code() == ErrorCode::kNotFound && status.message().starts_with("Resource "))
    return errors::NotFound("Resource ", container, "/", name, "/", type, " does not exist.");
  return status;
}

Status Write(std::string_view text, TF_Buffer* buffer) {
  if (buffer == nullptr || buffer->data != nullptr) return NullArgument("A buffer");
  TF_Buffer* const made = NewBufferOf(text);
  if (made == nullptr) return errors::ResourceExhausted("Out of memory");
  *buffer = *made;
  made->data_deallocator = nullptr;
  TF_DeleteBuffer(made);
  return Status();
}

std::string_view OrDefault(const char* container) {
  return container == nullptr || *container == '\0' ? ResourceManager::kDefaultContainer
                                                    : std::string_view(container);
}

}  // namespace
}  // namespace millrace::c_api

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library

Millrace_Resources* Millrace_ConstructionResources(TF_OpKernelConstruction* ctx) {
  return ctx == nullptr ? nullptr : reinterpret_cast<Millrace_Resources*>(&Of(ctx).resources());
}

Millrace_Resources* Millrace_KernelResources(TF_OpKernelContext* ctx) {
  return ctx == nullptr ? nullptr : reinterpret_cast<Millrace_Resources*>(&ctx->context.resources());
}

void Millrace_KernelResourceName(TF_OpKernelConstruction* ctx, int use_node_name, TF_Buffer* container,
                                 TF_Buffer* name, unsigned char* is_private, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || is_private == nullptr) return NullArgument("The construction or is_private");
    MR_ASSIGN_OR_RETURN(const millrace::ResourceName place,
                        NameResource(Of(ctx), use_node_name != 0 ? Unnamed::kNodeName : Unnamed::kPrivate));
    MR_RETURN_IF_ERROR(Write(place.container, container));
    *is_private = place.is_private ? 1 : 0;
    return Write(place.name, name);
  });
}

void Millrace_CreateResource(Millrace_Resources* resources, const char* container, const char* name,
                             const char* type, void* object, void (*release)(void* object),
                             TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (release == nullptr) return NullArgument("The release function");
    auto resource = millrace::MakeRef<UserResource>(object, release, OrEmpty(type));
    if (resources == nullptr || name == nullptr) return NullArgument("The resources or the name");
    return Named(Of(resources).Create<UserResource>(OrDefault(container), name, std::move(resource)),
                 OrDefault(container), name, OrEmpty(type));
  });
}

void Millrace_FindResource(Millrace_Resources* resources, const char* container, const char* name,
                           const char* type, void* (*create)(void* data, TF_Status* status),
                           void (*release)(void* object), void (*take)(void* data, void* object), void* data,
                           TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (resources == nullptr || name == nullptr || take == nullptr ||
        (create != nullptr && release == nullptr))
      return NullArgument("An argument");
    const std::string_view place = OrDefault(container);
    const auto make = [&]() -> StatusOr<RefPtr<UserResource>> {
      TF_Status result;
      void* const object = create(data, &result);
      if (!result.status.ok()) return std::move(result.status);
      return millrace::MakeRef<UserResource>(object, release, OrEmpty(type));
    };
    auto found = create == nullptr ? Of(resources).Lookup<UserResource>(place, name)
                                   : Of(resources).LookupOrCreate<UserResource>(place, name, make);
    if (!found.ok()) return Named(found.status(), place, name, OrEmpty(type));
    MR_RETURN_IF_ERROR(OfType(**found, place, name, OrEmpty(type)));
    take(data, (*found)->object());
    return Status();
  });
}

void Millrace_DeleteResource(Millrace_Resources* resources, const char* container, const char* name,
                             const char* type, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (resources == nullptr || name == nullptr) return NullArgument("The resources or the name");
    const std::string_view place = OrDefault(container);
    const auto found = Of(resources).Lookup<UserResource>(place, name);
    if (!found.ok()) return Named(found.status(), place, name, OrEmpty(type));
    MR_RETURN_IF_ERROR(OfType(**found, place, name, OrEmpty(type)));
    return Named(Of(resources).Delete<UserResource>(place, name), place, name, OrEmpty(type));
  });
}

void Millrace_SetOutputHandle(TF_OpKernelContext* ctx, int i, const char* container, const char* name,
                              const char* type, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr || name == nullptr) return NullArgument("The context or the name");
    if (i < 0 || i >= ctx->context.num_outputs()) return errors::OutOfRange("output index out of range");
    if (ctx->context.output_type(i) != millrace::DataType::kResource)
      return errors::InvalidArgument("Output ", i, " is of type ", ctx->context.output_type(i),
                                     ", not resource");
    ResourceHandle handle = ctx->context.resources().MakeHandle<UserResource>(OrDefault(container), name);
    handle.maybe_type_name = OrEmpty(type);
    ctx->context.set_output(i, Tensor::Scalar<ResourceHandle>(handle));
    return Status();
  });
}

void Millrace_InputHandle(TF_OpKernelContext* ctx, int i, TF_Buffer* container, TF_Buffer* name,
                          TF_Buffer* type, TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr) return NullArgument("The context");
    if (i < 0 || i >= ctx->context.num_inputs()) return errors::OutOfRange("input index out of range");
    if (ctx->context.input_is_ref(i)) return millrace::BadHandle(ctx->context, i);
    const Tensor& input = ctx->context.input(i);
    if (input.dtype() != millrace::DataType::kResource || input.num_elements() != 1)
      return millrace::BadHandle(ctx->context, i);
    const auto& handle = input.scalar<ResourceHandle>();
    // Refuses handles of other devices and of other types; a resource that was deleted is the caller's error.
    const auto found = ctx->context.resources().LookupHandle<UserResource>(handle);
    if (!found.ok() && found.status().code() != millrace::ErrorCode::kNotFound) return found.status();
    MR_RETURN_IF_ERROR(Write(handle.container, container));
    MR_RETURN_IF_ERROR(Write(handle.name, name));
    return Write(handle.maybe_type_name, type);
  });
}
