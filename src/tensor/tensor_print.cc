// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The text of a tensor as NumPy prints an array with its default options.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/strings.h"
#include "millrace/tensor.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

// NumPy's defaults: from this many elements on only the edges of each dimension are shown.
constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr int kPrecision = 8;
constexpr size_t kLineWidth = 75;

// The type in which NumPy computes with F.
template <typename F>
using WideOf = std::conditional_t<std::is_same_v<F, double>, double, float>;

// The text of a finite number, by the notation and the number of digits after the point; as many as are
// needed to tell it from other numbers of its type where that is unset.
std::string Write(double value, std::chars_format format, std::optional<int> places) {
  char text[512];
  const auto end = places ? std::to_chars(text, text + sizeof(text), value, format, *places)
                          : std::to_chars(text, text + sizeof(text), value, format);
  return {text, static_cast<size_t>(end.ptr - text)};
}

std::string Shortest(double value) { return Write(value, std::chars_format::scientific, std::nullopt); }
std::string Shortest(float value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific);
  return {text, static_cast<size_t>(end.ptr - text)};
}
// bfloat16 has no shortest digits of its own in NumPy.
std::string Shortest(bfloat16 value) { return Shortest(static_cast<float>(value)); }
std::string Shortest(half value) {
  const auto number = static_cast<float>(value);
  for (int places = 0;; ++places) {
    const std::string text = Write(number, std::chars_format::scientific, places);
    float read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    if (half(read).bits == value.bits || places == 8) return text;
  }
}

// A real number in parts, so that columns can be aligned at the point.
struct Real {
  std::string whole;     // with sign; or "nan", "inf", "-inf"
  std::string fraction;  // without point
  std::string exponent;  // of ten: its digits, at least two
  bool negative_exponent = false;
  bool finite = true;
};

// Splits "-1.25e+10" and "-1.25".
Real SplitText(std::string_view text) {
  Real r;
  if (const size_t e = text.find('e'); e != std::string_view::npos) {
    r.negative_exponent = text[e + 1] == '-';
    r.exponent = text.substr(e + 2);
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  r.whole = text.substr(0, point);
  if (point != std::string_view::npos) r.fraction = text.substr(point + 1);
  return r;
}

void TrimZeros(Real* r) {
  while (!r->fraction.empty() && r->fraction.back() == '0') r->fraction.pop_back();
}

// Moves the point of a number with an exponent; zeros fill what its digits leave open.
Real WithoutExponent(const Real& r) {
  const bool negative = r.whole[0] == '-';
  std::string digits = r.whole.substr(negative ? 1 : 0) + r.fraction;
  int point = std::stoi(r.exponent) * (r.negative_exponent ? -1 : 1) + 1;
  if (point < 1) {
    digits.insert(0, static_cast<size_t>(1 - point), '0');
    point = 1;
  }
  const auto whole = static_cast<size_t>(point);
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  Real out;
  out.whole = (negative ? "-" : "") + digits.substr(0, whole);
  out.fraction = digits.substr(whole);
  TrimZeros(&out);
  return out;
}

// The shortest digits that give `value` again, cut to kPrecision after the point.
template <typename F>
Real SplitReal(F value, bool scientific, bool all_digits = false) {
  const auto number = static_cast<double>(static_cast<WideOf<F>>(value));
  Real r;
  if (!std::isfinite(number)) {
    r.finite = false;
    r.whole = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
    return r;
  }
  r = SplitText(Shortest(value));
  if (!scientific) {
    r = WithoutExponent(r);
    // A number alone ends with zeros where its shortest digits end; in arrays whole numbers are exact.
    if (!all_digits && r.fraction.empty()) r.whole = Write(number, std::chars_format::fixed, 0);
  }
  if (!all_digits && r.fraction.size() > static_cast<size_t>(kPrecision)) {
    r = SplitText(
        Write(number, scientific ? std::chars_format::scientific : std::chars_format::fixed, kPrecision));
  }
  TrimZeros(&r);
  return r;
}

// The format of all real numbers of one array, which depends on the numbers that are shown. With `plus`, for
// imaginary parts, numbers that are not negative have a sign too.
class RealFormat {
 public:
  template <typename F>
  explicit RealFormat(const std::vector<F>& values, bool plus = false) : plus_(plus) {
    scientific_ = NeedsExponents(values);
    bool special = false;
    bool minus_infinity = plus;
    for (const F v : values) {
      const Real r = Split(v);
      if (!r.finite) {
        special = true;
        minus_infinity |= r.whole == "-inf";
        continue;
      }
      whole_ = std::max(whole_, r.whole.size());
      fraction_ = std::max(fraction_, r.fraction.size());
      exponent_ = std::max(exponent_, r.exponent.size());
    }
    right_ = 1 + fraction_ + (scientific_ ? 2 + exponent_ : 0);
    if (special) {
      const size_t width = minus_infinity ? 4 : 3;
      whole_ = std::max(whole_, width - std::min(width, right_));
    }
  }

  template <typename F>
  std::string operator()(F value) const {
    Real r = Split(value);
    if (!r.finite)
      return std::string(whole_ + right_ - std::min(whole_ + right_, r.whole.size()), ' ') + r.whole;
    if (scientific_ && r.fraction.size() < fraction_) {
      // Further digits of the number itself: those of 0.03f are 2.9999999e-02.
      r = WithSign(SplitText(Write(static_cast<double>(static_cast<WideOf<F>>(value)),
                                   std::chars_format::scientific, static_cast<int>(fraction_))));
    }
    std::string out(whole_ - std::min(whole_, r.whole.size()), ' ');
    out += r.whole + "." + r.fraction;
    if (!scientific_) return out + std::string(fraction_ - std::min(fraction_, r.fraction.size()), ' ');
    out += r.negative_exponent ? "e-" : "e+";
    return out + std::string(exponent_ - std::min(exponent_, r.exponent.size()), '0') + r.exponent;
  }

 private:
  // The quotient is that of the type: for halves it may be infinite.
  template <typename F>
  static bool NeedsExponents(const std::vector<F>& values) {
    using Wide = WideOf<F>;
    Wide largest = 0;
    Wide smallest = std::numeric_limits<Wide>::infinity();
    for (const F v : values) {
      const Wide size = std::abs(static_cast<Wide>(v));
      if (!std::isfinite(size) || size == 0) continue;
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
    }
    if (largest == 0) return false;
    const Wide quotient = static_cast<Wide>(static_cast<F>(largest / smallest));
    return static_cast<double>(largest) >= 1e8 || static_cast<double>(smallest) < 1e-4 || quotient > 1000;
  }

  template <typename F>
  Real Split(F value) const {
    return WithSign(SplitReal(value, scientific_));
  }
  Real WithSign(Real r) const {
    if (plus_ && r.whole[0] != '-') r.whole.insert(0, "+");
    return r;
  }

  const bool plus_;
  bool scientific_ = false;
  size_t whole_ = 0;     // including a sign
  size_t fraction_ = 0;  // digits after the point
  size_t exponent_ = 0;  // digits
  size_t right_ = 0;     // the point and all that follows
};

// A number alone: as Python prints a float. `point`: ".0" follows whole numbers.
template <typename F>
std::string ScalarText(F value, bool point = true) {
  const double size = std::abs(static_cast<double>(static_cast<WideOf<F>>(value)));
  const Real r = SplitReal(value, size != 0 && (size < 1e-4 || size >= 1e16), true);
  if (!r.finite) return r.whole;
  std::string out = r.whole;
  if (!r.fraction.empty()) out += "." + r.fraction;
  if (!r.exponent.empty()) return out + (r.negative_exponent ? "e-" : "e+") + r.exponent;
  return out + (point && r.fraction.empty() ? ".0" : "");
}

// A text as Python prints bytes, without the prefix: in double quotes if there are only single ones in it.
std::string TextInQuotes(std::string_view bytes) {
  const bool single = bytes.find('\'') != std::string_view::npos;
  const char quote = single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == quote) {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + quote;
}

// Calls `use` with the row-major index of each element that is shown, in order.
void ForEachShown(std::span<const int64_t> dims, bool summarize, int64_t first,
                  const std::function<void(int64_t)>& use) {
  if (dims.empty()) return use(first);
  int64_t stride = 1;
  for (const int64_t d : dims.subspan(1)) stride *= d;
  for (int64_t i = 0; i < dims[0]; ++i) {
    if (summarize && dims[0] > 2 * kEdgeItems && i == kEdgeItems) i = dims[0] - kEdgeItems;
    ForEachShown(dims.subspan(1), summarize, first + i * stride, use);
  }
}

// Texts of the shown elements, padded to columns.
std::vector<std::string> PadLeft(std::vector<std::string> texts) {
  size_t width = 0;
  for (const std::string& t : texts) width = std::max(width, t.size());
  for (std::string& t : texts) t.insert(0, width - t.size(), ' ');
  return texts;
}

template <typename F>
std::vector<std::string> RealTexts(const std::vector<F>& values, bool scalar) {
  if (scalar) return {ScalarText(values[0])};
  const RealFormat format(values);
  std::vector<std::string> texts;
  for (const F v : values) texts.push_back(format(v));
  return texts;
}

template <typename F>
std::string ComplexScalarText(const std::complex<F>& value) {
  const std::string imaginary = ScalarText(value.imag(), false) + "j";
  if (value.real() == 0 && !std::signbit(value.real())) return imaginary;
  const char* const plus = imaginary[0] == '-' ? "" : "+";
  return StrCat("(", ScalarText(value.real(), false), plus, imaginary, ")");
}

template <typename F>
std::vector<std::string> ComplexTexts(const std::vector<std::complex<F>>& values, bool scalar) {
  if (scalar) return {ComplexScalarText(values[0])};
  std::vector<F> real;
  std::vector<F> imaginary;
  for (const auto& v : values) {
    real.push_back(v.real());
    imaginary.push_back(v.imag());
  }
  const RealFormat real_format(real);
  const RealFormat imaginary_format(imaginary, true);
  std::vector<std::string> texts;
  for (const auto& v : values) {
    std::string part = imaginary_format(v.imag());
    // The j stands right behind the digits; the padding goes behind it.
    part.insert(part.find_last_not_of(' ') + 1, "j");
    texts.push_back(real_format(v.real()) + part);
  }
  return texts;
}

template <typename T>
std::vector<std::string> Texts(const Tensor& t, const std::vector<int64_t>& shown) {
  const T* const data = t.data<T>();
  const bool scalar = t.rank() == 0;
  std::vector<std::string> texts;
  if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    std::vector<T> values;
    for (const int64_t i : shown) values.push_back(data[i]);
    return RealTexts(values, scalar);
  } else if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) {
    std::vector<T> values;
    for (const int64_t i : shown) values.push_back(data[i]);
    return ComplexTexts(values, scalar);
  } else if constexpr (std::is_same_v<T, std::string>) {
    for (const int64_t i : shown) texts.push_back(TextInQuotes(data[i]));
    return texts;
  } else if constexpr (std::is_same_v<T, bool>) {
    for (const int64_t i : shown) texts.push_back(data[i] ? "True" : "False");
    if (!scalar) texts.push_back("False");  // columns have room for it
    texts = PadLeft(std::move(texts));
    if (!scalar) texts.pop_back();
    return texts;
  } else if constexpr (std::is_integral_v<T>) {
    for (const int64_t i : shown) texts.push_back(std::to_string(data[i]));
  } else if constexpr (requires { data[0].value; }) {
    for (const int64_t i : shown) texts.push_back(std::to_string(data[i].value));
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    for (const int64_t i : shown) texts.push_back(StrCat("<", data[i].DebugString(), ">"));
  } else {
    for (const int64_t i : shown) texts.push_back(StrCat("<", data[i].TypeName(), ">"));
  }
  return PadLeft(std::move(texts));
}

class ArrayPrinter {
 public:
  ArrayPrinter(std::vector<std::string> texts, int rank, bool summarize)
      : texts_(std::move(texts)), rank_(rank), summarize_(summarize) {}

  std::string Print(std::span<const int64_t> dims) {
    Append(dims);
    return std::move(out_);
  }

 private:
  void Append(std::span<const int64_t> dims) {
    if (dims.empty()) {
      out_ += texts_[next_++];
      return;
    }
    const bool inner = dims.size() == 1;
    const size_t indent = static_cast<size_t>(rank_) - dims.size() + 1;
    out_ += '[';
    size_t line = indent;
    for (int64_t i = 0; i < dims[0]; ++i) {
      const bool gap = summarize_ && dims[0] > 2 * kEdgeItems && i == kEdgeItems;
      if (inner) {
        const std::string_view text = gap ? std::string_view("...") : std::string_view(texts_[next_]);
        if (i > 0 && line + 1 + text.size() + static_cast<size_t>(rank_) > kLineWidth) {
          out_.erase(out_.find_last_not_of(' ') + 1);
          out_ += "\n" + std::string(indent, ' ');
          line = indent;
        } else if (i > 0) {
          out_ += ' ';
          ++line;
        }
        out_ += text;
        line += text.size();
      } else if (i > 0) {
        out_ += std::string(dims.size() - 1, '\n') + std::string(indent, ' ');
        if (gap) out_ += "...";
      }
      if (gap) {
        i = dims[0] - kEdgeItems - 1;
        continue;
      }
      if (inner) {
        ++next_;
      } else {
        Append(dims.subspan(1));
      }
    }
    out_ += ']';
  }

  const std::vector<std::string> texts_;
  const int rank_;
  const bool summarize_;
  size_t next_ = 0;
  std::string out_;
};

}  // namespace

std::string Tensor::ToString() const {
  if (!IsInitialized()) return StrCat("<uninitialized ", dtype_, " of shape ", shape_, ">");
  if (num_elements() == 0) return "[]";
  const bool summarize = num_elements() > kThreshold;
  std::vector<int64_t> shown;
  ForEachShown(shape_.dims(), summarize, 0, [&](int64_t i) { shown.push_back(i); });
  std::vector<std::string> texts;
  VisitDataType(dtype_, false, [&]<typename T>() {
    texts = Texts<T>(*this, shown);
    return true;
  });
  if (texts.empty()) return StrCat("<", dtype_, " of shape ", shape_, ">");
  return ArrayPrinter(std::move(texts), rank(), summarize).Print(shape_.dims());
}

std::ostream& operator<<(std::ostream& os, const Tensor& tensor) { return os << tensor.ToString(); }

}  // namespace millrace
