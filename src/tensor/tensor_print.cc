// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The text of a tensor as NumPy prints an array with its default options.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

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

// A real number in parts, so that columns can be aligned at the point.
struct Real {
  std::string whole;     // with sign; or "nan", "inf", "-inf"
  std::string fraction;  // without point
  std::string exponent;  // "e+10", or empty
  bool finite = true;
};

// The shortest digits that give `value` again, cut to kPrecision after the point.
template <typename F>
Real SplitReal(F value, bool scientific, bool all_digits = false) {
  Real r;
  if (!std::isfinite(value)) {
    r.finite = false;
    r.whole = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    return r;
  }
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  char text[512];
  std::to_chars_result end = std::to_chars(text, text + sizeof(text), value, format);
  std::string_view digits(text, static_cast<size_t>(end.ptr - text));
  size_t e = digits.find('e');
  const size_t point = digits.find('.');
  const size_t fraction_end = std::min(e, digits.size());
  if (!all_digits && point != std::string_view::npos &&
      fraction_end - point - 1 > static_cast<size_t>(kPrecision)) {
    end = std::to_chars(text, text + sizeof(text), value, format, kPrecision);
    digits = std::string_view(text, static_cast<size_t>(end.ptr - text));
    e = digits.find('e');
  }
  if (e != std::string_view::npos) {
    r.exponent = digits.substr(e);
    digits = digits.substr(0, e);
  }
  const size_t dot = digits.find('.');
  r.whole = digits.substr(0, dot);
  if (dot != std::string_view::npos) {
    r.fraction = digits.substr(dot + 1);
    while (!r.fraction.empty() && r.fraction.back() == '0') r.fraction.pop_back();
  }
  return r;
}

// The format of all real numbers of one array, which depends on the numbers that are shown.
class RealFormat {
 public:
  template <typename F>
  explicit RealFormat(const std::vector<F>& values) {
    double largest = 0;
    double smallest = std::numeric_limits<double>::infinity();
    for (const F v : values) {
      if (!std::isfinite(v) || v == 0) continue;
      largest = std::max(largest, std::abs(static_cast<double>(v)));
      smallest = std::min(smallest, std::abs(static_cast<double>(v)));
    }
    scientific_ = largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
    size_t special = 0;
    for (const F v : values) {
      const Real r = SplitReal(v, scientific_);
      if (!r.finite) {
        special = std::max(special, r.whole.size());
        continue;
      }
      any_finite_ = true;
      whole_ = std::max(whole_, r.whole.size());
      fraction_ = std::max(fraction_, r.fraction.size());
      exponent_ = std::max(exponent_, r.exponent.size());
    }
    width_ = whole_ + (any_finite_ ? 1 : 0) + fraction_ + exponent_;
    if (special > width_) {
      whole_ += any_finite_ ? special - width_ : 0;
      width_ = special;
    }
  }

  template <typename F>
  std::string operator()(F value) const {
    Real r = SplitReal(value, scientific_);
    if (!r.finite) return std::string(width_ - std::min(width_, r.whole.size()), ' ') + r.whole;
    std::string out(whole_ - std::min(whole_, r.whole.size()), ' ');
    out += r.whole + "." + r.fraction;
    out.append(fraction_ - std::min(fraction_, r.fraction.size()), scientific_ ? '0' : ' ');
    return out + r.exponent;
  }

 private:
  bool scientific_ = false;
  bool any_finite_ = false;
  size_t whole_ = 0;
  size_t fraction_ = 0;
  size_t exponent_ = 0;
  size_t width_ = 0;
};

// A number alone: as Python prints a float.
template <typename F>
std::string ScalarText(F value) {
  const double size = std::abs(static_cast<double>(value));
  Real r = SplitReal(value, size != 0 && (size < 1e-4 || size >= 1e16), true);
  if (!r.finite) return r.whole;
  if (r.fraction.empty() && r.exponent.empty()) r.fraction = "0";
  return r.whole + (r.fraction.empty() ? "" : ".") + r.fraction + r.exponent;
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
std::vector<std::string> ComplexTexts(const std::vector<std::complex<F>>& values, bool scalar) {
  std::vector<F> real;
  std::vector<F> imaginary;
  for (const auto& v : values) {
    real.push_back(v.real());
    imaginary.push_back(v.imag());
  }
  const std::vector<std::string> re = RealTexts(real, scalar);
  std::vector<std::string> im = RealTexts(imaginary, scalar);
  std::vector<std::string> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t digits = std::min(im[i].find_first_not_of(' '), im[i].size());
    std::string part = im[i].substr(digits);
    if (part.empty() || part[0] != '-') part.insert(0, "+");
    // The j stands right behind the digits; the padding goes behind it.
    const size_t end = part.find_last_not_of(' ') + 1;
    part.insert(end, "j");
    texts.push_back(re[i] + part);
  }
  return texts;
}

template <typename T>
std::vector<std::string> Texts(const Tensor& t, const std::vector<int64_t>& shown) {
  const T* const data = t.data<T>();
  const bool scalar = t.rank() == 0;
  std::vector<std::string> texts;
  if constexpr (std::is_floating_point_v<T>) {
    std::vector<T> values;
    for (const int64_t i : shown) values.push_back(data[i]);
    return RealTexts(values, scalar);
  } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    std::vector<float> values;
    for (const int64_t i : shown) values.push_back(static_cast<float>(data[i]));
    return RealTexts(values, scalar);
  } else if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) {
    std::vector<T> values;
    for (const int64_t i : shown) values.push_back(data[i]);
    return ComplexTexts(values, scalar);
  } else if constexpr (std::is_same_v<T, std::string>) {
    for (const int64_t i : shown) texts.push_back(StrCat("'", CEscape(data[i]), "'"));
    return texts;
  } else if constexpr (std::is_same_v<T, bool>) {
    for (const int64_t i : shown) texts.push_back(data[i] ? "True" : "False");
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
  if (num_elements() == 0) {
    return rank() == 1 ? std::string("[]") : StrCat("[] of shape ", shape_);
  }
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
