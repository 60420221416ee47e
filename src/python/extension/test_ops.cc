// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A library of ops for tests of the creation of operations: one op for each kind of argument and attribute.
// Most have no kernels. The module tensorflow.python.framework.test_ops loads it.
#include <cstdio>
#include <sstream>
#include <string>

#include "millrace/user_op.h"

namespace {

// Each line: the name, then its inputs (<), outputs (>) and attributes (:); "!" is for state, "~" for why it
// is deprecated.
constexpr const char* kOps = R"(
None
Old | ~ For reasons
A | > out: float
B | > out: float
IntAttr | > out: int64 | : foo: int = 1
KernelLabel | > result: string
KernelLabelRequired | < input: int32 | > result: string
Int64Output | > out: int64
IntInput | < a: int32
IntOutput | > a: int32
IntInputIntOutput | < a: int32 | > b: int32
IntInputFloatInput | < a: int32 | < b: float
IntOutputFloatOutput | > a: int32 | > b: float
FloatInput | < a: float
FloatOutput | > a: float
FloatOutputStringOutput | > a: float | > b: string
TwoIntInputs | < a: int32 | < b: int32
TwoIntOutputs | > a: int32 | > b: int32
TwoFloatInputs | < a: float | < b: float
TwoFloatInputsIntOutput | < a: float | < b: float | > c: int32
TwoFloatInputsFloatOutput | < a: float | < b: float | > c: float
TwoFloatOutputs | > a: float | > b: float
FiveFloatOutputs | > a: float | > b: float | > c: float | > d: float | > e: float
RefInputFloatInput | < a: Ref(float) | < b: float
RefInputFloatInputIntOutput | < a: Ref(float) | < b: float | > c: int32
RefInputIntInput | < a: Ref(int32) | < b: int32
RefOutputFloatOutput | > a: Ref(float) | > b: float
RefOutput | > a: Ref(int32)
RefIn | < a: Ref(T) | : T: type
RefOut | > a: Ref(T) | : T: type
TwoRefsIn | < a: Ref(T) | < b: Ref(T) | : T: type
Foo1 | < a: float | < b: int32 | < c: int32 | > d: float | > e: int32
Foo2 | < a: float | < b: string | < c: string | > d: float | > e: int32
Foo3 | < a: float | < b: string | < c: float | > d: float | > e: int32
CopyOp | < a: T | > b: T | : T: type
Unary | < a: T | > b: T | : T: type
ListInput | < a: N * T | : N: int >= 1 | : T: type
ListOutput | > a: T | : T: list(type) >= 1
OpWithDefaultAttr | > a: int32 | : default_float: float = 123.0
OpWithFutureDefaultAttr
FuncAttr | : f: func
FuncListAttr | : f: list(func)
StringListAttr | : a: list(string) | : b: string
DefaultAttrs | : string_val: string = 'abc' | : string_list_val: list(string) = ['abc', ''] | : int_val: int = 123 | : int_list_val: list(int) = [1, 2, 3] | : float_val: float = 10.0 | : float_list_val: list(float) = [10.0] | : bool_val: bool = true | : bool_list_val: list(bool) = [true, false] | : type_val: type = DT_INT32 | : type_list_val: list(type) = [DT_INT32, DT_FLOAT] | : shape_val: shape = { dim { size: 2 } dim { size: 1 } } | : shape_list_val: list(shape) = [{}, { dim { size: 1 } }] | : tensor_val: tensor = { dtype: DT_INT32 tensor_shape: {} int_val: 1 } | : tensor_list_val: list(tensor) = [{ dtype: DT_INT32 tensor_shape: {} int_val: 1 }]
RequiresOlderGraphVersion | > version: int32 | !
StubResourceHandleOp | > resource: resource | : container: string = '' | : shared_name: string = '' | !
ResourceInitializedOp | < resource: resource | > initialized: bool | !
ResourceCreateOp | < resource: resource | !
ResourceUsingOp | < resource: resource | !
TestAttr | > out: T | : T: {float, double} | !
TestStringOutput | < input: float | > output1: float | > output2: string
Simple | < a: int32 | > out: float
OutT | > a: T | : T: type
ReservedInput | < input: int32
ReservedAttr | : range: int
Polymorphic | < a: T | > out: T | : T: type
PolymorphicOut | > out: T | : T: type
PolymorphicDefaultOut | > out: T | : T: type = DT_STRING
Binary | < a: T | < b: T | > out: T | : T: type
Restrict | < a: T | > out: T | : T: {string, bool}
TypeList | < a: T | : T: list(type) >= 0
TypeListTwice | < a: T | < b: T | : T: list(type) >= 0
OutTypeList | > out: T | : T: list(type) >= 0
TypeListRestrict | < a: T | : T: list({string, bool})
OutTypeListRestrict | > out: t | : t: list({string, bool})
Attr | : a: int
AttrFloat | : a: float
AttrFloatList | : a: list(float)
AttrBool | : a: bool
AttrBoolList | : a: list(bool)
AttrMin | : a: int >= 5
AttrListMin | : a: list(int) >= 2
AttrEnum | : a: {'apples', 'oranges'}
AttrEnumList | : a: list({'apples', 'oranges'})
AttrShape | : a: shape
AttrShapeList | : a: list(shape)
AttrPartialShape | : a: shape
AttrPartialShapeList | : a: list(shape)
AttrDefault | : a: string = 'banana'
AttrListDefault | : a: list(int) = [5, 15]
AttrEmptyListDefault | : a: list(float) = []
AttrTypeDefault | < a: T | : T: type = DT_INT32
AttrListTypeDefault | < a: N * T | < b: N * T | : T: type = DT_INT32 | : N: int >= 0
NIntsIn | < a: N * int32 | : N: int >= 2
NPolymorphicIn | < a: N * T | : T: type | : N: int >= 2
NPolymorphicRestrictIn | < a: N * T | : T: {string, bool} | : N: int >= 2
NInTwice | < a: N * int32 | < b: N * string | : N: int >= 0
NInPolymorphicTwice | < a: N * T | < b: N * T | : T: type | : N: int >= 0
NInTwoTypeVariables | < a: N * S | < b: N * T | : S: type | : T: type | : N: int >= 0
InPolymorphicTwice | < a: N * T | < b: M * T | : T: type = DT_INT32 | : N: int >= 0 | : M: int >= 0
NIntsOut | > a: N * int32 | : N: int >= 2
NIntsOutDefault | > a: N * int32 | : N: int >= 2 = 3
NPolymorphicOut | > a: N * T | : T: type | : N: int >= 2
NPolymorphicOutDefault | > a: N * T | : T: type = DT_BOOL | : N: int >= 2 = 2
NPolymorphicRestrictOut | > a: N * T | : T: {string, bool} | : N: int >= 2
SimpleStruct | > a: n_a * int32 | : n_a: int >= 0
MixedStruct | > a: n_a * int32 | > b: float | : n_a: int >= 0
ComplexStruct | > a: n_a * int32 | > b: n_b * int64 | > c: t_c | : n_a: int >= 0 | : n_b: int >= 0 | : t_c: list(type) >= 0
)";

// "  a: T " as it is in a definition.
std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

void Register(const std::string& line) {
  std::istringstream parts(line);
  std::string part;
  std::getline(parts, part, '|');
  const std::string name = Trimmed(part);
  tensorflow::OpDefBuilderWrapper op(name.c_str());
  while (std::getline(parts, part, '|')) {
    part = Trimmed(part);
    const std::string spec = Trimmed(part.substr(1));
    if (part[0] == '<') {
      op.Input(spec);
    } else if (part[0] == '>') {
      op.Output(spec);
    } else if (part[0] == ':') {
      op.Attr(spec);
    } else if (part[0] == '~') {
      op.Deprecated(8, spec);
    } else {
      op.SetIsStateful();
    }
  }
  if (name == "ResourceInitializedOp" || name == "KernelLabel")
    op.SetShapeFn(tensorflow::shape_inference::ScalarShape);
  static_cast<void>(static_cast<bool>(op));  // registers it
}

const bool registered = [] {
  std::istringstream lines(kOps);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.empty()) Register(line);
  }
  return true;
}();

// The text names the kernel of several that has run.
class LabelKernel : public tensorflow::OpKernel {
 public:
  LabelKernel(tensorflow::OpKernelConstruction* c, const char* label) : OpKernel(c), label_(label) {}
  void Compute(tensorflow::OpKernelContext* c) override {
    tensorflow::Tensor* result = nullptr;
    OP_REQUIRES_OK(c, c->allocate_output(0, tensorflow::TensorShape(), &result));
    result->scalar<tensorflow::string>()() = std::string("My label is: ") + label_;
  }

 private:
  const char* const label_;
};
struct DefaultKernel : LabelKernel {
  explicit DefaultKernel(tensorflow::OpKernelConstruction* c) : LabelKernel(c, "default") {}
};
struct FirstKernel : LabelKernel {
  explicit FirstKernel(tensorflow::OpKernelConstruction* c) : LabelKernel(c, "overload_1") {}
};
struct SecondKernel : LabelKernel {
  explicit SecondKernel(tensorflow::OpKernelConstruction* c) : LabelKernel(c, "overload_2") {}
};

class StubResource : public tensorflow::ResourceBase {
 public:
  tensorflow::string DebugString() const override { return ""; }
};

// The handle of a resource that another op makes.
class StubHandleKernel : public tensorflow::OpKernel {
 public:
  explicit StubHandleKernel(tensorflow::OpKernelConstruction* c) : OpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("container", &container_));
    OP_REQUIRES_OK(c, c->GetAttr("shared_name", &name_));
  }
  void Compute(tensorflow::OpKernelContext* c) override {
    const tensorflow::string& container =
        container_.empty() ? c->resource_manager()->default_container() : container_;
    OP_REQUIRES_OK(c, tensorflow::MakeResourceHandleToOutput(c, 0, container, name_.empty() ? name() : name_,
                                                             tensorflow::TypeIndex::Make<StubResource>()));
  }

 private:
  tensorflow::string container_, name_;
};

class CreateStubKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tensorflow::OpKernelContext* c) override {
    tensorflow::ResourceHandle handle;
    OP_REQUIRES_OK(c, tensorflow::HandleFromInput(c, 0, &handle));
    OP_REQUIRES_OK(c, tensorflow::CreateResource(c, handle, new StubResource));
  }
};

class StubInitializedKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tensorflow::OpKernelContext* c) override {
    tensorflow::ResourceHandle handle;
    OP_REQUIRES_OK(c, tensorflow::HandleFromInput(c, 0, &handle));
    tensorflow::Tensor* result = nullptr;
    OP_REQUIRES_OK(c, c->allocate_output(0, tensorflow::TensorShape(), &result));
    StubResource* found = nullptr;
    result->scalar<bool>()() = tensorflow::LookupResource(c, handle, &found).ok();
    if (found != nullptr) found->Unref();
  }
};

class UseStubKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tensorflow::OpKernelContext* c) override {
    tensorflow::ResourceHandle handle;
    OP_REQUIRES_OK(c, tensorflow::HandleFromInput(c, 0, &handle));
    StubResource* found = nullptr;
    OP_REQUIRES_OK(c, tensorflow::LookupResource(c, handle, &found));
    found->Unref();
  }
};

using tensorflow::DEVICE_CPU;
REGISTER_KERNEL_BUILDER(Name("KernelLabel").Device(DEVICE_CPU), DefaultKernel);
REGISTER_KERNEL_BUILDER(Name("KernelLabel").Device(DEVICE_CPU).Label("overload_1"), FirstKernel);
REGISTER_KERNEL_BUILDER(Name("KernelLabel").Device(DEVICE_CPU).Label("overload_2"), SecondKernel);
REGISTER_KERNEL_BUILDER(Name("KernelLabelRequired").Device(DEVICE_CPU).Label("overload_1"), FirstKernel);
REGISTER_KERNEL_BUILDER(Name("KernelLabelRequired").Device(DEVICE_CPU).Label("overload_2"), SecondKernel);
REGISTER_KERNEL_BUILDER(Name("StubResourceHandleOp").Device(DEVICE_CPU), StubHandleKernel);
REGISTER_KERNEL_BUILDER(Name("ResourceCreateOp").Device(DEVICE_CPU), CreateStubKernel);
REGISTER_KERNEL_BUILDER(Name("ResourceInitializedOp").Device(DEVICE_CPU), StubInitializedKernel);
REGISTER_KERNEL_BUILDER(Name("ResourceUsingOp").Device(DEVICE_CPU), UseStubKernel);

}  // namespace
