// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "millrace/dtype.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "op/attr_value.h"

namespace tensorflow {
class FunctionDefLibrary;
}  // namespace tensorflow

namespace millrace {

struct StepServices;

// Calls the functions of a graph from its kernels. Thread-safe; outlives the kernels that use it.
class FunctionCaller {
 public:
  // A function with its attributes bound, prepared for one device. Lives as long as the caller.
  class Function {
   public:
    virtual ~Function() = default;
    const std::vector<DataType>& arg_types() const { return arg_types_; }
    const std::vector<DataType>& ret_types() const { return ret_types_; }
    // For a function that only returns arguments: the argument of each result. Otherwise empty.
    const std::vector<int>& forwarded_args() const { return forwarded_args_; }

   protected:
    std::vector<DataType> arg_types_;
    std::vector<DataType> ret_types_;
    std::vector<int> forwarded_args_;
  };
  using Done = UniqueFunction<void(Status)>;
  // Calls within calls beyond this depth are refused, so that endless recursion is an error and does not
  // overflow the stack.
  static constexpr int kMaxDepth = 1000;

  virtual ~FunctionCaller() = default;
  // Whether a call of `f` may have to wait: for an asynchronous kernel, another device, an unknown function.
  // Cheap; prepares nothing.
  virtual bool MayWait(const NameAttrList& f) = 0;
  // Compiles the function on first use; later calls find it by its name and attributes. Not for kernel
  // constructors: a function may call itself. Errors name the function. `device` is a full name; if it is of
  // another task, the function runs there, and its arguments and results are passed at the caller's task.
  virtual StatusOr<const Function*> Instantiate(const NameAttrList& f, const std::string& device) = 0;
  // The full name of a device of this task or another one, given in any spelling. InvalidArgument if there is
  // none.
  virtual StatusOr<std::string> FindDevice(std::string_view name) = 0;
  // Appends the functions of these names, all functions that they call, and their gradients. NotFound for an
  // unknown name.
  virtual Status ExportFunctions(std::span<const std::string> names,
                                 tensorflow::FunctionDefLibrary* library) = 0;
  // Adds functions for the lifetime of the caller. InvalidArgument when one differs from the known one of
  // that name.
  virtual Status ImportFunctions(const tensorflow::FunctionDefLibrary& library) = 0;

  // Calls `f` as part of the step of `caller`: with the same cancellation and step resources, and its own
  // rendezvous. `args` and `rets` have the function's lengths. Runs on the calling thread, with helpers where
  // that is faster, and returns when nothing of it runs any more; waits only when MayWait() is true.
  virtual Status Call(const Function& f, const StepServices& caller, std::span<const Tensor* const> args,
                      std::span<Tensor> rets) = 0;
  // The same without blocking the thread. `done` is called once, possibly before this returns; `args`, `rets`
  // and `caller` must live until then.
  virtual void CallAsync(const Function& f, const StepServices& caller, std::span<const Tensor* const> args,
                         std::span<Tensor> rets, Done done) = 0;
};

}  // namespace millrace
