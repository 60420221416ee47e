// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "display/tensor_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <concepts>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "display/text.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};
template <typename T>
struct IsQuantized : std::false_type {};
template <typename Int, int kTag>
struct IsQuantized<Quantized<Int, kTag>> : std::true_type {};

template <typename T>
constexpr bool kIsFloat =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, half> || std::same_as<T, bfloat16>;
template <typename T>
constexpr bool kIsNumber = kIsFloat<T> || std::integral<T> || IsQuantized<T>::value;

// The type in which the shortest text of a number is looked for.
template <typename T>
auto Printed(const T& v) {
  if constexpr (std::same_as<T, half> || std::same_as<T, bfloat16>) {
    return float(v);
  } else if constexpr (IsQuantized<T>::value) {
    return static_cast<int64_t>(v.value);
  } else {
    return v;
  }
}

// The format of the floats of one tensor: all are written in the same way.
struct FloatStyle {
  bool exponent = false;
  int decimals = 0;  // the most that one of them needs, at most 8
};
constexpr int kMostDecimals = 8;

template <typename F>
std::string FixedText(F value, bool exponent) {
  char text[400];
  const std::chars_format format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  // The shortest, unless that has more decimals than are shown.
  std::to_chars_result result = std::to_chars(text, text + sizeof(text), value, format);
  std::string out(text, result.ptr);
  const size_t point = out.find('.'), end = std::min(out.find('e'), out.size());
  if (point != std::string::npos && end - point - 1 > kMostDecimals) {
    result = std::to_chars(text, text + sizeof(text), value, format, kMostDecimals);
    out.assign(text, result.ptr);
    const size_t cut_end = std::min(out.find('e'), out.size());
    size_t last = cut_end;
    while (last > 0 && out[last - 1] == '0') --last;
    out.erase(last, cut_end - last);
  }
  if (out.find('.') == std::string::npos) out.insert(std::min(out.find('e'), out.size()), ".");
  return out;
}

int DecimalsOf(const std::string& text) {
  return static_cast<int>(std::min(text.find('e'), text.size()) - text.find('.') - 1);
}

template <typename F>
std::string FloatText(F value, const FloatStyle& style) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = FixedText(value, style.exponent);
  // Columns are aligned by zeros if there are exponents, else by spaces.
  const auto missing = static_cast<size_t>(std::max(style.decimals - DecimalsOf(text), 0));
  const char filler = style.exponent ? '0' : ' ';
  text.insert(std::min(text.find('e'), text.size()), std::string(missing, filler));
  return text;
}

// Walks over the elements that are shown. `index` is that of the first element of the block.
class Outline {
 public:
  Outline(const Tensor& tensor, const TensorTextOptions& options)
      : tensor_(tensor), edge_(tensor.num_elements() > options.most_elements ? options.edge : -1) {}

  bool Shortened(int64_t size) const { return edge_ >= 0 && size > 2 * edge_; }

  // Calls visit(flat index) for each element that is shown.
  template <typename Visit>
  void ForEach(const Visit& visit, int dim = 0, int64_t index = 0) const {
    if (dim == tensor_.rank()) return visit(index);
    const int64_t size = tensor_.dim(dim);
    for (int64_t i = 0; i < size; ++i) {
      if (Shortened(size) && i == edge_) i = size - edge_;
      ForEach(visit, dim + 1, index * size + i);
    }
  }

  // Writes brackets around the results of `element(flat index)`.
  template <typename Element>
  std::string Write(const Element& element, size_t line) const {
    std::string out;
    WriteDim(element, line, 0, 0, &out);
    return out;
  }

 private:
  template <typename Element>
  void WriteDim(const Element& element, size_t line, int dim, int64_t index, std::string* out) const {
    if (dim == tensor_.rank()) {
      *out += element(index);
      return;
    }
    const int64_t size = tensor_.dim(dim);
    const bool last = dim + 1 == tensor_.rank();
    const std::string indent(static_cast<size_t>(dim + 1), ' ');
    // Between items: in a row a space, between blocks as many line ends as there are dimensions below.
    const std::string between =
        last ? " " : std::string(static_cast<size_t>(tensor_.rank() - dim - 1), '\n') + indent;
    *out += '[';
    size_t column = indent.size();
    for (int64_t i = 0; i < size; ++i) {
      const bool gap = Shortened(size) && i == edge_;
      std::string item;
      if (gap) {
        item = "...";
        i = size - edge_ - 1;
      } else {
        WriteDim(element, line, dim + 1, index * size + i, &item);
      }
      const bool first = i == 0;
      if (last && !first && column + 1 + Width(item) > line) {
        *out += "\n" + indent;
        column = indent.size();
      } else if (!first) {
        *out += between;
        column += 1;
      }
      column += Width(item);
      *out += item;
    }
    *out += ']';
  }

  const Tensor& tensor_;
  const int64_t edge_;
};

template <typename T>
FloatStyle StyleOf(const Tensor& tensor, const Outline& outline) {
  double smallest = std::numeric_limits<double>::infinity(), largest = 0;
  outline.ForEach([&](int64_t i) {
    const double v = std::abs(static_cast<double>(Printed(tensor.data<T>()[i])));
    if (!std::isfinite(v) || v == 0) return;
    smallest = std::min(smallest, v), largest = std::max(largest, v);
  });
  FloatStyle style;
  style.exponent = largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1e3);
  outline.ForEach([&](int64_t i) {
    const auto v = Printed(tensor.data<T>()[i]);
    if (std::isfinite(v)) style.decimals = std::max(style.decimals, DecimalsOf(FixedText(v, style.exponent)));
  });
  return style;
}

template <typename T>
std::function<std::string(int64_t)> ElementText(const Tensor& tensor, const Outline& outline,
                                                const TensorTextOptions& options) {
  const T* const data = tensor.data<T>();
  if constexpr (kIsFloat<T>) {
    const FloatStyle style = StyleOf<T>(tensor, outline);
    return [data, style](int64_t i) { return FloatText(Printed(data[i]), style); };
  } else if constexpr (IsComplex<T>::value) {
    return [data](int64_t i) {
      const std::string imaginary = NumberText(data[i].imag());
      return StrCat(NumberText(data[i].real()), imaginary[0] == '-' ? "" : "+", imaginary, "j");
    };
  } else if constexpr (std::same_as<T, bool>) {
    return [data](int64_t i) { return std::string(data[i] ? "True" : "False"); };
  } else if constexpr (kIsNumber<T>) {
    return [data](int64_t i) { return std::to_string(Printed(data[i])); };
  } else if constexpr (std::same_as<T, std::string>) {
    const size_t most = options.string_bytes;
    return [data, most](int64_t i) { return Quoted(data[i], most); };
  } else {
    return [](int64_t) { return std::string("<opaque>"); };
  }
}

template <typename T>
std::string TextOf(const Tensor& tensor, const TensorTextOptions& options) {
  const Outline outline(tensor, options);
  const auto element = ElementText<T>(tensor, outline, options);
  constexpr bool kIsString = std::same_as<T, std::string>;
  if (tensor.rank() == 0) {
    std::string text = element(0);
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }
  size_t width = 0;
  outline.ForEach([&](int64_t i) { width = std::max(width, Width(element(i))); });
  return outline.Write(
      [&](int64_t i) {
        const std::string text = element(i);
        const std::string padding(width - std::min(width, Width(text)), ' ');
        return kIsString ? text : padding + text;
      },
      options.line);
}

template <typename T>
void ElementJson(const T& v, JsonWriter* json) {
  if constexpr (std::same_as<T, double>) {
    json->Value(v);
  } else if constexpr (kIsFloat<T>) {
    WriteNumberJson(Printed(v), json);
  } else if constexpr (std::same_as<T, bool>) {
    json->Value(v);
  } else if constexpr (kIsNumber<T>) {
    json->Value(Printed(v));
  } else if constexpr (IsComplex<T>::value) {
    json->BeginArray().Value(static_cast<double>(v.real())).Value(static_cast<double>(v.imag())).EndArray();
  } else if constexpr (std::same_as<T, std::string>) {
    WriteBytesJson(v, json);
  } else {
    json->Value("<opaque>");
  }
}

template <typename T>
void ValuesJson(const Tensor& tensor, int dim, int64_t index, JsonWriter* json) {
  if (dim == tensor.rank()) return ElementJson(tensor.data<T>()[index], json);
  json->BeginArray();
  for (int64_t i = 0; i < tensor.dim(dim); ++i) {
    ValuesJson<T>(tensor, dim + 1, index * tensor.dim(dim) + i, json);
  }
  json->EndArray();
}

template <typename T>
TensorStatistics StatisticsOf(const Tensor& tensor) {
  TensorStatistics s;
  s.elements = tensor.num_elements();
  const auto elements = tensor.flat<T>();
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < s.elements; ++i) {
    double v = 0;
    if constexpr (std::same_as<T, bool>) {
      // A byte of a file may be neither 0 nor 1, and reading it as a bool is undefined then.
      v = static_cast<const unsigned char*>(tensor.raw_data())[i] == 0 ? 0 : 1;
    } else {
      v = static_cast<double>(Printed(elements[i]));
    }
    if (!std::isfinite(v)) continue;
    s.min = finite == 0 ? v : std::min(s.min, v);
    s.max = finite == 0 ? v : std::max(s.max, v);
    sum += v;
    ++finite;
  }
  s.not_finite = s.elements - finite;
  s.mean = finite == 0 ? 0 : sum / static_cast<double>(finite);
  return s;
}

// The difference of two numbers: 0 for equal ones and for two NaNs, never NaN.
double Distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

template <typename T>
TensorDifference DifferenceOf(const Tensor& a, const Tensor& b, double absolute, double relative) {
  TensorDifference result;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const T &x = a.data<T>()[i], &y = b.data<T>()[i];
    if constexpr (kIsNumber<T> || IsComplex<T>::value) {
      double distance, size;
      if constexpr (IsComplex<T>::value) {
        distance = std::max(Distance(x.real(), y.real()), Distance(x.imag(), y.imag()));
        size = static_cast<double>(std::abs(y));
      } else {
        distance = Distance(static_cast<double>(Printed(x)), static_cast<double>(Printed(y)));
        // Integers of 64 bits that differ may be the same as doubles.
        if constexpr (std::integral<T>) distance = x == y ? 0 : std::max(distance, 1.0);
        size = std::abs(static_cast<double>(Printed(y)));
      }
      if (distance == 0) continue;
      ++result.different;
      result.largest = std::max(result.largest, distance);
      if (!(distance <= absolute + relative * size) || std::isinf(distance)) ++result.beyond;
    } else if constexpr (std::same_as<T, std::string>) {
      if (x == y) continue;
      ++result.different, ++result.beyond;
    }
  }
  return result;
}

}  // namespace

std::string TensorText(const Tensor& tensor, const TensorTextOptions& options) {
  if (!tensor.IsInitialized()) return "(uninitialised)";
  // A shape like [1000000,0] has no elements but very many brackets.
  if (tensor.num_elements() == 0) return StrCat("[], shape ", tensor.shape());
  return VisitDataType(tensor.dtype(), std::string("(unknown type)"),
                       [&]<typename T>() { return TextOf<T>(tensor, options); });
}

void WriteNumberJson(float number, JsonWriter* json) {
  // The double that has the shortest digits of the float; the float itself would show more of them.
  auto as_double = static_cast<double>(number);
  if (std::isfinite(number)) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
    std::from_chars(text, end, as_double);
  }
  json->Value(as_double);
}

void WriteBytesJson(std::string_view bytes, JsonWriter* json) {
  if (IsUtf8(bytes)) {
    json->Value(bytes);
  } else {
    json->BeginObject().Field("b64", Base64(bytes)).EndObject();
  }
}

void WriteTensorJson(const Tensor& tensor, int64_t most_elements, JsonWriter* json) {
  json->BeginObject().Field("dtype", DataTypeName(tensor.dtype())).Key("shape").BeginArray();
  for (const int64_t dim : tensor.shape().dims()) json->Value(dim);
  json->EndArray().Key("values");
  if (!tensor.IsInitialized() || tensor.num_elements() > most_elements || tensor.num_elements() == 0) {
    if (tensor.num_elements() == 0) {
      json->BeginArray().EndArray();
    } else {
      json->Value(std::numeric_limits<double>::quiet_NaN());  // null
    }
  } else {
    VisitDataType(tensor.dtype(), false, [&]<typename T>() {
      ValuesJson<T>(tensor, 0, 0, json);
      return true;
    });
  }
  json->EndObject();
}

std::string TypeAndShape(DataType dtype, const TensorShape& shape) {
  return StrCat(DataTypeName(dtype), " ", shape);
}

bool ComputeStatistics(const Tensor& tensor, TensorStatistics* statistics) {
  if (!tensor.IsInitialized() || tensor.num_elements() == 0) return false;
  return VisitDataType(tensor.dtype(), false, [&]<typename T>() {
    if constexpr (kIsNumber<T>) {
      *statistics = StatisticsOf<T>(tensor);
      return true;
    } else {
      return false;
    }
  });
}

TensorDifference CompareTensors(const Tensor& a, const Tensor& b, double absolute, double relative) {
  return VisitDataType(a.dtype(), TensorDifference(),
                       [&]<typename T>() { return DifferenceOf<T>(a, b, absolute, relative); });
}

}  // namespace millrace
