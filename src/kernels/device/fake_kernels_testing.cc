// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/fake_kernels_testing.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "device/fake_device_testing.h"
#include "kernel/kernel_context.h"
#include "kernels/cpu/state/variable_util.h"
#include "kernels/device/register.h"
#include "op/shape_inference.h"
#include "tensor/buffer.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

FakeDevice& DeviceIn(const KernelContext& context) { return static_cast<FakeDevice&>(context.device()); }

// The services that CPU kernels need, on any thread.
struct FakeCpu {
  FakeCpu() : resources("/device:CPU:0") {
    DeviceFactoryRegistry factories;
    MR_CHECK(RegisterCpuDeviceFactory(factories).ok());
    auto made = factories.CreateDevices(DeviceOptions{});
    MR_CHECK(made.ok());
    devices = *std::move(made);
    step.UseDevice(*devices->client_device());
    step.resources = &resources;
    step.cancellation = &cancellation;
  }
  std::unique_ptr<DeviceSet> devices;
  ResourceManager resources;
  CancellationManager cancellation;
  StepServices step;
};

FakeCpu& Cpu() {
  static auto* const cpu = new FakeCpu;
  return *cpu;
}

// A tensor as recorded for work in the stream: one in device memory only by its address.
struct Operand {
  explicit Operand(const Tensor& tensor, bool on_host)
      : dtype(tensor.dtype()),
        shape(tensor.shape()),
        at(tensor.buffer() == nullptr ? nullptr : tensor.raw_data()) {
    if (on_host) host = tensor;
  }
  DataType dtype;
  TensorShape shape;
  const void* at;
  std::optional<Tensor> host;

  // On the device's thread: a tensor that a CPU kernel can use.
  Tensor Open(const FakeDevice& device) const {
    if (host) return *host;
    if (at == nullptr) return Tensor(dtype, shape);
    void* const data = device.Open(at);
    const size_t bytes = static_cast<size_t>(shape.num_elements()) * ElementSize(dtype);
    return Tensor::FromBuffer(dtype, shape, Buffer::Wrap(data, bytes, nullptr), data);
  }
};

// The CPU kernel, and its outputs.
class CpuKernel {
 public:
  explicit CpuKernel(KernelConstruction& c) {
    KernelConstruction construction(c.name(), c.props(), *Cpu().step.device, Cpu().resources);
    auto made = KernelRegistry::Global().Create("CPU", construction);
    if (made.ok()) {
      kernel_ = *std::move(made);
    } else {
      c.SetError(made.status());
    }
  }

  // The shapes of the outputs, from those of the inputs and the values of inputs in host memory.
  StatusOr<std::vector<TensorShape>> OutputShapes(const KernelContext& context) const {
    std::vector<PartialShape> inputs;
    inputs.reserve(static_cast<size_t>(context.num_inputs()));
    for (int i = 0; i < context.num_inputs(); ++i) inputs.emplace_back(context.input(i).shape());
    const NodeProps& props = kernel_->props();
    InferenceContext c(props.op->def, props.attrs, kernel_->name(), context.num_outputs(), inputs);
    for (int i = 0; i < context.num_inputs(); ++i) {
      if (context.kernel().input_on_host(i)) c.set_input_tensor(i, &context.input(i));
    }
    if (Status status = props.op->shape_fn(c); !status.ok()) return ErrorOf(context, status);
    std::vector<TensorShape> shapes;
    for (int i = 0; i < context.num_outputs(); ++i) {
      auto shape = c.ToPartialShape(c.output(i)).ToTensorShape();
      if (!shape.ok()) return ErrorOf(context, shape.status());
      shapes.push_back(*std::move(shape));
    }
    return shapes;
  }

  // On the device's thread.
  Status Run(const FakeDevice& device, const std::vector<Operand>& inputs,
             const std::vector<Operand>& outputs) const {
    std::vector<Tensor> opened;
    opened.reserve(inputs.size());
    for (const Operand& input : inputs) opened.push_back(input.Open(device));
    std::vector<TensorValue> results(outputs.size());
    MR_RETURN_IF_ERROR(Compute(opened, results));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& value = results[i].tensor();
      if (value.shape() != outputs[i].shape || value.dtype() != outputs[i].dtype) {
        return errors::Internal("Op ", kernel_->op_name(), " gives ", value.shape(), ", not ",
                                outputs[i].shape);
      }
      if (outputs[i].at != nullptr)
        std::memmove(device.Open(outputs[i].at), value.raw_data(), value.num_bytes());
    }
    return Status();
  }

 private:
  Status Compute(const std::vector<Tensor>& inputs, std::vector<TensorValue>& outputs) const {
    std::vector<TensorValue> values(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[i].kind = TensorValue::Kind::kConstant;  // not to be overwritten
      values[i].borrowed = &inputs[i];
    }
    KernelContext context(Cpu().step, kernel_.get(), values, outputs);
    return kernel_->Compute(context);
  }

  // The status of the CPU kernel for inputs of these shapes; else `otherwise`.
  Status ErrorOf(const KernelContext& context, Status otherwise) const {
    std::vector<Tensor> inputs;
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& input = context.input(i);
      inputs.push_back(context.kernel().input_on_host(i) ? input : Tensor(input.dtype(), input.shape()));
      if (!context.kernel().input_on_host(i)) std::memset(inputs.back().raw_data(), 0, input.num_bytes());
    }
    std::vector<TensorValue> outputs(static_cast<size_t>(context.num_outputs()));
    const Status status = Compute(inputs, outputs);
    return status.ok() ? otherwise : status;
  }

  std::shared_ptr<OpKernel> kernel_;
};

// Adds the work of one run to the stream. `report` gets the error of the CPU kernel; null: an error breaks
// the stream.
Status Launch(KernelContext& context, const std::shared_ptr<const CpuKernel>& kernel,
              const std::shared_ptr<Status>& report) {
  MR_ASSIGN_OR_RETURN(const std::vector<TensorShape> shapes, kernel->OutputShapes(context));
  std::vector<Operand> inputs, outputs;
  for (int i = 0; i < context.num_inputs(); ++i)
    inputs.emplace_back(context.input(i), context.kernel().input_on_host(i));
  const bool elementwise = context.kernel().props().op->traits.elementwise && report == nullptr;
  for (int i = 0; i < context.num_outputs(); ++i) {
    Tensor* output;
    const TensorShape& shape = shapes[static_cast<size_t>(i)];
    if (elementwise && context.num_inputs() > 0) {
      MR_ASSIGN_OR_RETURN(output, context.ForwardInputOrAllocateOutput({0}, i, shape));
    } else {
      MR_ASSIGN_OR_RETURN(output, context.AllocateOutput(i, shape));
    }
    outputs.emplace_back(*output, false);
  }
  FakeDevice& device = DeviceIn(context);
  device.work().Launch(
      [&device, kernel, report, inputs = std::move(inputs), outputs = std::move(outputs)]() -> Status {
        Status status = kernel->Run(device, inputs, outputs);
        if (report == nullptr) return status;
        *report = std::move(status);
        return Status();
      });
  return Status();
}

class FakeKernel final : public OpKernel {
 public:
  explicit FakeKernel(KernelConstruction& c) : OpKernel(c), kernel_(std::make_shared<const CpuKernel>(c)) {}
  Status Compute(KernelContext& context) override { return Launch(context, kernel_, nullptr); }

 private:
  const std::shared_ptr<const CpuKernel> kernel_;
};

// Kernels of ops whose errors depend on the values of their inputs.
class FakeCheckingKernel final : public AsyncOpKernel {
 public:
  explicit FakeCheckingKernel(KernelConstruction& c)
      : AsyncOpKernel(c), kernel_(std::make_shared<const CpuKernel>(c)) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    const auto report = std::make_shared<Status>();
    if (Status status = Launch(context, kernel_, report); !status.ok()) return done(std::move(status));
    DeviceIn(context).work().Record()->Then([report, finish = std::move(done)](const Status& status) mutable {
      finish(status.ok() ? *report : status);
    });
  }

 private:
  const std::shared_ptr<const CpuKernel> kernel_;
};

// Calls fn.operator()<T>() for the types of kNumbers.
template <typename F>
Status VisitFakeNumber(DataType dtype, const F& fn) {
  switch (dtype) {
    case DataType::kFloat:
      return fn.template operator()<float>();
    case DataType::kDouble:
      return fn.template operator()<double>();
    case DataType::kInt32:
      return fn.template operator()<int32_t>();
    case DataType::kInt64:
      return fn.template operator()<int64_t>();
    default:
      return errors::Internal("No kernel for ", DataTypeName(dtype));
  }
}

// variable = variable + factor * scale * change, where `scale` is optional.
Status UpdateOnDevice(KernelContext& context, Tensor& variable, double factor, const Tensor* scale,
                      const Tensor& change) {
  if (variable.shape() != change.shape())
    return errors::InvalidArgument("Parameters and update must be the same size");
  const Operand from(variable, false), by(change, false);
  std::optional<Operand> scaled;
  if (scale != nullptr) scaled.emplace(*scale, false);
  if (!variable.OwnsBufferAlone()) {
    MR_ASSIGN_OR_RETURN(variable, context.AllocateTemp(variable.dtype(), variable.shape()));
  }
  FakeDevice& device = DeviceIn(context);
  device.work().Launch([&device, from, by, scaled, factor, to = Operand(variable, false)] {
    return VisitFakeNumber(from.dtype, [&]<typename T>() {
      const Tensor before = from.Open(device), delta = by.Open(device);
      Tensor after = to.Open(device);
      const auto times = static_cast<T>(factor) * (scaled ? scaled->Open(device).template scalar<T>() : T(1));
      for (int64_t i = 0; i < before.num_elements(); ++i)
        after.template data<T>()[i] = before.template data<T>()[i] + times * delta.template data<T>()[i];
      return Status();
    });
  });
  return Status();
}

// AssignAdd and AssignSub, on variables of either kind.
template <int kFactor>
class FakeAssignUpdateKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    return UpdateVariable(context, 0, input_type(1), [&](Tensor& variable) {
      return UpdateOnDevice(context, variable, kFactor, nullptr, context.input(1));
    });
  }
};

class FakeGradientDescentKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    return UpdateVariable(context, 0, input_type(1), [&](Tensor& variable) {
      if (!context.input(1).shape().IsScalar()) return errors::InvalidArgument("alpha is not a scalar");
      return UpdateOnDevice(context, variable, -1, &context.input(1), context.input(2));
    });
  }
};

using Types = std::vector<DataType>;
const Types kFloats = {DataType::kFloat, DataType::kDouble};
const Types kNumbers = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64};
const Types kValues = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64,
                       DataType::kBool};

struct Row {
  std::vector<const char*> ops;
  const char* type_attr = nullptr;  // null: none
  Types types = {};
  std::vector<const char*> host_args = {};
};

template <typename K>
void RegisterRows(KernelRegistry& registry, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    for (const char* op : row.ops) {
      KernelDef def(op);
      def.Device(FakeDevice::kType);
      if (row.type_attr != nullptr) def.Types(row.type_attr, row.types);
      if (std::string_view(op) == "Cast") def.Types("DstT", kNumbers);
      for (const char* arg : row.host_args) def.HostMemory(arg);
      registry.Register<K>(std::move(def));
    }
  }
}

}  // namespace

void RegisterFakeKernels(KernelRegistry& registry) {
  RegisterDeviceKernels(registry, FakeDevice::kType);
  RegisterRows<FakeKernel>(
      registry,
      {
          {{"Abs",        "Exp",    "Log",      "Neg",         "Reciprocal",  "Relu",
            "ReluGrad",   "Rsqrt",  "Sigmoid",  "SigmoidGrad", "Sin",         "Cos",
            "Sqrt",       "Tanh",   "TanhGrad", "Pow",         "RealDiv",     "Softmax",
            "LogSoftmax", "L2Loss", "MatMul",   "BiasAdd",     "BiasAddGrad", "SoftmaxCrossEntropyWithLogits",
            "Conv2D"},
           "T",
           kFloats},
          {{"Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "Square", "SquaredDifference", "Sign", "Less",
            "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "AddN"},
           "T",
           kNumbers},
          {{"LogicalAnd", "LogicalOr", "LogicalNot"}},
          {{"Select", "ZerosLike", "OnesLike", "Pack", "Unpack"}, "T", kValues},
          {{"Cast"}, "SrcT", kValues},
          {{"Fill"}, "T", kValues, {"dims"}},
          {{"Transpose"}, "T", kValues, {"perm"}},
          {{"ConcatV2"}, "T", kValues, {"axis"}},
          {{"Slice"}, "T", kValues, {"begin", "size"}},
          {{"Tile"}, "T", kNumbers, {"multiples"}},
          {{"Pad"}, "T", kNumbers, {"paddings"}},
          {{"ArgMax"}, "T", kNumbers, {"dimension"}},
          {{"Range"}, "Tidx", kNumbers, {"start", "limit", "delta"}},
      });
  RegisterRows<FakeKernel>(registry, {{{"Sum", "Prod", "Max", "Min"}, "T", kNumbers, {"reduction_indices"}},
                                      {{"Mean"}, "T", kFloats, {"reduction_indices"}},
                                      {{"All", "Any"}, nullptr, {}, {"reduction_indices"}}});
  RegisterRows<FakeCheckingKernel>(registry, {{{"FloorDiv", "FloorMod"}, "T", kNumbers},
                                              {{"CheckNumerics"}, "T", kFloats},
                                              {{"GatherV2"}, "Tparams", kValues, {"axis"}}});
  const auto on_fake = [](const char* op, const char* type) {
    KernelDef def(op);
    def.Device(FakeDevice::kType).Types(type, kNumbers);
    return def;
  };
  registry.Register<FakeAssignUpdateKernel<1>>(on_fake("AssignAdd", "T"));
  registry.Register<FakeAssignUpdateKernel<-1>>(on_fake("AssignSub", "T"));
  registry.Register<FakeAssignUpdateKernel<1>>(on_fake("AssignAddVariableOp", "dtype"));
  registry.Register<FakeAssignUpdateKernel<-1>>(on_fake("AssignSubVariableOp", "dtype"));
  registry.Register<FakeGradientDescentKernel>(on_fake("ApplyGradientDescent", "T"));
  registry.Register<FakeGradientDescentKernel>(on_fake("ResourceApplyGradientDescent", "T"));
}

Status RegisterFakeDevices() {
  static const Status status = [] {
    RegisterFakeKernels(KernelRegistry::Global());
    return RegisterFakeDeviceFactory(DeviceFactoryRegistry::Global());
  }();
  return status;
}

}  // namespace millrace
