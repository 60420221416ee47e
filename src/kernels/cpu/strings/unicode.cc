// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode and UnicodeScript, on ICU's
// converters.
#include <unicode/ucnv.h>
#include <unicode/ucnv_err.h>
#include <unicode/uscript.h>
#include <unicode/utf.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/strings/util.h"

namespace millrace {
namespace {

// The handling of invalid bytes and of control characters.
struct ErrorHandling {
  bool strict = false;  // an error
  bool skip = false;    // drop them; otherwise each is replaced
  bool replace_controls = false;
  UChar32 replacement = 0xFFFD;
};

ErrorHandling ReadErrorHandling(KernelConstruction& c) {
  const auto errors_attr = c.Attr<std::string>("errors");
  const auto replacement = c.Attr<int64_t>("replacement_char");
  if (replacement < 0 || replacement > 0x10FFFF)
    c.SetError(errors::InvalidArgument("replacement_char out of unicode codepoint range"));
  return {.strict = errors_attr == "strict",
          .skip = errors_attr == "ignore",
          .replace_controls =
              c.HasAttr("replace_control_characters") && c.Attr<bool>("replace_control_characters"),
          .replacement = static_cast<UChar32>(replacement)};
}

// Decodes strings of one encoding. One thread at a time.
class Decoder {
 public:
  static StatusOr<std::unique_ptr<Decoder>> Open(const std::string& encoding) {
    UErrorCode error = U_ZERO_ERROR;
    UConverter* const converter = ucnv_open(encoding.c_str(), &error);
    if (U_FAILURE(error)) {
      return errors::InvalidArgument("Could not create converter for input encoding: ", encoding);
    }
    auto decoder = std::unique_ptr<Decoder>(new Decoder(converter));
    ucnv_setToUCallBack(converter, OnMalformed, &decoder->malformed_, nullptr, nullptr, &error);
    if (U_FAILURE(error))
      return errors::Internal("Could not set up converter for input encoding: ", encoding);
    return decoder;
  }

  // Calls fn(code point, offset of its first byte) in order, after `handling` was applied.
  template <typename Fn>
  Status Decode(const std::string& text, const ErrorHandling& handling, Fn fn) {
    ucnv_reset(converter_.get());
    const char* from = text.data();
    const char* const end = from + text.size();
    while (from < end) {
      const char* const begin = from;
      malformed_ = false;
      UErrorCode error = U_ZERO_ERROR;
      UChar32 c = ucnv_getNextUChar(converter_.get(), &from, end, &error);
      if (error == U_INDEX_OUTOFBOUNDS_ERROR) break;  // only byte order marks were left
      if (U_FAILURE(error)) {
        malformed_ = true;
        // ICU stops here, for example at a string that ends within a character.
        if (error == U_TRUNCATED_CHAR_FOUND || from == begin) from = end;
      }
      if (malformed_ && handling.strict) return errors::InvalidArgument("Invalid formatting on input string");
      if (malformed_ || (handling.replace_controls && c <= 0x1F)) {
        if (handling.skip) continue;
        c = handling.replacement;
      }
      fn(c, begin - text.data());
    }
    return Status();
  }

 private:
  struct Close {
    void operator()(UConverter* c) const { ucnv_close(c); }
  };
  explicit Decoder(UConverter* converter) : converter_(converter) {}

  static void OnMalformed(const void* flag, UConverterToUnicodeArgs* args, const char* bytes, int32_t length,
                          UConverterCallbackReason reason, UErrorCode* error) {
    if (reason != UCNV_UNASSIGNED && reason != UCNV_ILLEGAL && reason != UCNV_IRREGULAR) return;
    *const_cast<bool*>(static_cast<const bool*>(flag)) = true;
    UCNV_TO_U_CALLBACK_SUBSTITUTE(nullptr, args, bytes, length, reason, error);
  }

  const std::unique_ptr<UConverter, Close> converter_;
  bool malformed_ = false;
};

enum class Encoding { kUtf8, kUtf16, kUtf32 };  // the wide ones are big-endian

Encoding ReadEncoding(KernelConstruction& c) {
  const auto name = c.Attr<std::string>("output_encoding");
  return name == "UTF-8" ? Encoding::kUtf8 : name == "UTF-16-BE" ? Encoding::kUtf16 : Encoding::kUtf32;
}

void AppendBytes(uint32_t value, int bytes, std::string* out) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

// A surrogate, which only invalid text contains, becomes U+FFFD.
void Append(UChar32 c, Encoding encoding, std::string* out) {
  const auto value = static_cast<uint32_t>(U_IS_SURROGATE(c) ? 0xFFFD : c);
  switch (encoding) {
    case Encoding::kUtf8: {
      char bytes[U8_MAX_LENGTH];
      int32_t n = 0;
      U8_APPEND_UNSAFE(bytes, n, value);
      out->append(bytes, static_cast<size_t>(n));
      return;
    }
    case Encoding::kUtf16:
      if (value > 0xFFFF) {
        AppendBytes(U16_LEAD(value), 2, out);
        AppendBytes(U16_TRAIL(value), 2, out);
      } else {
        AppendBytes(value, 2, out);
      }
      return;
    case Encoding::kUtf32:
      AppendBytes(value, 4, out);
      return;
  }
}

// Reports an unknown encoding when the kernel is made.
void CheckInputEncoding(KernelConstruction& c, const std::string& encoding) {
  c.SetError(Decoder::Open(encoding).status());
}

class TranscodeKernel final : public OpKernel {
 public:
  explicit TranscodeKernel(KernelConstruction& c)
      : OpKernel(c),
        from_(c.Attr<std::string>("input_encoding")),
        to_(ReadEncoding(c)),
        handling_(ReadErrorHandling(c)) {
    CheckInputEncoding(c, from_);
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    MR_ASSIGN_OR_RETURN(const auto decoder, Decoder::Open(from_));
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      std::string text;
      MR_RETURN_IF_ERROR(decoder->Decode(in.data<std::string>()[i], handling_,
                                         [&](UChar32 c, int64_t) { Append(c, to_, &text); }));
      out->data<std::string>()[i] = std::move(text);
    }
    return Status();
  }

 private:
  const std::string from_;
  const Encoding to_;
  const ErrorHandling handling_;
};

// With a third output: the byte offsets of the characters.
class DecodeUnicodeKernel final : public OpKernel {
 public:
  explicit DecodeUnicodeKernel(KernelConstruction& c)
      : OpKernel(c), from_(c.Attr<std::string>("input_encoding")), handling_(ReadErrorHandling(c)) {
    CheckInputEncoding(c, from_);
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const auto decoder, Decoder::Open(from_));
    MR_ASSIGN_OR_RETURN(Tensor* const splits,
                        context.AllocateOutput(0, TensorShape({in.num_elements() + 1})));
    std::vector<int32_t> values;
    std::vector<int64_t> starts;
    PutSplit(splits, 0, 0);
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      MR_RETURN_IF_ERROR(
          decoder->Decode(in.data<std::string>()[i], handling_, [&](UChar32 c, int64_t first_byte) {
            values.push_back(c);
            if (num_outputs() > 2) starts.push_back(first_byte);
          }));
      if (splits->dtype() == DataType::kInt32 && values.size() > std::numeric_limits<int32_t>::max())
        return errors::InvalidArgument("The strings have too many characters for splits of int32");
      PutSplit(splits, i + 1, static_cast<int64_t>(values.size()));
    }
    context.set_output(1, Tensor::Vector<int32_t>(values));
    if (num_outputs() > 2) context.set_output(2, Tensor::Vector<int64_t>(starts));
    return Status();
  }

 private:
  static void PutSplit(Tensor* splits, int64_t i, int64_t value) {
    if (splits->dtype() == DataType::kInt64) {
      splits->data<int64_t>()[i] = value;
    } else {
      splits->data<int32_t>()[i] = static_cast<int32_t>(value);
    }
  }

  const std::string from_;
  const ErrorHandling handling_;
};

class EncodeUnicodeKernel final : public OpKernel {
 public:
  explicit EncodeUnicodeKernel(KernelConstruction& c)
      : OpKernel(c), to_(ReadEncoding(c)), handling_(ReadErrorHandling(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& values = context.input(0);
    const Tensor& splits = context.input(1);
    if (values.rank() != 1 || splits.rank() != 1) {
      return errors::InvalidArgument("input_values and input_splits must be vectors, got shapes ",
                                     values.shape(), " and ", splits.shape());
    }
    if (splits.num_elements() == 0) return errors::InvalidArgument("input_splits must not be empty");
    if (IntValue(splits) != 0) return errors::InvalidArgument("First value in input_splits must be zero.");
    const int64_t rows = splits.num_elements() - 1;
    for (int64_t i = 0; i < rows; ++i) {
      if (IntValue(splits, i) > IntValue(splits, i + 1))
        return errors::InvalidArgument("Values in input_splits must be equal or in ascending order.");
    }
    if (IntValue(splits, rows) != values.num_elements())
      return errors::InvalidArgument("Last value in input_splits must be equal to the number of values.");
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape({rows})));
    for (int64_t row = 0; row < rows; ++row) {
      std::string& text = out->data<std::string>()[row];
      for (int64_t i = IntValue(splits, row); i < IntValue(splits, row + 1); ++i) {
        UChar32 c = values.data<int32_t>()[i];
        if (!U_IS_UNICODE_CHAR(c)) {
          if (handling_.strict)
            return errors::InvalidArgument("Code point is out of range for Unicode, or a noncharacter.");
          if (handling_.skip) continue;
          c = handling_.replacement;
        }
        Append(c, to_, &text);
      }
    }
    return Status();
  }

 private:
  const Encoding to_;
  const ErrorHandling handling_;
};

class ScriptKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    context.ParallelFor(in.num_elements(), 20, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        UErrorCode error = U_ZERO_ERROR;
        const UScriptCode script = uscript_getScript(in.data<int32_t>()[i], &error);
        out->data<int32_t>()[i] = U_SUCCESS(error) ? static_cast<int32_t>(script) : -1;
      }
    });
    return Status();
  }
};

}  // namespace

void RegisterUnicodeKernels(KernelRegistry& registry) {
  registry.Register<DecodeUnicodeKernel>(KernelDef("UnicodeDecode").Types("Tsplits", IndexTypes()));
  registry.Register<DecodeUnicodeKernel>(
      KernelDef("UnicodeDecodeWithOffsets").Types("Tsplits", IndexTypes()));
  registry.Register<EncodeUnicodeKernel>(KernelDef("UnicodeEncode").Types("Tsplits", IndexTypes()));
  registry.Register<ScriptKernel>(KernelDef("UnicodeScript"));
  registry.Register<TranscodeKernel>(KernelDef("UnicodeTranscode"));
}

}  // namespace millrace
