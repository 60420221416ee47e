// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Loops over functions. One state per loop, whatever the number of iterations; after an iteration that ends
// at once the next one runs without a deeper stack.
#include <utility>
#include <vector>

#include "kernels/cpu/functional/call_chain.h"
#include "kernels/cpu/functional/functional.h"
#include "kernels/cpu/kernel_util.h"
#include "op/function_attrs.h"

namespace millrace {
namespace {

// The functions and types of a loop, read once.
struct LoopFunctions {
  LoopFunctions(KernelConstruction& c, std::string_view cond_attr, NameAttrList body_name)
      : caller(c.functions()),
        types(c.Attr<std::vector<DataType>>("T")),
        cond(c, cond_attr.empty() ? NameAttrList() : c.Attr<NameAttrList>(cond_attr)),
        body(c, std::move(body_name)) {}
  FunctionCaller* const caller;
  const std::vector<DataType> types;
  const BoundFunction cond;
  const BoundFunction body;
};

std::vector<Tensor> Inputs(KernelContext& context, int first, size_t count) {
  std::vector<Tensor> values;
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) values.push_back(context.TakeInput(first + static_cast<int>(i)));
  return values;
}

std::vector<const Tensor*> Pointers(const std::vector<Tensor>& values) {
  std::vector<const Tensor*> args;
  args.reserve(values.size());
  for (const Tensor& t : values) args.push_back(&t);
  return args;
}

void SetOutputs(std::vector<Tensor>* values, KernelContext& context) {
  for (size_t i = 0; i < values->size(); ++i)
    context.set_output(static_cast<int>(i), std::move((*values)[i]));
}

// While cond(v): v = body(v). With `history`, stores the value of v before each iteration.
class WhileChain : public CallChain {
 public:
  WhileChain(const LoopFunctions& f, KernelContext& context, AsyncOpKernel::Done done,
             std::vector<std::vector<Tensor>>* history = nullptr)
      : CallChain(*f.caller, context, std::move(done)),
        f_(f),
        vars_(Inputs(context, 0, f.types.size())),
        next_vars_(f.types.size()),
        history_(history) {}

 protected:
  // The loop has ended.
  virtual Next Leave(std::vector<Tensor> vars) {
    SetOutputs(&vars, context());
    return End(Status());
  }
  Next Prepare(Status ended) override {
    if (!ended.ok()) return End(std::move(ended));
    switch (phase_) {
      case Phase::kStart: {
        auto cond = f_.cond.GetPredicate(f_.types);
        auto body = f_.body.GetBody(f_.types);
        if (!cond.ok()) return End(cond.status());
        if (!body.ok()) return End(body.status());
        cond_ = *cond;
        body_ = *body;
        return CallCond();
      }
      case Phase::kCond:
        phase_ = Phase::kPredicate;
        if (DeviceOf(predicate_[0]) != nullptr) return {.moved = predicate_};
        [[fallthrough]];
      case Phase::kPredicate: {
        auto go_on = ToBool(predicate_[0]);
        if (!go_on.ok()) return End(go_on.status());
        if (!*go_on) {
          phase_ = Phase::kLeft;
          return Leave(std::move(vars_));
        }
        phase_ = Phase::kBody;
        return {.function = body_, .args = args_, .rets = next_vars_};
      }
      case Phase::kBody:
        if (history_ != nullptr) history_->push_back(vars_);
        for (size_t i = 0; i < vars_.size(); ++i) vars_[i] = std::move(next_vars_[i]);
        return CallCond();
      case Phase::kLeft:
        break;
    }
    return AfterLoop();
  }
  // Continues after a call that Leave() started.
  virtual Next AfterLoop() { return End(Status()); }

 private:
  enum class Phase { kStart, kCond, kPredicate, kBody, kLeft };
  Next CallCond() {
    phase_ = Phase::kCond;
    args_ = Pointers(vars_);
    return {.function = cond_, .args = args_, .rets = predicate_};
  }

  const LoopFunctions& f_;
  const FunctionCaller::Function* cond_ = nullptr;
  const FunctionCaller::Function* body_ = nullptr;
  Phase phase_ = Phase::kStart;
  std::vector<Tensor> vars_;
  std::vector<Tensor> next_vars_;
  Tensor predicate_[1];
  std::vector<const Tensor*> args_;
  std::vector<std::vector<Tensor>>* const history_;
};

// For (i = start; i does not reach limit; i += delta) v = body(i, v).
class ForChain final : public CallChain {
 public:
  ForChain(const LoopFunctions& f, KernelContext& context, AsyncOpKernel::Done done)
      : CallChain(*f.caller, context, std::move(done)),
        f_(f),
        vars_(Inputs(context, 3, f.types.size())),
        next_vars_(f.types.size()) {}

 private:
  Next Prepare(Status ended) override {
    if (!ended.ok()) return End(std::move(ended));
    if (moving_) return CallBody();
    if (body_ == nullptr) {
      if (Status status = Start(); !status.ok()) return End(std::move(status));
    } else {
      for (size_t i = 0; i < vars_.size(); ++i) vars_[i] = std::move(next_vars_[i]);
      at_ += delta_;
    }
    if (delta_ > 0 ? at_ >= limit_ : at_ <= limit_) {
      SetOutputs(&vars_, context());
      return End(Status());
    }
    index_ = Tensor::Scalar(static_cast<int32_t>(at_));
    Device& device = context().device();
    moving_ = device.has_own_memory();
    if (moving_) return {.moved = &index_, .to = &device};
    return CallBody();
  }

  Next CallBody() {
    moving_ = false;
    args_.clear();
    args_.push_back(&index_);
    for (const Tensor& t : vars_) args_.push_back(&t);
    return {.function = body_, .args = args_, .rets = next_vars_};
  }

  Status Start() {
    int64_t* const values[] = {&at_, &limit_, &delta_};
    constexpr const char* kNames[] = {"start", "limit", "delta"};
    for (int i = 0; i < 3; ++i) {
      MR_RETURN_IF_ERROR(RequireScalar(context().input(i), kNames[i]));
      *values[i] = context().input(i).scalar<int32_t>();
    }
    const bool valid = delta_ > 0 ? at_ <= limit_ : delta_ < 0 ? at_ >= limit_ : at_ == limit_;
    if (!valid) return errors::InvalidArgument("Invalid start/limit/delta: ", at_, " ", limit_, " ", delta_);
    std::vector<DataType> types = {DataType::kInt32};
    types.insert(types.end(), f_.types.begin(), f_.types.end());
    MR_ASSIGN_OR_RETURN(body_, f_.body.Get(types, f_.types));
    return Status();
  }

  const LoopFunctions& f_;
  const FunctionCaller::Function* body_ = nullptr;
  int64_t at_ = 0, limit_ = 0, delta_ = 0;
  Tensor index_;
  bool moving_ = false;  // the index to the memory of the device
  std::vector<Tensor> vars_;
  std::vector<Tensor> next_vars_;
  std::vector<const Tensor*> args_;
};

// Includes the function of the body's gradient.
struct WhileGradLogic : LoopFunctions {
  explicit WhileGradLogic(KernelConstruction& c)
      : LoopFunctions(c, "cond", c.Attr<NameAttrList>("body")),
        gradient_types(c.Attr<std::vector<DataType>>("Tgrad")),
        parameters(types),
        gradient(c, GradientOfBody(c)) {}
  const std::vector<DataType> gradient_types;  // of resources: the types of their values
  std::vector<DataType> parameters;            // of the gradient
  const BoundFunction gradient;

 private:
  NameAttrList GradientOfBody(KernelConstruction& c) {
    parameters.insert(parameters.end(), gradient_types.begin(), gradient_types.end());
    AttrMap attrs{{"f", c.Attr<NameAttrList>("body")}, {"Tin", parameters}, {"Tout", gradient_types}};
    const AttrValue* scope = c.props()->attrs.Find(kGradientScopeAttr);
    if (scope != nullptr) attrs.Set(kGradientScopeAttr, *scope);
    return {"SymbolicGradient", std::make_shared<const AttrMap>(std::move(attrs))};
  }
};

// Runs a loop, storing the values of its variables, and then the gradient of the body for each iteration, the
// last one first.
class WhileGradChain final : public WhileChain {
 public:
  WhileGradChain(const WhileGradLogic& f, KernelContext& context, AsyncOpKernel::Done done)
      : WhileChain(f, context, std::move(done), &history_),
        f_(f),
        grads_(Inputs(context, static_cast<int>(f.types.size()), f.types.size())),
        next_grads_(f.types.size()) {}

 private:
  Next Leave(std::vector<Tensor>) override { return Back(); }
  Next AfterLoop() override {
    for (size_t i = 0; i < grads_.size(); ++i) grads_[i] = std::move(next_grads_[i]);
    history_.pop_back();
    return Back();
  }
  Next Back() {
    if (history_.empty()) {
      SetOutputs(&grads_, context());
      return End(Status());
    }
    auto function = f_.gradient.Get(f_.parameters, f_.gradient_types);
    if (!function.ok()) return End(function.status());
    back_args_ = Pointers(history_.back());
    for (const Tensor& t : grads_) back_args_.push_back(&t);
    return {.function = *function, .args = back_args_, .rets = next_grads_};
  }

  const WhileGradLogic& f_;
  std::vector<std::vector<Tensor>> history_;
  std::vector<Tensor> grads_;
  std::vector<Tensor> next_grads_;
  std::vector<const Tensor*> back_args_;
};

struct WhileLogic : LoopFunctions {
  explicit WhileLogic(KernelConstruction& c) : LoopFunctions(c, "cond", c.Attr<NameAttrList>("body")) {}
};

struct ForLogic : LoopFunctions {
  explicit ForLogic(KernelConstruction& c) : LoopFunctions(c, "", c.Attr<NameAttrList>("body")) {}
};

template <typename Logic, typename Chain>
class SyncLoopKernel final : public OpKernel {
 public:
  explicit SyncLoopKernel(KernelConstruction& c) : OpKernel(c), logic_(c) {}
  Status Compute(KernelContext& context) override { return Chain(logic_, context, nullptr).Run(); }

 private:
  const Logic logic_;
};

template <typename Logic, typename Chain>
class AsyncLoopKernel final : public AsyncOpKernel {
 public:
  explicit AsyncLoopKernel(KernelConstruction& c) : AsyncOpKernel(c), logic_(c) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    (new Chain(logic_, context, std::move(done)))->Go();
  }

 private:
  const Logic logic_;
};

template <typename Logic, typename Chain>
void RegisterLoop(KernelRegistry& registry, const char* op) {
  RegisterCalling<SyncLoopKernel<Logic, Chain>, AsyncLoopKernel<Logic, Chain>>(registry, op);
}

}  // namespace

void RegisterFunctionLoopKernels(KernelRegistry& registry) {
  for (const char* op : {"While", "StatelessWhile"}) RegisterLoop<WhileLogic, WhileChain>(registry, op);
  RegisterLoop<ForLogic, ForChain>(registry, "For");
  RegisterLoop<WhileGradLogic, WhileGradChain>(registry, "_WhileGrad");
}

}  // namespace millrace
