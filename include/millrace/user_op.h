// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// User-defined ops and kernels, in a library that TF_LoadLibrary, tf.load_op_library, millrace::LoadLibrary
// or `millrace --op_library` loads: all declarations of tensorflow/core/framework/op.h, op_kernel.h,
// shape_inference.h, common_shape_fns.h, resource_mgr.h and resource_op_kernel.h, and gradients. It is
// built on the C API, so that such a library has no other dependencies and works with later versions.
// C++11.
//
//   using namespace millrace::user;
//   REGISTER_OP("ZeroOut").Input("x: int32").Output("y: int32").SetShapeFn(shape_inference::UnchangedShape);
//   class ZeroOut : public OpKernel { … void Compute(OpKernelContext* context) override; };
//   REGISTER_KERNEL_BUILDER(Name("ZeroOut").Device(DEVICE_CPU), ZeroOut);
//   Status ZeroOutGrad(OpGradient* gradient) { gradient->SetInputGrad(0, …); return Status(); }
//   REGISTER_GRADIENT("ZeroOut", ZeroOutGrad);
#ifndef MILLRACE_USER_OP_H_
#define MILLRACE_USER_OP_H_

#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/register_types.h>
#include <tensorflow/core/framework/resource_op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>
#include <tensorflow/core/util/work_sharder.h>
#include "millrace/c/gradients.h"

namespace tensorflow {

// The arguments and results of a gradient function for one node: it adds the nodes that compute the gradients
// of the node's inputs. The first error is kept; after it no nodes are added, and tensors are {nullptr, -1}.
// Valid during the call; not thread-safe.
class OpGradient {
 public:
  explicit OpGradient(Millrace_GradientCall* call) : call_(call) {}
  OpGradient(const OpGradient&) = delete;
  OpGradient& operator=(const OpGradient&) = delete;

  int num_inputs() const { return call_->num_inputs; }
  int num_outputs() const { return call_->num_outputs; }
  TF_Output input(int i) {
    if (!InRange("input", i, num_inputs())) return None();
    return TF_OperationInput(TF_Input{call_->oper, i});
  }
  TF_Output output(int i) { return InRange("output", i, num_outputs()) ? TF_Output{call_->oper, i} : None(); }
  // The gradient of output i, as a tensor: zeros if there is none, {nullptr, -1} for integer outputs.
  TF_Output grad(int i) {
    if (!InRange("output", i, num_outputs())) return None();
    const Millrace_Gradient& arrived = call_->output_gradients[i];
    if (arrived.kind != MILLRACE_GRADIENT_SLICES) return arrived.values;
    const internal::CStatus status;
    const TF_Output dense = Millrace_DenseGradient(call_->graph, call_->name_scope, &arrived, status.get());
    SetStatus(status.status());
    return dense;
  }
  // False when the gradient of input i is not needed.
  bool wants(int i) const { return i >= 0 && i < num_inputs() && call_->wanted[i] != 0; }

  // An attribute of the node, of the types of OpKernelConstruction::GetAttr.
  template <typename T>
  Status GetAttr(const string& name, T* value) const {
    TF_Operation* const node = call_->oper;
    return internal::GetAttrBy(
        [node, &name](TF_Buffer* buffer, TF_Status* status) {
          TF_OperationGetAttrValueProto(node, name.c_str(), buffer, status);
        },
        name, value);
  }

  // Adds a node with one tensor for each input of its op; returns its first output. `set_attrs` may call
  // TF_SetAttr… for attributes that the inputs do not determine.
  TF_Output Add(const string& op, const std::vector<TF_Output>& inputs,
                const std::function<void(TF_OperationDescription*)>& set_attrs = nullptr) {
    for (const TF_Output& input : inputs) {
      if (input.oper == nullptr) SetStatus(errors::InvalidArgument("an input of ", op, " is not a tensor"));
    }
    if (!status_.ok()) return None();
    string name = strings::StrCat(call_->name_scope, "/", op);
    for (int i = 1; TF_GraphOperationByName(call_->graph, name.c_str()) != nullptr; ++i)
      name = strings::StrCat(call_->name_scope, "/", op, "_", i);
    TF_OperationDescription* const description = TF_NewOperation(call_->graph, op.c_str(), name.c_str());
    if (call_->device[0] != '\0') TF_SetDevice(description, call_->device);
    if (call_->colocate != 0) TF_ColocateWith(description, call_->oper);
    for (const TF_Output& input : inputs) TF_AddInput(description, input);
    if (set_attrs) set_attrs(description);
    const internal::CStatus status;
    TF_Operation* const node = TF_FinishOperation(description, status.get());
    SetStatus(status.status());
    return node == nullptr ? None() : TF_Output{node, 0};
  }
  // A constant scalar of the type of `like`.
  TF_Output Scalar(double value, TF_Output like) {
    if (like.oper == nullptr) SetStatus(errors::InvalidArgument("Scalar: `like` is not a tensor"));
    if (!status_.ok()) return None();
    const TF_DataType type = TF_OperationOutputType(like);
    TF_Tensor* const number = TF_AllocateTensor(TF_DOUBLE, nullptr, 0, sizeof value);
    *static_cast<double*>(TF_TensorData(number)) = value;
    const TF_Output constant = Add("Const", {}, [this, number](TF_OperationDescription* description) {
      const internal::CStatus status;
      TF_SetAttrTensor(description, "value", number, status.get());
      TF_SetAttrType(description, "dtype", TF_DOUBLE);
      SetStatus(status.status());
    });
    TF_DeleteTensor(number);
    if (type == TF_DOUBLE) return constant;
    return Add("Cast", {constant}, [type](TF_OperationDescription* d) { TF_SetAttrType(d, "DstT", type); });
  }

  // Inputs without a gradient are treated as independent of the outputs.
  void SetInputGrad(int i, TF_Output gradient) {
    if (!InRange("input", i, num_inputs()) || !status_.ok()) return;
    call_->input_gradients[i].kind = MILLRACE_GRADIENT_DENSE;
    call_->input_gradients[i].values = gradient;
  }

  const Status& status() const { return status_; }
  void SetStatus(const Status& status) { status_.Update(status); }
  // For cases not covered here: slices as results, nodes with lists of inputs, second outputs.
  Millrace_GradientCall* c_call() const { return call_; }

 private:
  static TF_Output None() { return TF_Output{nullptr, -1}; }
  bool InRange(const char* what, int i, int count) {
    if (i >= 0 && i < count) return true;
    SetStatus(errors::InvalidArgument("There is no ", what, " ", i));
    return false;
  }

  Millrace_GradientCall* const call_;
  Status status_;
};

}  // namespace tensorflow

namespace millrace {

namespace user = ::tensorflow;  // for including files

namespace internal {

// Registers `function` for ops of this type in all graphs. Prints a line to standard error on failure.
inline bool RegisterGradientInC(const char* op, Millrace_GradientFunction function, void* data) {
  const ::tensorflow::internal::CStatus status;
  Millrace_RegisterGradient(nullptr, op, function, data, nullptr, status.get());
  if (!status.status().ok())
    std::fprintf(stderr, "gradient of %s: %s\n", op, status.status().error_message().c_str());
  return status.status().ok();
}
// As in millrace/c/gradients.h.
inline bool RegisterGradient(const char* op, Millrace_GradientFunction function) {
  return RegisterGradientInC(op, function, nullptr);
}
// The op is not differentiable.
inline bool RegisterGradient(const char* op, std::nullptr_t) {
  return RegisterGradientInC(op, nullptr, nullptr);
}
using OpGradientFunction = ::tensorflow::Status (*)(::tensorflow::OpGradient*);
inline void CallOpGradient(Millrace_GradientCall* call, TF_Status* status) {
  ::tensorflow::OpGradient gradient(call);
  gradient.SetStatus(reinterpret_cast<OpGradientFunction>(call->user_data)(&gradient));
  const ::tensorflow::Status& result = gradient.status();
  TF_SetStatus(status, static_cast<TF_Code>(result.code()), result.error_message().c_str());
}
inline bool RegisterGradient(const char* op, OpGradientFunction function) {
  return RegisterGradientInC(op, CallOpGradient, reinterpret_cast<void*>(function));
}

}  // namespace internal
}  // namespace millrace

// The gradient of an op: a Status F(OpGradient*), a function of millrace/c/gradients.h, or nullptr if it is
// not differentiable.
#define REGISTER_GRADIENT(op, function)                                                \
  static const bool MR_TF_OP_JOIN(mr_gradient_, __COUNTER__) __attribute__((unused)) = \
      ::millrace::internal::RegisterGradient(op, function)

#endif
