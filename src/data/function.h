// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "kernel/function_caller.h"
#include "kernel/resource.h"
#include "op/attr_value.h"

namespace millrace::data {

class Callable;

// A function that a dataset applies, with the captured values of its last arguments. Immutable.
class CapturedFunction {
 public:
  CapturedFunction(NameAttrList f, std::vector<Tensor> captured)
      : f_(std::move(f)), captured_(std::move(captured)) {}
  const std::string& name() const { return f_.name; }
  // Prepares it for calls with arguments of these types, followed by the captured ones. With `rets` its
  // results must have those types. InvalidArgument when it takes or returns others.
  StatusOr<std::unique_ptr<Callable>> Bind(const Context& ctx, std::span<const DataType> args,
                                           const std::vector<DataType>* rets) const;

 private:
  friend class Callable;
  const NameAttrList f_;
  const std::vector<Tensor> captured_;
};

// A prepared function. Refers to the CapturedFunction. Thread-safe.
class Callable {
 public:
  ~Callable();
  // Calls within the context's depth and cancellation, on this thread. `args` may share `rets`.
  Status Call(Context& ctx, const Element& args, Element* rets) const;
  // The same with arguments in two lists.
  Status Call(Context& ctx, const Element& args, const Element& more, Element* rets) const;
  // Consumes the arguments: a function that only returns them moves them.
  Status CallTaking(Context& ctx, Element* args, Element* rets) const;
  // Whether a call may have to wait for another thread.
  bool MayWait() const { return may_wait_; }
  const std::vector<DataType>& ret_types() const { return function_.ret_types(); }
  // Whether it only returns the first `n` arguments.
  bool HandsOn(size_t n) const;

 private:
  friend class CapturedFunction;
  Callable(const CapturedFunction& f, const FunctionCaller::Function& function, bool may_wait)
      : f_(f), function_(function), may_wait_(may_wait) {}
  Status Run(Context& ctx, std::span<const Tensor* const> args, Element* rets) const;

  const CapturedFunction& f_;
  const FunctionCaller::Function& function_;
  const bool may_wait_;
  // State of the calls of one thread: tensor arrays, stacks. Reused from call to call.
  mutable std::atomic<ResourceManager*> spare_{nullptr};
};

// The only value of a predicate: InvalidArgument unless it is one bool.
StatusOr<bool> BoolOf(const Element& rets, std::string_view what);
// The only value of a function that returns a number: InvalidArgument unless it is one int64.
StatusOr<int64_t> Int64Of(const Element& rets, std::string_view what);

}  // namespace millrace::data
