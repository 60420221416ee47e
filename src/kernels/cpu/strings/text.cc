// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// AsString, Substr, StringLength, case conversions, base64 and others.
#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "base/strings.h"
#include "kernels/cpu/strings/util.h"
#include "op/shape_inference.h"

namespace millrace {
namespace {

constexpr int64_t kShortCostNs = 50;

class AsStringKernel final : public OpKernel {
 public:
  explicit AsStringKernel(KernelConstruction& c) : OpKernel(c) {
    const auto format = MakeFormat(c, input_type(0));
    if (format.ok()) {
      format_ = *format;
    } else {
      c.SetError(format.status());
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    std::string* const to = out->data<std::string>();
    if (in.dtype() == DataType::kBool) {
      for (int64_t i = 0; i < in.num_elements(); ++i) to[i] = in.data<bool>()[i] ? "true" : "false";
      return Status();
    }
    return VisitNumber(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() -> Status {
      for (int64_t i = 0; i < in.num_elements(); ++i) to[i] = Text(in.data<T>()[i]);
      return Status();
    });
  }

 private:
  static constexpr int64_t kMostDigits = 4096;  // for the width and the precision

  // The format for printf, without the length modifier of the type.
  static StatusOr<std::string> MakeFormat(KernelConstruction& c, DataType type) {
    const auto precision = c.Attr<int64_t>("precision"), width = c.Attr<int64_t>("width");
    const auto scientific = c.Attr<bool>("scientific"), shortest = c.Attr<bool>("shortest");
    const auto fill = c.Attr<std::string>("fill");
    const bool floating = IsFloatingType(type) || IsComplexType(type);
    if (fill.size() > 1) return errors::InvalidArgument("Fill string must be one or fewer characters");
    if (!fill.empty() && std::string_view(" +-0#").find(fill[0]) == std::string_view::npos) {
      return errors::InvalidArgument("Fill argument not supported: \"", fill, "\"");
    }
    if (!floating && (scientific || shortest)) {
      return errors::InvalidArgument("scientific and shortest format not supported for datatype ",
                                     DataTypeName(type));
    }
    if (!floating && precision > -1) {
      return errors::InvalidArgument("precision not supported for datatype ", DataTypeName(type));
    }
    if (scientific && shortest) {
      return errors::InvalidArgument("Cannot select both scientific and shortest notation");
    }
    if (width > kMostDigits || precision > kMostDigits) {
      return errors::InvalidArgument("width and precision must be at most ", kMostDigits, ": ", width, ", ",
                                     precision);
    }
    std::string format = "%" + fill;
    if (width > -1) format += StrCat(width);
    if (precision > -1) format += StrCat(".", precision);
    return format + (!floating ? "lld" : shortest ? "g" : scientific ? "e" : "f");
  }

  template <typename V>
  std::string Print(V value) const {
    char text[512];
    const int n = std::snprintf(text, sizeof text, format_.c_str(), value);
    if (n < static_cast<int>(sizeof text)) return std::string(text, static_cast<size_t>(n));
    std::string longer(static_cast<size_t>(n), '\0');
    std::snprintf(longer.data(), longer.size() + 1, format_.c_str(), value);
    return longer;
  }

  template <typename T>
  std::string Text(T value) const {
    if constexpr (kIsComplex<T>) {
      return StrCat("(", Print(static_cast<double>(value.real())), ",",
                    Print(static_cast<double>(value.imag())), ")");
    } else if constexpr (std::is_integral_v<T>) {
      return Print(static_cast<long long>(value));
    } else if constexpr (kIsSmallFloat<T>) {
      return Print(static_cast<double>(static_cast<float>(value)));
    } else {
      return Print(static_cast<double>(value));
    }
  }

  std::string format_;
};

// Whether a byte of UTF-8 is the first of a character.
bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// The offsets of the characters, and the end. Bytes before the first character belong to it.
std::vector<int64_t> CharacterOffsets(std::string_view text) {
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i])) offsets.push_back(static_cast<int64_t>(i));
  }
  if (!offsets.empty()) offsets[0] = 0;
  offsets.push_back(static_cast<int64_t>(text.size()));
  return offsets;
}

// Negative positions count from the end, a negative length means up to it.
class SubstrKernel final : public OpKernel {
 public:
  explicit SubstrKernel(KernelConstruction& c)
      : OpKernel(c), in_characters_(c.Attr<std::string>("unit") == "UTF8_CHAR") {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& pos = context.input(1);
    const Tensor& len = context.input(2);
    if (!(pos.shape() == len.shape())) {
      return errors::InvalidArgument("pos and len should have the same shape, got: ", pos.shape(), " vs. ",
                                     len.shape());
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, BroadcastShapes(in.shape(), pos.shape()));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    const Dims text_strides = BroadcastStrides(in.shape().dims(), shape.dims());
    const Dims pos_strides = BroadcastStrides(pos.shape().dims(), shape.dims());
    const int rank = shape.rank();
    Dims at;
    at.resize(static_cast<uint32_t>(rank));
    int64_t text = 0, where = 0;
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const std::string& from = in.data<std::string>()[text];
      const int64_t given = IntValue(pos, where), length = IntValue(len, where);
      if (!Take(from, given, length, &out->data<std::string>()[i])) {
        return errors::InvalidArgument("pos ", given, " out of range for string", "b'", from, "' at index ",
                                       i);
      }
      for (int d = rank - 1; d >= 0; --d) {
        text += text_strides[d];
        where += pos_strides[d];
        if (++at[d] < shape.dim(d)) break;
        text -= shape.dim(d) * text_strides[d];
        where -= shape.dim(d) * pos_strides[d];
        at[d] = 0;
      }
    }
    return Status();
  }

 private:
  // False if the position is not in the string.
  bool Take(const std::string& from, int64_t pos, int64_t length, std::string* to) const {
    const std::vector<int64_t> offsets = in_characters_ ? CharacterOffsets(from) : std::vector<int64_t>();
    const auto size = static_cast<int64_t>(in_characters_ ? offsets.size() - 1 : from.size());
    const int64_t begin = pos < 0 && pos >= -size ? pos + size : pos;
    if (begin < 0 || begin > size) return false;
    const int64_t end = length < 0 || length > size - begin ? size : begin + length;
    const auto offset = [&](int64_t i) {
      return static_cast<size_t>(in_characters_ ? offsets[static_cast<size_t>(i)] : i);
    };
    *to = from.substr(offset(begin), offset(end) - offset(begin));
    return true;
  }

  const bool in_characters_;
};

class StringStripKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    return MapStrings<std::string>(context, kShortCostNs, [](std::string_view text) {
      const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
      while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
      while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
      return std::string(text);
    });
  }
};

class StringLengthKernel final : public OpKernel {
 public:
  explicit StringLengthKernel(KernelConstruction& c)
      : OpKernel(c), in_characters_(c.Attr<std::string>("unit") == "UTF8_CHAR") {}
  Status Compute(KernelContext& context) override {
    return MapStrings<int32_t>(context, kShortCostNs, [this](const std::string& text) {
      return static_cast<int32_t>(in_characters_ ? std::count_if(text.begin(), text.end(), BeginsCharacter)
                                                 : static_cast<std::ptrdiff_t>(text.size()));
    });
  }

 private:
  const bool in_characters_;
};

// The first code point of the text, and its length; 0 bytes for invalid UTF-8.
std::pair<uint32_t, size_t> DecodeUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < n) return {0, 0};
  uint32_t point = lead & (0x7fu >> n);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    point = point << 6 | (byte(i) & 0x3f);
  }
  const bool too_long = point < (n == 4 ? 0x10000u : n == 3 ? 0x800u : 0x80u);
  const bool valid = !too_long && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
  return valid ? std::pair(point, n) : std::pair(uint32_t{0}, size_t{0});
}

void AppendUtf8(uint32_t point, std::string* out) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) {
    *out += static_cast<char>(point);
  } else if (point < 0x800) {
    *out += {static_cast<char>(0xc0 | point >> 6), tail(0)};
  } else if (point < 0x10000) {
    *out += {static_cast<char>(0xe0 | point >> 12), tail(6), tail(0)};
  } else {
    *out += {static_cast<char>(0xf0 | point >> 18), tail(12), tail(6), tail(0)};
  }
}

// ASCII only; or each code point by itself, with U+FFFD for invalid UTF-8.
template <bool kUpper>
class StringCaseKernel final : public OpKernel {
 public:
  explicit StringCaseKernel(KernelConstruction& c) : OpKernel(c) {
    const auto encoding = c.Attr<std::string>("encoding");
    if (encoding == "utf-8") {
      locale_ = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t());
      if (locale_ == locale_t()) c.SetError(errors::Unimplemented("The system has no C.UTF-8 locale"));
    } else if (!encoding.empty()) {
      c.SetError(errors::InvalidArgument("only utf8 or '' (no encoding) is supported, received ", encoding));
    }
  }
  ~StringCaseKernel() override {
    if (locale_ != locale_t()) freelocale(locale_);
  }
  Status Compute(KernelContext& context) override {
    return MapStrings<std::string>(context, kShortCostNs, [this](const std::string& text) {
      return locale_ == locale_t() ? Ascii(text) : Unicode(text);
    });
  }

 private:
  static std::string Ascii(std::string text) {
    constexpr char kFirst = kUpper ? 'a' : 'A', kLast = kUpper ? 'z' : 'Z';
    for (char& c : text) {
      if (c >= kFirst && c <= kLast) c = static_cast<char>(c ^ 0x20);
    }
    return text;
  }
  std::string Unicode(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      const auto [point, n] = DecodeUtf8(text);
      text.remove_prefix(std::max<size_t>(n, 1));
      const wint_t changed = kUpper ? towupper_l(point, locale_) : towlower_l(point, locale_);
      AppendUtf8(n == 0 ? 0xfffd : static_cast<uint32_t>(changed), &out);
    }
    return out;
  }

  locale_t locale_ = locale_t();
};

// The alphabet that is safe in URLs and file names.
constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

class EncodeBase64Kernel final : public OpKernel {
 public:
  explicit EncodeBase64Kernel(KernelConstruction& c) : OpKernel(c), pad_(c.Attr<bool>("pad")) {}
  Status Compute(KernelContext& context) override {
    return MapStrings<std::string>(context, kShortCostNs, [this](const std::string& text) {
      std::string out;
      out.reserve((text.size() + 2) / 3 * 4);
      for (size_t i = 0; i < text.size(); i += 3) {
        const size_t n = std::min<size_t>(3, text.size() - i);
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; ++k)
          bits = bits << 8 | (k < n ? static_cast<unsigned char>(text[i + k]) : 0u);
        for (size_t k = 0; k <= n; ++k) out += kBase64[bits >> (18 - 6 * k) & 63];
        if (pad_) out.append(3 - n, '=');
      }
      return out;
    });
  }

 private:
  const bool pad_;
};

std::optional<std::string> Base64Decoded(std::string_view text) {
  if (text.size() % 4 == 0) {  // other lengths are not padded
    for (int i = 0; i < 2; ++i) ConsumeSuffix(&text, "=");
  }
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const size_t value = std::string_view(kBase64).find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>(bits >> have & 0xff);
    }
  }
  return out;
}

class DecodeBase64Kernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      auto decoded = Base64Decoded(in.data<std::string>()[i]);
      if (!decoded) return errors::InvalidArgument("Invalid character found in base64.");
      out->data<std::string>()[i] = *std::move(decoded);
    }
    return Status();
  }
};

}  // namespace

void RegisterStringTextKernels(KernelRegistry& registry) {
  registry.Register<AsStringKernel>(
      KernelDef("AsString")
          .Types("T",
                 {DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64, DataType::kComplex64,
                  DataType::kComplex128, DataType::kFloat, DataType::kDouble, DataType::kBool}));
  registry.Register<SubstrKernel>(KernelDef("Substr").Types("T", IndexTypes()));
  registry.Register<StringStripKernel>(KernelDef("StringStrip"));
  registry.Register<StringLengthKernel>(KernelDef("StringLength"));
  registry.Register<StringCaseKernel<false>>(KernelDef("StringLower"));
  registry.Register<StringCaseKernel<true>>(KernelDef("StringUpper"));
  registry.Register<EncodeBase64Kernel>(KernelDef("EncodeBase64"));
  registry.Register<DecodeBase64Kernel>(KernelDef("DecodeBase64"));
}

}  // namespace millrace
