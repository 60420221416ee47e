// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tensorflow/c/kernels.h>
#include <tensorflow/c/ops.h>

// Ops and kernels of one's own, in a library that TF_LoadLibrary loads. Everything here lies over the C API,
// so that such a library depends on nothing else and goes on working with later versions:
//
//   using namespace millrace::user;
//   REGISTER_OP("ZeroOut").Input("x: int32").Output("y: int32").SetShapeFn([](ShapeContext& c) {
//     return c.SetOutput(0, c.Input(0));
//   });
//   class ZeroOut : public OpKernel { … void Compute(OpKernelContext* context) override; };
//   REGISTER_KERNEL_BUILDER(Name("ZeroOut").Device(DEVICE_CPU), ZeroOut);
namespace millrace::user {

inline constexpr const char* DEVICE_CPU = "CPU";

// A code and a text; OK by default.
struct Error {
  TF_Code code = TF_OK;
  std::string text;
  bool ok() const { return code == TF_OK; }
};
inline Error InvalidArgument(std::string text) { return {TF_INVALID_ARGUMENT, std::move(text)}; }

template <typename T>
struct TypeOf;
#define MR_USER_TYPE(Cpp, number)                \
  template <>                                    \
  struct TypeOf<Cpp> {                           \
    static constexpr TF_DataType value = number; \
  };
MR_USER_TYPE(float, TF_FLOAT)
MR_USER_TYPE(double, TF_DOUBLE)
MR_USER_TYPE(bool, TF_BOOL)
MR_USER_TYPE(int8_t, TF_INT8)
MR_USER_TYPE(int16_t, TF_INT16)
MR_USER_TYPE(int32_t, TF_INT32)
MR_USER_TYPE(int64_t, TF_INT64)
MR_USER_TYPE(uint8_t, TF_UINT8)
MR_USER_TYPE(uint16_t, TF_UINT16)
MR_USER_TYPE(uint32_t, TF_UINT32)
MR_USER_TYPE(uint64_t, TF_UINT64)
#undef MR_USER_TYPE

// A TF_Status that ends with its scope.
class ScopedStatus {
 public:
  ScopedStatus() : status_(TF_NewStatus()) {}
  explicit ScopedStatus(const Error& error) : ScopedStatus() {
    TF_SetStatus(status_, error.code, error.text.c_str());
  }
  ScopedStatus(const ScopedStatus&) = delete;
  ScopedStatus& operator=(const ScopedStatus&) = delete;
  ~ScopedStatus() { TF_DeleteStatus(status_); }
  TF_Status* get() const { return status_; }
  Error error() const { return {TF_GetCode(status_), TF_Message(status_)}; }

 private:
  TF_Status* const status_;
};

// A tensor of a type with elements of a fixed size. May be empty-handed: see `ok`. Moves only.
class KernelTensor {
 public:
  explicit KernelTensor(TF_Tensor* owned) : tensor_(owned) {}
  KernelTensor(KernelTensor&& o) noexcept : tensor_(std::exchange(o.tensor_, nullptr)) {}
  KernelTensor& operator=(KernelTensor&& o) noexcept {
    std::swap(tensor_, o.tensor_);
    return *this;
  }
  ~KernelTensor() { TF_DeleteTensor(tensor_); }

  bool ok() const { return tensor_ != nullptr; }
  TF_DataType dtype() const { return TF_TensorType(tensor_); }
  std::vector<int64_t> shape() const {
    std::vector<int64_t> dims;
    for (int i = 0; i < TF_NumDims(tensor_); ++i) dims.push_back(TF_Dim(tensor_, i));
    return dims;
  }
  // Nothing when the elements are of another type.
  template <typename T>
  std::span<T> flat() const {
    if (dtype() != TypeOf<T>::value) return {};
    return {static_cast<T*>(TF_TensorData(tensor_)), static_cast<size_t>(TF_TensorElementCount(tensor_))};
  }

 private:
  TF_Tensor* tensor_;
};

// What the constructor of a kernel sees.
class OpKernelConstruction {
 public:
  explicit OpKernelConstruction(TF_OpKernelConstruction* c) : c_(c) {}
  // A missing attribute fails the construction.
  int32_t Int(const char* attr) {
    int32_t value = 0;
    const ScopedStatus status;
    TF_OpKernelConstruction_GetAttrInt32(c_, attr, &value, status.get());
    Check(status);
    return value;
  }
  TF_DataType Type(const char* attr) {
    auto value = static_cast<TF_DataType>(0);
    const ScopedStatus status;
    TF_OpKernelConstruction_GetAttrType(c_, attr, &value, status.get());
    Check(status);
    return value;
  }
  void Fail(const Error& error) { TF_OpKernelConstruction_Failure(c_, ScopedStatus(error).get()); }

 private:
  void Check(const ScopedStatus& status) {
    if (!status.error().ok()) TF_OpKernelConstruction_Failure(c_, status.get());
  }
  TF_OpKernelConstruction* const c_;
};

// What one run of a kernel sees. The first failure is the one that counts.
class OpKernelContext {
 public:
  explicit OpKernelContext(TF_OpKernelContext* c) : c_(c) {}
  int num_inputs() const { return TF_NumInputs(c_); }
  int num_outputs() const { return TF_NumOutputs(c_); }
  int64_t step_id() const { return TF_StepId(c_); }
  // Empty-handed, and a failure, when there is none.
  KernelTensor input(int i) {
    TF_Tensor* tensor = nullptr;
    const ScopedStatus status;
    TF_GetInput(c_, i, &tensor, status.get());
    if (!status.error().ok()) TF_OpKernelContext_Failure(c_, status.get());
    return KernelTensor(tensor);
  }
  template <typename T>
  KernelTensor AllocateOutput(int i, std::vector<int64_t> shape) {
    size_t count = 1;
    for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
    return KernelTensor(TF_AllocateOutput(c_, i, TypeOf<T>::value, shape.data(),
                                          static_cast<int>(shape.size()), count * sizeof(T)));
  }
  void Fail(const Error& error) { TF_OpKernelContext_Failure(c_, ScopedStatus(error).get()); }

 private:
  TF_OpKernelContext* const c_;
};

// Made once for a node; Compute runs on several threads at the same time.
class OpKernel {
 public:
  explicit OpKernel(OpKernelConstruction* /*construction*/) {}
  OpKernel(const OpKernel&) = delete;
  OpKernel& operator=(const OpKernel&) = delete;
  virtual ~OpKernel() = default;
  virtual void Compute(OpKernelContext* context) = 0;
};

// A shape while a shape function runs.
class Shape {
 public:
  Shape() : handle_(TF_NewShapeHandle()) {}
  explicit Shape(TF_ShapeHandle* owned) : handle_(owned) {}
  Shape(Shape&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  ~Shape() { TF_DeleteShapeHandle(handle_); }
  TF_ShapeHandle* get() const { return handle_; }

 private:
  TF_ShapeHandle* handle_;
};

// Where a shape function reads and writes.
class ShapeContext {
 public:
  explicit ShapeContext(TF_ShapeInferenceContext* c) : c_(c) {}
  int64_t num_inputs() const { return TF_ShapeInferenceContextNumInputs(c_); }
  // Not set, so that its use is an error, when there is no such input.
  Shape Input(int i) const {
    Shape shape;
    TF_ShapeInferenceContextGetInput(c_, i, shape.get(), ScopedStatus().get());
    return shape;
  }
  Shape Vector(size_t size) const { return Shape(TF_ShapeInferenceContextVectorFromSize(c_, size)); }
  Error WithRank(const Shape& shape, int64_t rank) const {
    const Shape result;
    const ScopedStatus status;
    TF_ShapeInferenceContextWithRank(c_, shape.get(), rank, result.get(), status.get());
    return status.error();
  }
  Error SetOutput(int i, const Shape& shape) const {
    const ScopedStatus status;
    TF_ShapeInferenceContextSetOutput(c_, i, shape.get(), status.get());
    return status.error();
  }

 private:
  TF_ShapeInferenceContext* const c_;
};

// An op in the registration language; see REGISTER_OP.
class OpDefinition {
 public:
  explicit OpDefinition(const char* name) : name_(name), builder_(TF_NewOpDefinitionBuilder(name)) {}
  OpDefinition(const OpDefinition&) = delete;
  OpDefinition& operator=(const OpDefinition&) = delete;
  ~OpDefinition() { TF_DeleteOpDefinitionBuilder(builder_); }

  OpDefinition& Input(const char* spec) {
    TF_OpDefinitionBuilderAddInput(builder_, spec);
    return *this;
  }
  OpDefinition& Output(const char* spec) {
    TF_OpDefinitionBuilderAddOutput(builder_, spec);
    return *this;
  }
  OpDefinition& Attr(const char* spec) {
    TF_OpDefinitionBuilderAddAttr(builder_, spec);
    return *this;
  }
  OpDefinition& SetIsStateful() {
    TF_OpDefinitionBuilderSetIsStateful(builder_, true);
    return *this;
  }
  // A lambda without captures: Error(ShapeContext&).
  template <typename F>
  OpDefinition& SetShapeFn(F) {
    TF_OpDefinitionBuilderSetShapeInferenceFunction(builder_,
                                                    [](TF_ShapeInferenceContext* c, TF_Status* status) {
                                                      ShapeContext context(c);
                                                      const Error error = F()(context);
                                                      TF_SetStatus(status, error.code, error.text.c_str());
                                                    });
    return *this;
  }
  // False, and a line on standard error, when the op is refused.
  bool Register() {
    const ScopedStatus status;
    TF_RegisterOpDefinition(std::exchange(builder_, nullptr), status.get());
    if (!status.error().ok()) std::fprintf(stderr, "op %s: %s\n", name_, TF_Message(status.get()));
    return status.error().ok();
  }

 private:
  const char* const name_;
  TF_OpDefinitionBuilder* builder_;
};

// What a kernel is for; see REGISTER_KERNEL_BUILDER.
class Name {
 public:
  explicit Name(const char* op) : op_(op) {}
  Name& Device(const char* type) {
    device_ = type;
    return *this;
  }
  template <typename T>
  Name& TypeConstraint(const char* attr) {
    types_.emplace_back(attr, TypeOf<T>::value);
    return *this;
  }
  Name& HostMemory(const char* arg) {
    host_.push_back(arg);
    return *this;
  }

  template <typename Kernel>
  bool Register() const {
    TF_KernelBuilder* builder = TF_NewKernelBuilder(op_, device_, Create<Kernel>, Compute, Delete);
    const ScopedStatus status;
    for (const auto& [attr, type] : types_)
      TF_KernelBuilder_TypeConstraint(builder, attr, type, status.get());
    for (const char* arg : host_) TF_KernelBuilder_HostMemory(builder, arg);
    TF_RegisterKernelBuilder(op_, builder, status.get());
    return status.error().ok();
  }

 private:
  // Exceptions of a kernel end here, as its failure.
  template <typename Kernel>
  static void* Create(TF_OpKernelConstruction* c) {
    OpKernelConstruction construction(c);
    try {
      return static_cast<OpKernel*>(new Kernel(&construction));
    } catch (const std::exception& e) {
      construction.Fail({TF_INTERNAL, e.what()});
      return nullptr;
    }
  }
  static void Compute(void* kernel, TF_OpKernelContext* c) {
    OpKernelContext context(c);
    try {
      static_cast<OpKernel*>(kernel)->Compute(&context);
    } catch (const std::exception& e) {
      context.Fail({TF_INTERNAL, e.what()});
    }
  }
  static void Delete(void* kernel) { delete static_cast<OpKernel*>(kernel); }

  const char* op_;
  const char* device_ = DEVICE_CPU;
  std::vector<std::pair<const char*, TF_DataType>> types_;
  std::vector<const char*> host_;
};

// Registers the op when the library is loaded.
struct RegisteredOp {
  RegisteredOp(OpDefinition& op) : ok(op.Register()) {}   // NOLINT(google-explicit-constructor)
  RegisteredOp(OpDefinition&& op) : ok(op.Register()) {}  // NOLINT(google-explicit-constructor)
  const bool ok;
};

}  // namespace millrace::user

#define MR_USER_NAME_2(prefix, number) prefix##number
#define MR_USER_NAME(prefix, number) MR_USER_NAME_2(prefix, number)
#define REGISTER_OP(name)                                                                               \
  [[maybe_unused]] static const ::millrace::user::RegisteredOp MR_USER_NAME(mr_user_op_, __COUNTER__) = \
      ::millrace::user::OpDefinition(name)
#define REGISTER_KERNEL_BUILDER(name, ...)                                             \
  [[maybe_unused]] static const bool MR_USER_NAME(mr_user_kernel_, __COUNTER__) = [] { \
    using ::millrace::user::Name;                                                      \
    using ::millrace::user::DEVICE_CPU;                                                \
    return (name).Register<__VA_ARGS__>();                                             \
  }()
