// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Regular expressions, in RE2's syntax: their time is linear in the text.
#include <re2/re2.h>

#include <memory>

#include "kernels/cpu/strings/util.h"

namespace millrace {
namespace {

constexpr int64_t kMatchCostNs = 500;

// Compiles an expression.
StatusOr<std::shared_ptr<const RE2>> CompilePattern(const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  auto compiled = std::make_shared<const RE2>(pattern, options);
  if (compiled->ok()) return compiled;
  return errors::InvalidArgument("Invalid pattern: ", pattern, ", error: ", compiled->error());
}

Status CheckScalar(const Tensor& t, const char* what) {
  if (t.shape().IsScalar()) return Status();
  return errors::InvalidArgument(what, " must be scalar, but received ", t.shape());
}

Status Match(KernelContext& context, const RE2& pattern) {
  return MapStrings<bool>(context, kMatchCostNs,
                          [&](const std::string& text) { return RE2::FullMatch(text, pattern); });
}

Status Replace(KernelContext& context, const RE2& pattern, const std::string& rewrite, bool global) {
  std::string error;
  if (!pattern.CheckRewriteString(rewrite, &error)) {
    return errors::InvalidArgument("Invalid rewrite: ", rewrite, ", error: ", error);
  }
  return MapStrings<std::string>(context, kMatchCostNs, [&](const std::string& text) {
    std::string changed = text;
    if (global) {
      RE2::GlobalReplace(&changed, pattern, rewrite);
    } else {
      RE2::Replace(&changed, pattern, rewrite);
    }
    return changed;
  });
}

// Keeps the last expression: it is usually the same in all steps.
class PatternCache {
 public:
  StatusOr<std::shared_ptr<const RE2>> Get(const Tensor& pattern) {
    MR_RETURN_IF_ERROR(CheckScalar(pattern, "Pattern"));
    const std::string& text = pattern.scalar<std::string>();
    MutexLock lock(mu_);
    if (last_ == nullptr || last_->pattern() != text) {
      MR_ASSIGN_OR_RETURN(last_, CompilePattern(text));
    }
    return last_;
  }

 private:
  Mutex mu_;
  std::shared_ptr<const RE2> last_ MR_GUARDED_BY(mu_);
};

class RegexFullMatchKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const auto pattern, cache_.Get(context.input(1)));
    return Match(context, *pattern);
  }

 private:
  PatternCache cache_;
};

class RegexReplaceKernel final : public OpKernel {
 public:
  explicit RegexReplaceKernel(KernelConstruction& c) : OpKernel(c), global_(c.Attr<bool>("replace_global")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const auto pattern, cache_.Get(context.input(1)));
    MR_RETURN_IF_ERROR(CheckScalar(context.input(2), "Rewrite"));
    return Replace(context, *pattern, context.input(2).scalar<std::string>(), global_);
  }

 private:
  const bool global_;
  PatternCache cache_;
};

std::shared_ptr<const RE2> PatternAttr(KernelConstruction& c) {
  auto pattern = CompilePattern(c.Attr<std::string>("pattern"));
  if (pattern.ok()) return *std::move(pattern);
  c.SetError(pattern.status());
  return nullptr;
}

class StaticRegexFullMatchKernel final : public OpKernel {
 public:
  explicit StaticRegexFullMatchKernel(KernelConstruction& c) : OpKernel(c), pattern_(PatternAttr(c)) {}
  Status Compute(KernelContext& context) override { return Match(context, *pattern_); }

 private:
  const std::shared_ptr<const RE2> pattern_;
};

class StaticRegexReplaceKernel final : public OpKernel {
 public:
  explicit StaticRegexReplaceKernel(KernelConstruction& c)
      : OpKernel(c),
        pattern_(PatternAttr(c)),
        rewrite_(c.Attr<std::string>("rewrite")),
        global_(c.Attr<bool>("replace_global")) {}
  Status Compute(KernelContext& context) override { return Replace(context, *pattern_, rewrite_, global_); }

 private:
  const std::shared_ptr<const RE2> pattern_;
  const std::string rewrite_;
  const bool global_;
};

}  // namespace

void RegisterStringRegexKernels(KernelRegistry& registry) {
  registry.Register<RegexFullMatchKernel>(KernelDef("RegexFullMatch"));
  registry.Register<RegexReplaceKernel>(KernelDef("RegexReplace"));
  registry.Register<StaticRegexFullMatchKernel>(KernelDef("StaticRegexFullMatch"));
  registry.Register<StaticRegexReplaceKernel>(KernelDef("StaticRegexReplace"));
}

}  // namespace millrace
