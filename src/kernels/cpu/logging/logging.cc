// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Assert and Print; also registers the summaries.
#include <atomic>

#include "base/logging.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/logging/summary.h"

namespace millrace {
namespace {

// The first `limit` values, as in "1 2 3..." or "[1 2][3 4]"; all if it is negative.
std::string Summary(const Tensor& t, int64_t limit) {
  const std::string text = t.DebugString(limit < 0 ? t.num_elements() : limit);
  static constexpr std::string_view kBefore = "values: ";
  const size_t begin = text.find(kBefore);
  return begin == std::string::npos
             ? text
             : text.substr(begin + kBefore.size(), text.size() - begin - kBefore.size() - 1);
}

// The summaries of inputs 1 and up, in brackets.
std::string SummarizeData(const KernelContext& context, int64_t limit, std::string_view separator) {
  std::string out;
  for (int i = 1; i < context.num_inputs(); ++i) {
    out += StrCat(i == 1 ? "" : separator, "[", Summary(context.input(i), limit), "]");
  }
  return out;
}

class AssertKernel final : public OpKernel {
 public:
  explicit AssertKernel(KernelConstruction& c) : OpKernel(c), summarize_(c.Attr<int64_t>("summarize")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& condition = context.input(0);
    if (!condition.shape().IsScalar()) {
      return errors::InvalidArgument("In[0] should be a scalar: ", condition.shape());
    }
    if (condition.scalar<bool>()) return Status();
    return errors::InvalidArgument("assertion failed: ", SummarizeData(context, summarize_, " "));
  }

 private:
  const int64_t summarize_;
};

class PrintKernel final : public OpKernel {
 public:
  explicit PrintKernel(KernelConstruction& c)
      : OpKernel(c),
        message_(c.Attr<std::string>("message")),
        first_n_(c.Attr<int64_t>("first_n")),
        summarize_(c.Attr<int64_t>("summarize")) {}
  Status Compute(KernelContext& context) override {
    // Relaxed: only the count matters.
    if (first_n_ < 0 || printed_.fetch_add(1, std::memory_order_relaxed) < first_n_) {
      MR_LOG(Info) << message_ << SummarizeData(context, summarize_, "");
    }
    context.set_output(0, context.TakeInput(0));
    return Status();
  }

 private:
  const std::string message_;
  const int64_t first_n_, summarize_;
  std::atomic<int64_t> printed_{0};
};

}  // namespace

void RegisterLoggingKernels(KernelRegistry& registry) {
  registry.Register<AssertKernel>(KernelDef("Assert"));
  registry.Register<PrintKernel>(KernelDef("Print"));
}

}  // namespace millrace
