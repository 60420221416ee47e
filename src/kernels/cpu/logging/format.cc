// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// StringFormat and PrintV2, which print tensors for tf.print; and Fact.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/env.h"
#include "base/logging.h"
#include "base/strings.h"
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/strings/util.h"
#include "tensor/variant.h"

namespace millrace {
namespace {

// Uses as few digits as identify the number: 6 or 9 of a float, 15 or 17 of a double.
template <typename F>
void AppendFloat(F value, std::string* out) {
  constexpr bool kSingle = std::is_same_v<F, float>;
  char text[64];
  std::snprintf(text, sizeof(text), "%.*g", kSingle ? 6 : 15, static_cast<double>(value));
  const double back = kSingle ? static_cast<double>(std::strtof(text, nullptr)) : std::strtod(text, nullptr);
  if (back != static_cast<double>(value) && value == value) {
    std::snprintf(text, sizeof(text), "%.*g", kSingle ? 9 : 17, static_cast<double>(value));
  }
  *out += text;
}

template <typename T>
void AppendElement(const T& value, std::string* out) {
  if constexpr (std::is_same_v<T, std::string>) {
    *out += StrCat("\"", CEscape(value), "\"");
  } else if constexpr (kIsSmallFloat<T>) {
    AppendFloat(static_cast<float>(value), out);
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendFloat(value, out);
  } else if constexpr (kIsComplex<T>) {
    *out += '(';
    AppendFloat(value.real(), out);
    *out += ',';
    AppendFloat(value.imag(), out);
    *out += ')';
  } else if constexpr (std::is_same_v<T, bool>) {
    *out += value ? '1' : '0';
  } else if constexpr (std::is_integral_v<T>) {
    *out += std::to_string(value);
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    *out += StrCat("<ResourceHandle ", value.DebugString(), ">");
  } else if constexpr (std::is_same_v<T, Variant>) {
    *out += StrCat("<Variant ", value.TypeName(), ">");
  } else {
    *out += std::to_string(value.value);  // quantised
  }
}

// Nested brackets with the first and last `limit` elements of each dimension.
template <typename T>
class Printer {
 public:
  Printer(const Tensor& tensor, int64_t limit, std::string* out)
      : tensor_(tensor), limit_(limit), out_(*out) {}
  void Print(int dim, int64_t first) {
    if (dim == tensor_.rank()) return AppendElement(tensor_.data<T>()[first], &out_);
    const int64_t size = tensor_.dim(dim);
    int64_t step = 1;
    for (int d = dim + 1; d < tensor_.rank(); ++d) step *= tensor_.dim(d);
    const int64_t ends = limit_ < 0 ? size : limit_;
    out_ += '[';
    for (int64_t i = 0; i < std::min(ends, size); ++i) {
      if (i > 0) Separate(dim);
      Print(dim + 1, first + step * i);
    }
    if (size - ends > ends) {
      Separate(dim);
      out_ += "...";
    }
    for (int64_t i = std::max(ends, size - ends); i < size; ++i) {
      Separate(dim);
      Print(dim + 1, first + step * i);
    }
    out_ += ']';
  }

 private:
  void Separate(int dim) {
    const int inner = tensor_.rank() - dim - 1;
    out_ += inner == 0 ? std::string(" ")
                       : std::string(static_cast<size_t>(inner), '\n') +
                             std::string(static_cast<size_t>(dim) + 1, ' ');
  }

  const Tensor& tensor_;
  const int64_t limit_;
  std::string& out_;
};

class StringFormatKernel final : public OpKernel {
 public:
  explicit StringFormatKernel(KernelConstruction& c) : OpKernel(c), summarize_(c.Attr<int64_t>("summarize")) {
    const auto text = c.Attr<std::string>("template");
    const auto placeholder = c.Attr<std::string>("placeholder");
    for (size_t from = 0;;) {
      const size_t at = placeholder.empty() ? std::string::npos : text.find(placeholder, from);
      parts_.push_back(text.substr(from, at == std::string::npos ? at : at - from));
      if (at == std::string::npos) break;
      from = at + placeholder.size();
    }
    if (static_cast<int>(parts_.size()) - 1 != num_inputs()) {
      c.SetError(errors::InvalidArgument("num placeholders in template and num inputs must match: ",
                                         parts_.size() - 1, " vs. ", num_inputs()));
    }
  }

  Status Compute(KernelContext& context) override {
    std::string text = parts_[0];
    for (int i = 0; i < num_inputs(); ++i) {
      const Tensor& input = context.input(i);
      const Status printed =
          VisitDataType(input.dtype(), NoSuchType(context, input.dtype()), [&]<typename T>() {
            Printer<T>(input, summarize_, &text).Print(0, 0);
            return Status();
          });
      MR_RETURN_IF_ERROR(printed);
      text += parts_[static_cast<size_t>(i) + 1];
    }
    context.set_output(0, Tensor::Scalar(text));
    return Status();
  }

 private:
  const int64_t summarize_;
  std::vector<std::string> parts_;
};

class PrintV2Kernel final : public OpKernel {
 public:
  explicit PrintV2Kernel(KernelConstruction& c)
      : OpKernel(c), stream_(c.Attr<std::string>("output_stream")), end_(c.Attr<std::string>("end")) {
    for (const std::string_view known : {"stdout", "stderr", "log(info)", "log(warning)", "log(error)"}) {
      if (stream_ == known) return;
    }
    if (stream_.starts_with(kFile)) return;
    c.SetError(
        errors::InvalidArgument("Unknown output stream: ", stream_,
                                ", Valid streams are: stdout, stderr, log(info), log(warning), log(error), "
                                "and paths that begin with file://"));
  }

  Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    MR_RETURN_IF_ERROR(RequireScalar(input, "The text to print"));
    const std::string text = input.scalar<std::string>() + end_;
    if (stream_.starts_with(kFile)) {
      MR_ASSIGN_OR_RETURN(const auto file, Env::Posix().NewAppendableFile(stream_.substr(kFile.size())));
      MR_RETURN_IF_ERROR(file->Append(text));
      return file->Close();
    }
    if (stream_ == "stdout" || stream_ == "stderr") {
      std::FILE* const to = stream_ == "stdout" ? stdout : stderr;
      std::fwrite(text.data(), 1, text.size(), to);  // one call, so that threads' texts do not mix
      std::fflush(to);
    } else if (stream_ == "log(info)") {
      MR_LOG(Info) << text;
    } else if (stream_ == "log(warning)") {
      MR_LOG(Warning) << text;
    } else {
      MR_LOG(Error) << text;
    }
    return Status();
  }

 private:
  static constexpr std::string_view kFile = "file://";
  const std::string stream_, end_;
};

class FactKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    context.set_output(0, Tensor::Scalar("0! == 1"));
    return Status();
  }
};

}  // namespace

void RegisterStringFormatKernels(KernelRegistry& registry) {
  registry.Register<StringFormatKernel>(KernelDef("StringFormat"));
  registry.Register<PrintV2Kernel>(KernelDef("PrintV2"));
  registry.Register<FactKernel>(KernelDef("Fact"));
}

}  // namespace millrace
