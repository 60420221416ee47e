// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Reference variables: VariableV2 and the ops that assign to them.
#include <vector>

#include "kernel/kernel_registry.h"
#include "kernels/cpu/state/variable_util.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

class VariableKernel final : public OpKernel {
 public:
  explicit VariableKernel(KernelConstruction& c)
      : OpKernel(c),
        container_(c.Attr<std::string>("container")),
        shared_name_(c.Attr<std::string>("shared_name")) {
    const auto shape = c.Attr<PartialShape>("shape");
    dtype_ = c.Attr<DataType>("dtype");
    if (auto known = shape.ToTensorShape(); known.ok()) shape_ = *known;
    if (shared_name_.empty()) shared_name_ = name();
  }
  Status Compute(KernelContext& context) override {
    Variable* variable = nullptr;
    {
      MutexLock lock(mu_);
      const uint64_t generation = context.resources().generation();
      if (variable_ == nullptr || generation_ != generation || manager_ != &context.resources()) {
        MR_ASSIGN_OR_RETURN(RefPtr<Variable> found, LookUp(context.resources()));
        // Running steps may still refer to the previous one.
        if (variable_ != nullptr && variable_ != found) retired_.push_back(std::move(variable_));
        variable_ = std::move(found);
        generation_ = generation;
        manager_ = &context.resources();
      }
      variable = variable_.get();
    }
    // The kernel's reference keeps the variable alive for the step.
    context.set_output_ref(0, &variable->mu(), &variable->tensor());
    return Status();
  }

 private:
  StatusOr<RefPtr<Variable>> LookUp(ResourceManager& resources) const {
    const auto make = [this]() -> StatusOr<RefPtr<Variable>> {
      auto variable = MakeRef<Variable>(dtype_);
      // A tensor of the declared shape without a buffer: not initialised.
      variable->tensor() = Tensor::FromBuffer(dtype_, shape_, RefPtr<Buffer>(), nullptr);
      return variable;
    };
    MR_ASSIGN_OR_RETURN(RefPtr<Variable> found,
                        resources.LookupOrCreate<Variable>(container_, shared_name_, make));
    // A variable never changes its type, so this is enough.
    MutexLock lock(found->mu());
    const DataType dtype = found->tensor().dtype();
    if (dtype == dtype_) return found;
    return errors::InvalidArgument("Trying to share variable ", shared_name_, " of type ",
                                   DataTypeName(dtype), " as ", DataTypeName(dtype_));
  }

  const std::string container_;
  std::string shared_name_;
  DataType dtype_ = DataType::kInvalid;
  TensorShape shape_;  // a scalar if the shape isn't fully known
  Mutex mu_;
  RefPtr<Variable> variable_ MR_GUARDED_BY(mu_);
  std::vector<RefPtr<Variable>> retired_ MR_GUARDED_BY(mu_);
  uint64_t generation_ MR_GUARDED_BY(mu_) = 0;
  const ResourceManager* manager_ MR_GUARDED_BY(mu_) = nullptr;
};

class IsVariableInitializedKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    bool initialized;
    if (context.input_is_ref(0)) {
      MutexLock lock(context.ref_mutex(0));
      initialized = context.ref_input(0).IsInitialized();
    } else {
      initialized = context.input(0).IsInitialized();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<bool>() = initialized;
    return Status();
  }
};

class AssignKernel final : public OpKernel {
 public:
  explicit AssignKernel(KernelConstruction& c)
      : OpKernel(c), validate_shape_(c.Attr<bool>("validate_shape")) {}
  Status Compute(KernelContext& context) override {
    if (!context.input_is_ref(0)) return errors::InvalidArgument("Input 0 of Assign must be a reference");
    {
      MutexLock lock(context.ref_mutex(0));
      Tensor& variable = context.ref_input(0);
      if (validate_shape_ && variable.shape() != context.input(1).shape()) {
        return errors::InvalidArgument("Assign requires shapes of both tensors to match. lhs shape= ",
                                       variable.shape(), " rhs shape= ", context.input(1).shape());
      }
      MR_RETURN_IF_ERROR(StoreInput(context, 1, variable));
    }
    context.ForwardRef(0, 0);
    return Status();
  }

 private:
  const bool validate_shape_;
};

// AssignAdd and AssignSub.
template <cpu::BinaryOp kOp>
class AssignUpdateKernel final : public OpKernel {
 public:
  explicit AssignUpdateKernel(KernelConstruction& c)
      : OpKernel(c), fns_(cpu::FindBinary(kOp, BaseType(input_type(0)))) {
    if (fns_ == nullptr) {
      c.SetError(errors::Unimplemented("Op ", op_name(), " has no CPU kernel for ",
                                       DataTypeName(BaseType(input_type(0)))));
    }
  }
  Status Compute(KernelContext& context) override {
    const auto change = [&](Tensor& variable) -> Status {
      const Tensor& value = context.input(1);
      if (variable.shape() != value.shape()) {
        return errors::InvalidArgument("Parameters and update must be the same size");
      }
      return UpdateBy(context, *fns_, variable, value);
    };
    MR_RETURN_IF_ERROR(UpdateRef(context, 0, change));
    context.ForwardRef(0, 0);
    return Status();
  }

 private:
  const cpu::BinaryFns* const fns_;
};

// Returns the value of a scalar variable and increments it, until it has reached the limit.
class CountUpToKernel final : public OpKernel {
 public:
  explicit CountUpToKernel(KernelConstruction& c) : OpKernel(c), limit_(c.Attr<int64_t>("limit")) {}
  Status Compute(KernelContext& context) override {
    Tensor before;
    const auto count = [&](Tensor& variable) -> Status {
      if (!variable.shape().IsScalar())
        return errors::InvalidArgument("input is not a scalar: ", variable.shape());
      if (IntValue(variable) >= limit_) return errors::OutOfRange("Reached limit of ", limit_);
      before = variable;
      MR_RETURN_IF_ERROR(MakeWritable(context, variable));
      if (variable.dtype() == DataType::kInt32) {
        ++variable.scalar<int32_t>();
      } else {
        ++variable.scalar<int64_t>();
      }
      return Status();
    };
    MR_RETURN_IF_ERROR(IsRefType(input_type(0)) ? UpdateRef(context, 0, count)
                                                : UpdateResource(context, 0, output_type(0), count));
    context.set_output(0, std::move(before));
    return Status();
  }

 private:
  const int64_t limit_;
};

// The destroyed temporary variables of a step. Ops that refer to one may still be running, so they exist
// until the step ends, and are reused: a loop needs as many as exist at the same time.
class RetiredVariables final : public Resource {
 public:
  static StatusOr<RefPtr<RetiredVariables>> Of(ResourceManager& step) {
    const auto make = []() -> StatusOr<RefPtr<RetiredVariables>> { return MakeRef<RetiredVariables>(); };
    return step.LookupOrCreate<RetiredVariables>("", "_retired", make);
  }
  RefPtr<Variable> Take(DataType dtype) {
    MutexLock lock(mu_);
    for (auto at = variables_.rbegin(); at != variables_.rend(); ++at) {
      if (at->first != dtype) continue;
      std::swap(*at, variables_.back());
      RefPtr<Variable> taken = std::move(variables_.back().second);
      variables_.pop_back();
      return taken;
    }
    return MakeRef<Variable>(dtype);
  }
  void Add(DataType dtype, RefPtr<Variable> variable) {
    MutexLock lock(mu_);
    variables_.emplace_back(dtype, std::move(variable));
  }
  std::string DebugString() const override { return "destroyed temporary variables"; }

 private:
  Mutex mu_;
  std::vector<std::pair<DataType, RefPtr<Variable>>> variables_ MR_GUARDED_BY(mu_);
};

// Concurrent iterations and calls have separate variables.
std::string NameHere(const KernelContext& context, const std::string& var_name) {
  std::string name = var_name;
  if (context.step().call_depth > 0 && context.call_frame() != nullptr)
    name += StrCat("/call:", context.call_frame()->Number());
  if (context.frame() != 0) name += StrCat("/frame:", context.frame(), "/iter:", context.iteration());
  return name;
}

StatusOr<ResourceManager*> TemporaryContainer(const KernelContext& context) {
  ResourceManager* container = context.step().step_resources;
  if (container == nullptr) return errors::Internal("The step has no container for temporary variables");
  return container;
}

// A variable of one step, of one call of a function, or of one iteration of a loop, by name.
class TemporaryVariableKernel final : public OpKernel {
 public:
  explicit TemporaryVariableKernel(KernelConstruction& c)
      : OpKernel(c), dtype_(c.Attr<DataType>("dtype")), var_name_(c.Attr<std::string>("var_name")) {
    if (auto shape = c.Attr<PartialShape>("shape").ToTensorShape(); shape.ok()) {
      shape_ = *std::move(shape);
    } else {
      c.SetError(shape.status());
    }
    if (var_name_.empty()) var_name_ = name();
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(ResourceManager * container, TemporaryContainer(context));
    MR_ASSIGN_OR_RETURN(const RefPtr<RetiredVariables> retired, RetiredVariables::Of(*container));
    MR_ASSIGN_OR_RETURN(Tensor value, context.AllocateTemp(dtype_, shape_));
    ContextParallel parallel(context);
    ZeroElements(dtype_, value.raw_data(), value.num_elements(), parallel);
    const RefPtr<Variable> variable = retired->Take(dtype_);
    {
      MutexLock lock(variable->mu());
      variable->tensor() = std::move(value);
    }
    const std::string name_here = NameHere(context, var_name_);
    if (!container->Create<Variable>("", name_here, variable).ok()) {
      return errors::AlreadyExists("Temporary variable ", name_here, " exists in this step");
    }
    // The step's container or, later, the set of retired variables holds a reference to it.
    context.set_output_ref(0, &variable->mu(), &variable->tensor());
    return Status();
  }

 private:
  const DataType dtype_;
  std::string var_name_;
  TensorShape shape_;
};

class DestroyTemporaryVariableKernel final : public OpKernel {
 public:
  explicit DestroyTemporaryVariableKernel(KernelConstruction& c)
      : OpKernel(c), var_name_(c.Attr<std::string>("var_name")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(ResourceManager * container, TemporaryContainer(context));
    const std::string name_here = NameHere(context, var_name_);
    const auto found = container->Lookup<Variable>("", name_here);
    if (!found.ok())
      return errors::NotFound("Temporary variable ", name_here, " does not exist in this step");
    const RefPtr<Variable>& variable = *found;
    if (!context.input_is_ref(0) || &context.ref_input(0) != &variable->tensor()) {
      return errors::InvalidArgument("Input 0 of ", op_name(), " is not the temporary variable ", name_here);
    }
    // If two nodes destroy it concurrently, only one finds it.
    MR_RETURN_IF_ERROR(container->Delete<Variable>("", name_here));
    {
      MutexLock lock(variable->mu());
      Tensor& tensor = variable->tensor();
      Tensor left = Tensor::FromBuffer(tensor.dtype(), tensor.shape(), RefPtr<Buffer>(), nullptr);
      context.set_output(0, std::exchange(tensor, std::move(left)));
    }
    MR_ASSIGN_OR_RETURN(const RefPtr<RetiredVariables> retired, RetiredVariables::Of(*container));
    retired->Add(output_type(0), variable);
    return Status();
  }

 private:
  const std::string var_name_;
};

}  // namespace

void RegisterRefVariableKernels(KernelRegistry& registry) {
  registry.Register<VariableKernel>(KernelDef("Variable"));
  registry.Register<VariableKernel>(KernelDef("VariableV2"));
  registry.Register<IsVariableInitializedKernel>(KernelDef("IsVariableInitialized"));
  registry.Register<AssignKernel>(KernelDef("Assign"));
  registry.Register<TemporaryVariableKernel>(KernelDef("TemporaryVariable"));
  registry.Register<DestroyTemporaryVariableKernel>(KernelDef("DestroyTemporaryVariable"));
  for (const char* op : {"CountUpTo", "ResourceCountUpTo"})
    registry.Register<CountUpToKernel>(KernelDef(op).Types("T", IndexTypes()));
  registry.Register<AssignUpdateKernel<cpu::BinaryOp::kAdd>>(
      KernelDef("AssignAdd").Types("T", NumberTypes()));
  registry.Register<AssignUpdateKernel<cpu::BinaryOp::kSub>>(
      KernelDef("AssignSub").Types("T", NumberTypes()));
}

}  // namespace millrace
