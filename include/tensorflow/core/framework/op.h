// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// User-defined ops, in sources written for TensorFlow:
//
//   REGISTER_OP("ZeroOut")
//       .Input("to_zero: int32")
//       .Output("zeroed: int32")
//       .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) { … });
//
// The op is registered when the library is loaded, by TF_LoadLibrary or tf.load_op_library.
#ifndef TENSORFLOW_CORE_FRAMEWORK_OP_H_
#define TENSORFLOW_CORE_FRAMEWORK_OP_H_

#include <cstdio>
#include <exception>
#include <functional>

#include "millrace/c/user_op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tensorflow {

class OpDefBuilderWrapper {
 public:
  using ShapeFn = std::function<Status(shape_inference::InferenceContext*)>;

  explicit OpDefBuilderWrapper(const char* name) : name_(name), builder_(TF_NewOpDefinitionBuilder(name)) {}
  OpDefBuilderWrapper& Attr(const string& spec) {
    TF_OpDefinitionBuilderAddAttr(builder_, spec.c_str());
    return *this;
  }
  OpDefBuilderWrapper& Input(const string& spec) {
    TF_OpDefinitionBuilderAddInput(builder_, spec.c_str());
    return *this;
  }
  OpDefBuilderWrapper& Output(const string& spec) {
    TF_OpDefinitionBuilderAddOutput(builder_, spec.c_str());
    return *this;
  }
  OpDefBuilderWrapper& SetIsCommutative() {
    TF_OpDefinitionBuilderSetIsCommutative(builder_, true);
    return *this;
  }
  OpDefBuilderWrapper& SetIsAggregate() {
    TF_OpDefinitionBuilderSetIsAggregate(builder_, true);
    return *this;
  }
  OpDefBuilderWrapper& SetIsStateful() {
    TF_OpDefinitionBuilderSetIsStateful(builder_, true);
    return *this;
  }
  OpDefBuilderWrapper& SetAllowsUninitializedInput() {
    TF_OpDefinitionBuilderSetAllowsUninitializedInput(builder_, true);
    return *this;
  }
  OpDefBuilderWrapper& Deprecated(int version, const string& explanation) {
    TF_OpDefinitionBuilderDeprecated(builder_, version, explanation.c_str());
    return *this;
  }
  OpDefBuilderWrapper& Doc(const string& text) {
    Millrace_OpDefinitionDoc(builder_, text.c_str());
    return *this;
  }
  OpDefBuilderWrapper& SetShapeFn(ShapeFn fn) {
    Millrace_OpDefinitionShapeFunction(builder_, CallShapeFn, new ShapeFn(std::move(fn)),
                                       [](void* data) { delete static_cast<ShapeFn*>(data); });
    return *this;
  }

  // Registers the op: the conversion ends the chain of calls.
  operator bool() {  // NOLINT(google-explicit-constructor): so that REGISTER_OP is one expression
    internal::CStatus status;
    TF_RegisterOpDefinition(builder_, status.get());
    if (!status.status().ok())
      std::fprintf(stderr, "op %s: %s\n", name_, status.status().error_message().c_str());
    return status.status().ok();
  }

 private:
  static void CallShapeFn(void* data, TF_ShapeInferenceContext* c, TF_Status* status) {
    shape_inference::InferenceContext context(c);
    Status result;
    try {
      result = (*static_cast<ShapeFn*>(data))(&context);
    } catch (...) {
      result = internal::CaughtError("a shape function");
    }
    result.Update(context.status());
    TF_SetStatus(status, static_cast<TF_Code>(result.code()), result.error_message().c_str());
  }

  const char* const name_;
  TF_OpDefinitionBuilder* const builder_;
};

}  // namespace tensorflow

#define MR_TF_OP_JOIN_(a, b) a##b
#define MR_TF_OP_JOIN(a, b) MR_TF_OP_JOIN_(a, b)
#define REGISTER_OP(name)                                                           \
  static const bool MR_TF_OP_JOIN(mr_tf_op_, __COUNTER__) __attribute__((unused)) = \
      ::tensorflow::OpDefBuilderWrapper(name)

#endif
