// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Contexts in which ops run one by one: devices, functions, options.
#include <atomic>
#include <unordered_map>
#include <vector>

#include "c/eager.h"
#include "c/function.h"
#include "c/session.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/protobuf/config.pb.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::EagerContext;
using millrace::Status;
namespace errors = millrace::errors;

namespace {

// Policies that threads have set for themselves, by the number of the context.
using Policies = std::unordered_map<uint64_t, TFE_ContextDevicePlacementPolicy>;
thread_local std::unique_ptr<Policies> thread_policies;

uint64_t NextNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only the number matters
}

// Lifetime objects of contexts that were deleted.
struct SpareLives {
  millrace::Mutex mu;
  std::vector<ContextLife*> lives MR_GUARDED_BY(mu);
};

SpareLives& Spare() {
  static auto* const spare = new SpareLives;
  return *spare;
}

ContextLife* TakeLife() {
  millrace::MutexLock lock(Spare().mu);
  if (Spare().lives.empty()) return new ContextLife;
  ContextLife* const life = Spare().lives.back();
  Spare().lives.pop_back();
  return life;
}

}  // namespace

TFE_Context::TFE_Context(std::unique_ptr<EagerContext> context_in, TFE_ContextDevicePlacementPolicy policy_in)
    : context(std::move(context_in)), policy(policy_in), life(TakeLife()), number(NextNumber()) {
  life->number.store(number, std::memory_order_release);  // with the context, for has_context()
}

TFE_Context::~TFE_Context() {
  life->number.store(0, std::memory_order_release);
  context.reset();
  millrace::MutexLock lock(Spare().mu);
  Spare().lives.push_back(life);
}

TFE_ContextOptions* TFE_NewContextOptions(void) {
  return EnterOr<TFE_ContextOptions*>(nullptr, [] { return new TFE_ContextOptions; });
}

void TFE_DeleteContextOptions(TFE_ContextOptions* options) { delete options; }

void TFE_ContextOptionsSetConfig(TFE_ContextOptions* options, const void* proto, size_t proto_len,
                                 TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (options == nullptr) return NullArgument("The context options");
    tensorflow::ConfigProto config;
    if (!Parse(proto, proto_len, &config)) return errors::InvalidArgument("Unparseable ConfigProto");
    MR_ASSIGN_OR_RETURN(options->options.session, millrace::SessionOptions::FromProto(config));
    return Status();
  });
}

void TFE_ContextOptionsSetAsync(TFE_ContextOptions* options, unsigned char enable) {
  if (options != nullptr) options->options.is_async = enable != 0;
}

void TFE_ContextOptionsSetDevicePlacementPolicy(TFE_ContextOptions* options,
                                                TFE_ContextDevicePlacementPolicy policy) {
  if (options != nullptr) options->policy = policy;
}

TFE_Context* TFE_NewContext(const TFE_ContextOptions* opts, TF_Status* status) {
  TFE_Context* result = nullptr;
  Enter(status, [&]() -> Status {
    const TFE_ContextOptions defaults;
    if (opts == nullptr) opts = &defaults;
    MR_ASSIGN_OR_RETURN(std::unique_ptr<EagerContext> context, EagerContext::Make(opts->options));
    result = new TFE_Context(std::move(context), opts->policy);
    return Status();
  });
  return result;
}

void TFE_DeleteContext(TFE_Context* ctx) { delete ctx; }

TF_DeviceList* TFE_ContextListDevices(TFE_Context* ctx, TF_Status* status) {
  TF_DeviceList* result = nullptr;
  Enter(status, [&]() -> Status {
    if (ctx == nullptr) return NullArgument("The context");
    auto list = std::make_unique<TF_DeviceList>();
    for (const auto& device : ctx->context->devices().devices()) {
      const millrace::DeviceAttributes& a = device->attributes();
      list->devices.push_back({a.name, a.type, a.memory_limit, a.incarnation});
    }
    result = list.release();
    return Status();
  });
  return result;
}

void TFE_ContextClearCaches(TFE_Context* ctx) {
  if (ctx == nullptr) return;
  Enter(nullptr, [&] {
    ctx->context->ClearKernels();
    return Status();
  });
}

void TFE_ContextSetThreadLocalDevicePlacementPolicy(TFE_Context* ctx,
                                                    TFE_ContextDevicePlacementPolicy policy) {
  if (ctx == nullptr) return;
  Enter(nullptr, [&] {
    if (thread_policies == nullptr) thread_policies = std::make_unique<Policies>();
    (*thread_policies)[ctx->number] = policy;
    return Status();
  });
}

TFE_ContextDevicePlacementPolicy TFE_ContextGetDevicePlacementPolicy(TFE_Context* ctx) {
  if (ctx == nullptr) return TFE_DEVICE_PLACEMENT_SILENT;
  if (thread_policies == nullptr) return ctx->policy;
  const auto own = thread_policies->find(ctx->number);
  return own == thread_policies->end() ? ctx->policy : own->second;
}

void TFE_ContextSetServerDef(TFE_Context* ctx, int /*keep_alive_secs*/, const void* /*proto*/,
                             size_t /*proto_len*/, TF_Status* status) {
  Set(status, ctx == nullptr ? NullArgument("The context")
                             : errors::Unimplemented("TFE_ContextSetServerDef: ops run one by one in this "
                                                     "process only; sessions run on other tasks"));
}

void TFE_ContextAddFunctionDef(TFE_Context* ctx, const char* serialized_function_def, size_t size,
                               TF_Status* status) {
  Enter(status, [&]() -> Status {
    if (ctx == nullptr) return NullArgument("The context");
    tensorflow::FunctionDef def;
    if (!Parse(serialized_function_def, size, &def)) {
      return errors::InvalidArgument("Invalid FunctionDef proto");
    }
    return ctx->context->AddFunction(def);
  });
}

void TFE_ContextAddFunction(TFE_Context* ctx, TF_Function* function, TF_Status* status) {
  Enter(status, [&] {
    if (ctx == nullptr || function == nullptr) return NullArgument("The context or the function");
    return ctx->context->AddFunction(*function->def);
  });
}

void TFE_ContextRemoveFunction(TFE_Context* ctx, const char* name, TF_Status* status) {
  Enter(status, [&] {
    if (ctx == nullptr || name == nullptr) return NullArgument("The context or the name");
    return ctx->context->RemoveFunction(name);
  });
}

unsigned char TFE_ContextHasFunction(TFE_Context* ctx, const char* name) {
  if (ctx == nullptr || name == nullptr) return 0;
  return EnterOr<unsigned char>(0, [&] { return ctx->context->HasFunction(name) ? 1 : 0; });
}

// Ops that run one by one are not measured; a session's Run with trace_level is.
void TFE_ContextEnableRunMetadata(TFE_Context* /*ctx*/) {}
void TFE_ContextDisableRunMetadata(TFE_Context* /*ctx*/) {}

void TFE_ContextExportRunMetadata(TFE_Context* ctx, TF_Buffer* /*buf*/, TF_Status* status) {
  Set(status, ctx == nullptr
                  ? NullArgument("The context")
                  : errors::Unimplemented("TFE_ContextExportRunMetadata: ops that run one by one are not "
                                          "measured; use a session with RunOptions.trace_level"));
}

void TFE_ContextStartStep(TFE_Context* ctx) {
  if (ctx != nullptr) ctx->context->StartStep();
}

void TFE_ContextEndStep(TFE_Context* ctx) {
  if (ctx == nullptr) return;
  Enter(nullptr, [&] {
    ctx->context->EndStep();
    return Status();
  });
}
