// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "graph/function_library.h"
#include "kernel/function_caller.h"
#include "step/step_compiler.h"

namespace millrace {

// The functions that the kernels of one worker call: each is compiled once for a set of attributes and a
// device, like the step of a session; one that uses several tasks is called as a step of its own. Functions
// are added with the installed graphs; none is ever replaced, so prepared functions stay valid.
// Thread-safe.
class FunctionRuntime : public FunctionCaller {
 public:
  FunctionRuntime();
  ~FunctionRuntime() override;

  // The compiler of the worker's steps compiles its functions, too. REQUIRES: called before the first call
  // of a function; outlives the calls.
  void SetCompiler(const StepCompiler* compiler) { compiler_ = compiler; }
  // Some device has a stream, in which work of kernels continues. REQUIRES: as above.
  void SetDevicesWorkLater() { devices_work_later_ = true; }
  // InvalidArgument when a function differs from the known one of that name.
  Status AddFunctions(const FunctionLibrary& library) MR_EXCLUDES(mu_);

  bool MayWait(const NameAttrList& f) override MR_EXCLUDES(mu_);
  StatusOr<const Function*> Instantiate(const NameAttrList& f, const std::string& device) override
      MR_EXCLUDES(mu_, compile_mu_);
  StatusOr<std::string> FindDevice(std::string_view name) override;
  Status ExportFunctions(std::span<const std::string> names, tensorflow::FunctionDefLibrary* library) override
      MR_EXCLUDES(mu_);
  Status ImportFunctions(const tensorflow::FunctionDefLibrary& library) override MR_EXCLUDES(mu_);
  Status Call(const Function& f, const StepServices& caller, std::span<const Tensor* const> args,
              std::span<Tensor> rets) override;
  void CallAsync(const Function& f, const StepServices& caller, std::span<const Tensor* const> args,
                 std::span<Tensor> rets, Done done) override;
  // Before the workers end. REQUIRES: nothing calls functions any more.
  void DropInstances() MR_EXCLUDES(mu_);
  size_t num_instances_for_test() const MR_EXCLUDES(mu_);

 private:
  struct Instance;
  const Instance* Find(const NameAttrList& f, std::string_view device) const MR_REQUIRES(mu_);
  StatusOr<std::unique_ptr<Instance>> Compile(const FunctionLibrary& library, const NameAttrList& f,
                                              const std::string& device) const;
  Status CheckCall(const Instance& instance, const StepServices& caller, size_t num_args,
                   size_t num_rets) const;

  const StepCompiler* compiler_ = nullptr;
  bool devices_work_later_ = false;
  Mutex compile_mu_;  // held while compiling; before mu_
  mutable Mutex mu_;
  FunctionLibrary library_ MR_GUARDED_BY(mu_);
  // Instances by name and attributes; several may have the same text.
  std::multimap<std::string, std::unique_ptr<Instance>> instances_ MR_GUARDED_BY(mu_);
  std::map<std::string, bool> waits_ MR_GUARDED_BY(mu_);  // by function: the result for its own nodes
};

}  // namespace millrace
