// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// User-defined ops as in TensorFlow's documentation, for C++11.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

REGISTER_OP("CustomZeroOut")
    .Attr("T: {float, double, int32, int64}")
    .Attr("preserve_index: int = 0")
    .Input("to_zero: T")
    .Output("zeroed: T")
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc(R"doc(
Zeros all but one element.

preserve_index: The one.
)doc");

template <typename T>
class ZeroOut : public OpKernel {
 public:
  explicit ZeroOut(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("preserve_index", &preserve_index_));
    OP_REQUIRES(context, preserve_index_ >= 0,
                errors::InvalidArgument("Need preserve_index >= 0, got ", preserve_index_));
  }
  void Compute(OpKernelContext* context) override {
    const Tensor& input_tensor = context->input(0);
    OP_REQUIRES(context, TensorShapeUtils::IsVector(input_tensor.shape()),
                errors::InvalidArgument("ZeroOut expects a 1-D vector."));
    auto input = input_tensor.flat<T>();
    OP_REQUIRES(context, preserve_index_ < input.size(), errors::OutOfRange("preserve_index out of range"));
    Tensor* output_tensor = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, input_tensor.shape(), &output_tensor));
    auto output = output_tensor->template flat<T>();
    output.setZero();
    output(preserve_index_) = input(preserve_index_);
  }

 private:
  int preserve_index_;
};
#define REGISTER(type) \
  REGISTER_KERNEL_BUILDER(Name("CustomZeroOut").Device(DEVICE_CPU).TypeConstraint<type>("T"), ZeroOut<type>)
TF_CALL_float(REGISTER);
TF_CALL_double(REGISTER);
TF_CALL_int32(REGISTER);
TF_CALL_int64(REGISTER);
#undef REGISTER

// Changes a variable in place: adds one to its elements, or makes it a vector of `replace` zeros.
REGISTER_OP("CustomAddOne")
    .Attr("T: {float, bool}")
    .Attr("replace: int = 0")
    .Input("ref: Ref(T)")
    .Output("output_ref: Ref(T)")
    .SetShapeFn(shape_inference::UnknownShape);

class AddOne : public OpKernel {
 public:
  explicit AddOne(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("replace", &replace_));
  }
  void Compute(OpKernelContext* context) override {
    OP_REQUIRES(context, context->input_is_ref(0), errors::Internal("the input is not a reference"));
    {
      mutex_lock lock(*context->input_ref_mutex(0));
      if (replace_ > 0) {
        Tensor zeros(DT_FLOAT, TensorShape({replace_}));
        zeros.flat<float>().setZero();
        context->replace_ref_input(0, zeros, /*lock_held=*/true);
      } else {
        Tensor variable = context->mutable_input(0, /*lock_held=*/true);
        OP_REQUIRES_OK(context, context->status());
        auto values = variable.flat<float>();
        for (int64 i = 0; i < variable.NumElements(); ++i) values(i) += 1;
      }
    }
    context->forward_ref_input_to_ref_output(0, 0);
  }

 private:
  int replace_;
};
REGISTER_KERNEL_BUILDER(Name("CustomAddOne").Device(DEVICE_CPU), AddOne);

// Forwards its input, of any type.
REGISTER_OP("CustomPass")
    .Attr("T: type")
    .Input("x: T")
    .Output("y: T")
    .SetShapeFn(shape_inference::UnchangedShape);

class Pass : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override { context->set_output(0, context->input(0)); }
};
REGISTER_KERNEL_BUILDER(Name("CustomPass").Device(DEVICE_CPU), Pass);

// Attributes of all kinds, as text.
REGISTER_OP("CustomAttrs")
    .Attr("i: int")
    .Attr("f: float")
    .Attr("b: bool")
    .Attr("s: string")
    .Attr("t: type")
    .Attr("shape: shape")
    .Attr("is: list(int)")
    .Attr("fs: list(float)")
    .Attr("bs: list(bool)")
    .Attr("ss: list(string)")
    .Attr("ts: list(type)")
    .Attr("shapes: list(shape)")
    .Output("text: string")
    .SetShapeFn(shape_inference::ScalarShape);

class Attrs : public OpKernel {
 public:
  explicit Attrs(OpKernelConstruction* c) : OpKernel(c) {
    int32 i;
    float f;
    bool b;
    string s;
    DataType t;
    PartialTensorShape shape;
    std::vector<int64> is;
    std::vector<float> fs;
    std::vector<bool> bs;
    std::vector<string> ss;
    std::vector<DataType> ts;
    std::vector<PartialTensorShape> shapes;
    OP_REQUIRES_OK(c, c->GetAttr("i", &i));
    OP_REQUIRES_OK(c, c->GetAttr("f", &f));
    OP_REQUIRES_OK(c, c->GetAttr("b", &b));
    OP_REQUIRES_OK(c, c->GetAttr("s", &s));
    OP_REQUIRES_OK(c, c->GetAttr("t", &t));
    OP_REQUIRES_OK(c, c->GetAttr("shape", &shape));
    OP_REQUIRES_OK(c, c->GetAttr("is", &is));
    OP_REQUIRES_OK(c, c->GetAttr("fs", &fs));
    OP_REQUIRES_OK(c, c->GetAttr("bs", &bs));
    OP_REQUIRES_OK(c, c->GetAttr("ss", &ss));
    OP_REQUIRES_OK(c, c->GetAttr("ts", &ts));
    OP_REQUIRES_OK(c, c->GetAttr("shapes", &shapes));
    text_ = strings::StrCat(i, " ", f, " ", b, " ", s, " ", DataTypeString(t), " ", shape);
    for (const int64 v : is) text_ += strings::StrCat(" ", v);
    for (const float v : fs) text_ += strings::StrCat(" ", v);
    for (const bool v : bs) text_ += strings::StrCat(" ", v);
    for (const string& v : ss) text_ += " " + v;
    for (const DataType v : ts) text_ += " " + DataTypeString(v);
    for (const PartialTensorShape& v : shapes) text_ += strings::StrCat(" ", v);
    float wrong = 0;
    OP_REQUIRES(
        c, !c->GetAttr("i", &wrong).ok() && !c->GetAttr("missing", &i).ok() && !c->GetAttr("is", &i).ok(),
        errors::Internal("attributes of other types were read"));
    OP_REQUIRES(c, c->HasAttr("i") && !c->HasAttr("missing"), errors::Internal("HasAttr"));
    OP_REQUIRES(c, c->num_inputs() == 0 && c->num_outputs() == 1 && c->output_type(0) == DT_STRING,
                errors::Internal("types"));
  }
  void Compute(OpKernelContext* context) override {
    Tensor* out = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape(), &out));
    out->scalar<string>()() = name() + ": " + text_;
  }

 private:
  string text_;
};
REGISTER_KERNEL_BUILDER(Name("CustomAttrs").Device(DEVICE_CPU), Attrs);

REGISTER_OP("CustomTensorAttrs")
    .Attr("value: tensor")
    .Attr("values: list(tensor)")
    .Attr("f: func")
    .Output("text: string")
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      Tensor value;
      TF_RETURN_IF_ERROR(c->GetAttr("value", &value));
      c->set_output(0, value.dims() == 0 ? c->Scalar() : c->Vector(value.dim_size(0)));
      return Status::OK();
    });

class TensorAttrs : public OpKernel {
 public:
  explicit TensorAttrs(OpKernelConstruction* c) : OpKernel(c) {
    std::vector<Tensor> values;
    NameAttrList f;
    OP_REQUIRES_OK(c, c->GetAttr("value", &value_));
    OP_REQUIRES_OK(c, c->GetAttr("values", &values));
    OP_REQUIRES_OK(c, c->GetAttr("f", &f));
    text_ = f.name();
    for (const Tensor& v : values) text_ += strings::StrCat(" ", v.shape(), ":", v.flat<string>()(0));
    OP_REQUIRES(
        c, !c->GetAttr("value", &f).ok() && !c->GetAttr("f", &values).ok() && !c->GetAttr("f", &value_).ok(),
        errors::Internal("attributes of other types were read"));
  }
  void Compute(OpKernelContext* context) override {
    Tensor* out = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, value_.shape(), &out));
    for (int64 i = 0; i < value_.NumElements(); ++i)
      out->flat<string>()(i) = strings::StrCat(value_.flat<float>()(i), " ", text_);
  }

 private:
  Tensor value_;
  string text_;
};
REGISTER_KERNEL_BUILDER(Name("CustomTensorAttrs").Device(DEVICE_CPU), TensorAttrs);

// Concatenates the strings of all inputs, by lists and names; outputs each one reversed, and their number.
REGISTER_OP("CustomLists")
    .Attr("N: int >= 1")
    .Input("texts: N * string")
    .Input("between: string")
    .Output("joined: string")
    .Output("reversed: N * string")
    .Output("count: int64")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle merged = c->input(0);
      for (int i = 1; i + 1 < c->num_inputs(); ++i)
        TF_RETURN_IF_ERROR(c->Merge(merged, c->input(i), &merged));
      ShapeHandle scalar;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(c->num_inputs() - 1), 0, &scalar));
      for (int i = 0; i + 1 < c->num_outputs(); ++i) c->set_output(i, merged);
      c->set_output(c->num_outputs() - 1, c->Scalar());
      return Status::OK();
    });

class Lists : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    OpInputList texts;
    const Tensor* between = nullptr;
    OP_REQUIRES_OK(context, context->input_list("texts", &texts));
    OP_REQUIRES_OK(context, context->input("between", &between));
    OP_REQUIRES(context, !context->input("texts_", &between).ok(), errors::Internal("no such input"));
    OP_REQUIRES_OK(context, context->input("between", &between));
    OpOutputList reversed;
    OP_REQUIRES_OK(context, context->output_list("reversed", &reversed));
    Tensor joined(DT_STRING, texts[0].shape());
    auto to = joined.flat<string>();
    for (int i = 0; i < texts.size(); ++i) {
      OP_REQUIRES(context, texts[i].shape() == texts[0].shape(), errors::InvalidArgument("shapes differ"));
      Tensor* out = nullptr;
      OP_REQUIRES_OK(context, reversed.allocate(i, texts[i].shape(), &out));
      auto from = texts[i].flat<string>();
      for (int64 k = 0; k < from.size(); ++k) {
        out->flat<string>()(k) = string(from(k).rbegin(), from(k).rend());
        to(k) += (i > 0 ? between->scalar<string>()() : string()) + from(k);
      }
    }
    context->set_output(0, joined);
    Tensor* count = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output("count", {}, &count));
    count->scalar<int64>()() = texts.size();
  }
};
REGISTER_KERNEL_BUILDER(Name("CustomLists").Device(DEVICE_CPU), Lists);

// The rows of a matrix in a shape given by an input, each element multiplied on the threads of the step.
REGISTER_OP("CustomScaleAs")
    .Input("x: float")
    .Input("shape: int32")
    .Attr("by: float = 2.0")
    .Output("y: float")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle matrix, shape;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &matrix));
      TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(1, &shape));
      DimensionHandle all, wanted = c->NumElements(shape);
      TF_RETURN_IF_ERROR(c->Multiply(c->Dim(matrix, 0), c->Dim(matrix, -1), &all));
      TF_RETURN_IF_ERROR(c->Merge(all, wanted, &wanted));
      c->set_output(0, shape);
      return Status::OK();
    });

class ScaleAs : public OpKernel {
 public:
  explicit ScaleAs(OpKernelConstruction* c) : OpKernel(c) { OP_REQUIRES_OK(c, c->GetAttr("by", &by_)); }
  void Compute(OpKernelContext* context) override {
    auto x = context->input(0).matrix<float>();
    auto sizes = context->input(1).vec<int32>();
    TensorShape shape;
    OP_REQUIRES_OK(context, TensorShapeUtils::MakeShape(sizes.data(), sizes.size(), &shape));
    OP_REQUIRES(context, shape.num_elements() == x.size(), errors::InvalidArgument("sizes differ"));
    if (x.size() == 13) throw std::runtime_error("thirteen is not for us");
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &y));
    auto out = y->flat<float>();
    const int64 columns = x.dimension(1);
    auto work = [&](int64 begin, int64 end) {
      for (int64 i = begin; i < end; ++i) out(i) = by_ * x(i / columns, i % columns);
    };
    auto workers = *context->device()->tensorflow_cpu_worker_threads();
    Shard(workers.num_threads, workers.workers, x.size(), 100, work);
  }

 private:
  float by_;
};
REGISTER_KERNEL_BUILDER(Name("CustomScaleAs").Device(DEVICE_CPU), ScaleAs);

// Kernels that misuse their context: each is an error of the step.
REGISTER_OP("CustomMisuse")
    .Attr("how: string")
    .Attr("N: int >= 1 = 2")
    .Input("x: float")
    .Output("y: N * float")
    .SetShapeFn(shape_inference::UnknownShape);

class Misuse : public OpKernel {
 public:
  explicit Misuse(OpKernelConstruction* c) : OpKernel(c) { OP_REQUIRES_OK(c, c->GetAttr("how", &how_)); }
  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    Tensor* y = nullptr;
    if (how_ == "uninitialized") {
      context->set_output(0, Tensor(DT_FLOAT, TensorShape({int64{1} << 60})));
    } else if (how_ == "shard") {
      context->ParallelFor(1000, 100000, [](int64 begin, int64) {
        if (begin >= 0) throw std::runtime_error("thrown by a shard");
      });
    } else if (how_ == "type") {
      context->set_output(0, x);
      x.flat<double>();
    } else if (how_ == "rank") {
      x.matrix<float>();
    } else if (how_ == "scalar") {
      x.scalar<float>();
    } else if (how_ == "sizes") {
      x.shaped<float, 2>({2, 2});
    } else if (how_ == "list") {
      OP_REQUIRES_OK(context, context->allocate_output("y", x.shape(), &y));
    } else if (how_ == "memory") {
      throw std::bad_alloc();
    } else if (how_ == "memory of a shard") {
      context->ParallelFor(1000, 100000, [](int64, int64) { throw std::bad_alloc(); });
    } else if (how_ == "object") {
      throw 7;
    }
  }

 private:
  string how_;
};
REGISTER_KERNEL_BUILDER(Name("CustomMisuse").Device(DEVICE_CPU), Misuse);

// A number that outlives the step.
class Counter : public ResourceBase {
 public:
  explicit Counter(int64 start) : value_(start) { ++alive; }
  ~Counter() override { --alive; }
  string DebugString() const override { return "counter"; }
  int64 Add(int64 by) { return value_ += by; }
  static std::atomic<int64> alive;

 private:
  std::atomic<int64> value_;
};
std::atomic<int64> Counter::alive(0);
class OtherCounter : public ResourceBase {};

REGISTER_OP("CustomCounter")
    .Attr("start: int = 0")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("counter: resource")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape);

class CounterOp : public ResourceOpKernel<Counter> {
 public:
  explicit CounterOp(OpKernelConstruction* c) : ResourceOpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("start", &start_));
  }

 private:
  Status CreateResource(Counter** made) override {
    if (start_ < 0) return errors::InvalidArgument("a counter starts at 0 or more");
    *made = new Counter(start_);
    return Status::OK();
  }
  int64 start_ = 0;
};
REGISTER_KERNEL_BUILDER(Name("CustomCounter").Device(DEVICE_CPU), CounterOp);

REGISTER_OP("CustomCount")
    .Attr("by: int = 1")
    .Attr("as_other: bool = false")
    .Input("counter: resource")
    .Output("value: int64")
    .Output("alive: int64")
    .SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape);

class Count : public OpKernel {
 public:
  explicit Count(OpKernelConstruction* c) : OpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("by", &by_));
    OP_REQUIRES_OK(c, c->GetAttr("as_other", &as_other_));
  }
  void Compute(OpKernelContext* context) override {
    if (as_other_) {
      core::RefCountPtr<OtherCounter> other;
      OP_REQUIRES_OK(context, LookupResource(context, HandleFromInput(context, 0), &other));
    }
    Counter* counter = nullptr;
    OP_REQUIRES_OK(context, LookupResource(context, HandleFromInput(context, 0), &counter));
    const core::ScopedUnref unref(counter);
    Tensor* value = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output("value", TensorShape(), &value));
    value->scalar<int64>()() = counter->Add(by_);
    OP_REQUIRES_OK(context, context->allocate_output("alive", TensorShape(), &value));
    value->scalar<int64>()() = Counter::alive;
  }

 private:
  int64 by_ = 0;
  bool as_other_ = false;
};
REGISTER_KERNEL_BUILDER(Name("CustomCount").Device(DEVICE_CPU), Count);

// Creates, finds and deletes by name, without a handle.
REGISTER_OP("CustomNamed")
    .Attr("name_of_it: string")
    .Attr("how: string")
    .Output("done: int64")
    .SetIsStateful();

class Named : public OpKernel {
 public:
  explicit Named(OpKernelConstruction* c) : OpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("name_of_it", &name_));
    OP_REQUIRES_OK(c, c->GetAttr("how", &how_));
  }
  void Compute(OpKernelContext* context) override {
    ResourceMgr* const manager = context->resource_manager();
    const string container = manager->default_container();
    core::RefCountPtr<Counter> counter;
    if (how_ == "create") {
      OP_REQUIRES_OK(context, manager->Create(container, name_, new Counter(1)));
    } else if (how_ == "throw") {
      OP_REQUIRES_OK(context,
                     manager->LookupOrCreate<Counter>(container, name_, &counter, [](Counter**) -> Status {
                       throw std::runtime_error("no counter today");
                     }));
    } else if (how_ == "delete") {
      OP_REQUIRES_OK(context, manager->Delete<Counter>(container, name_));
    }
    if (how_ != "delete") OP_REQUIRES_OK(context, manager->Lookup(container, name_, &counter));
    Tensor* done = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape(), &done));
    done->scalar<int64>()() = counter == nullptr ? 0 : counter->Add(1);
  }

 private:
  string name_, how_;
};
REGISTER_KERNEL_BUILDER(Name("CustomNamed").Device(DEVICE_CPU), Named);

REGISTER_OP("CustomLater").Input("x: bool").Output("y: bool").SetShapeFn(shape_inference::UnchangedShape);

class Later : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    std::thread([context, done] {
      Tensor* y = nullptr;
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, context->input(0).shape(), &y), done);
      for (int64 i = 0; i < y->NumElements(); ++i) y->flat<bool>()(i) = !context->input(0).flat<bool>()(i);
      done();
    }).detach();
  }
};
REGISTER_KERNEL_BUILDER(Name("CustomLater").Device(DEVICE_CPU), Later);

// Calls that wait for each other: a call of one side ends when one of the other side has arrived.
REGISTER_OP("CustomExchange").Attr("side: int").Input("x: int64").Output("y: int64").SetIsStateful();

class Exchange : public OpKernel {
 public:
  explicit Exchange(OpKernelConstruction* c) : OpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("side", &side_));
    OP_REQUIRES(c, side_ == 0 || side_ == 1, errors::InvalidArgument("there are two sides"));
  }
  void Compute(OpKernelContext* context) override {
    static std::mutex mu;
    static std::condition_variable changed;
    static int64 calls[2] = {0, 0};
    std::unique_lock<std::mutex> lock(mu);
    const int64 mine = ++calls[side_];
    changed.notify_all();
    OP_REQUIRES(context,
                changed.wait_for(lock, std::chrono::seconds(20), [&] { return calls[1 - side_] >= mine; }),
                errors::DeadlineExceeded("the other side has not come"));
    context->set_output(0, context->input(0));
  }

 private:
  int32 side_ = 0;
};
REGISTER_KERNEL_BUILDER(Name("CustomExchange").Device(DEVICE_CPU), Exchange);

REGISTER_OP("CustomAtOnce").Input("x: int64").Output("y: int64").SetIsStateful();
REGISTER_KERNEL_BUILDER(Name("CustomAtOnce").Device(DEVICE_CPU).NeverBlocks(), Pass);

}  // namespace
}  // namespace tensorflow
