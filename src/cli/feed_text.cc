// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/feed_text.h"

#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/strings.h"
#include "display/text.h"
#include "io/npy.h"
#include "tensor/dtype_table.h"

namespace millrace::cli {
namespace {

constexpr int kMostDepth = 64;  // of brackets

// One value of a text: a number, a truth value or a string.
struct Literal {
  enum class Kind { kInt, kFloat, kBool, kString } kind = Kind::kInt;
  int64_t integer = 0;
  double number = 0;
  std::string text;
};

// Values in nested brackets, in order, with the shape that the brackets give.
class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : rest_(text) {}

  Status Parse() {
    MR_RETURN_IF_ERROR(ParseItem(0));
    SkipSpace();
    if (!rest_.empty()) return Error("unexpected characters after the value");
    return Status();
  }
  const std::vector<Literal>& values() const { return values_; }
  std::vector<int64_t> dims() const { return dims_; }

 private:
  Status Error(std::string_view what) const {
    return errors::InvalidArgument(what, rest_.empty() ? " at the end" : StrCat(" at ", Quoted(rest_, 20)));
  }
  void SkipSpace() { rest_ = rest_.substr(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size())); }

  Status ParseItem(size_t depth) {
    SkipSpace();
    if (depth > kMostDepth) return Error("too many brackets");
    if (ConsumePrefix(&rest_, "[")) return ParseList(depth);
    if (depth_ < 0) depth_ = static_cast<int>(depth);
    if (depth_ != static_cast<int>(depth)) return Error("values are nested at different depths");
    return ParseValue();
  }

  Status ParseList(size_t depth) {
    int64_t items = 0;
    SkipSpace();
    while (!ConsumePrefix(&rest_, "]")) {
      if (items > 0 && !ConsumePrefix(&rest_, ",")) return Error("',' or ']' is missing");
      MR_RETURN_IF_ERROR(ParseItem(depth + 1));
      ++items;
      SkipSpace();
      if (rest_.empty()) return Error("']' is missing");
    }
    if (depth_ >= 0 && static_cast<size_t>(depth_) <= depth)
      return Error("a list contains both lists and values");
    if (dims_.size() <= depth) dims_.resize(depth + 1, -1);
    if (dims_[depth] >= 0 && dims_[depth] != items) {
      return errors::InvalidArgument("lists of ", dims_[depth], " and of ", items, " items in one list");
    }
    dims_[depth] = items;
    return Status();
  }

  Status ParseValue() {
    Literal value;
    if (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'')) {
      const char quote = rest_[0];
      const size_t end = rest_.find(quote, 1);
      if (end == std::string_view::npos) return Error("a quote is missing");
      value.kind = Literal::Kind::kString;
      value.text = std::string(rest_.substr(1, end - 1));
      rest_.remove_prefix(end + 1);
      values_.push_back(std::move(value));
      return Status();
    }
    const size_t end = std::min(rest_.find_first_of(",[] \t\n\r"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    if (word == "true" || word == "True" || word == "false" || word == "False") {
      value.kind = Literal::Kind::kBool;
      value.integer = word[0] == 't' || word[0] == 'T' ? 1 : 0;
      value.number = static_cast<double>(value.integer);
    } else if (const auto integer = SafeStringToInt64(word); integer.has_value()) {
      value.integer = *integer;
      value.number = static_cast<double>(*integer);
    } else if (const auto number = SafeStringToDouble(word); number.has_value()) {
      value.kind = Literal::Kind::kFloat;
      value.number = *number;
    } else {
      return Error("expected a number, a truth value or a quoted string");
    }
    rest_.remove_prefix(end);
    values_.push_back(std::move(value));
    return Status();
  }

  std::string_view rest_;
  std::vector<Literal> values_;
  std::vector<int64_t> dims_;
  int depth_ = -1;  // of the values; -1 before the first
};

template <typename T>
constexpr bool kIsReal =
    std::integral<T> || std::floating_point<T> || std::same_as<T, half> || std::same_as<T, bfloat16>;
template <typename T>
constexpr bool kIsFloat = std::floating_point<T> || std::same_as<T, half> || std::same_as<T, bfloat16>;

template <typename T>
double AsDouble(T value) {
  if constexpr (std::same_as<T, half> || std::same_as<T, bfloat16>) {
    return static_cast<double>(float(value));
  } else {
    return static_cast<double>(value);
  }
}

// False if the type cannot represent the number.
template <typename T>
bool FromInteger(int64_t value, T* out) {
  if constexpr (std::same_as<T, bool>) {
    *out = value != 0;
  } else if constexpr (std::integral<T>) {
    if (!std::in_range<T>(value)) return false;
    *out = static_cast<T>(value);
  } else {
    *out = T(static_cast<float>(value));
    if constexpr (std::same_as<T, double>) *out = static_cast<double>(value);
  }
  return true;
}

template <typename T>
bool FromDouble(double value, T* out) {
  if constexpr (std::same_as<T, double>) {
    *out = value;
  } else if constexpr (kIsFloat<T>) {
    *out = T(static_cast<float>(value));
  } else {
    // The cast of a number that is not whole, or too large, is either not meant or undefined.
    if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0) || value != std::floor(value)) {
      return false;
    }
    return FromInteger(static_cast<int64_t>(value), out);
  }
  return true;
}

Status NoPlace(std::string_view value, DataType dtype) {
  return errors::InvalidArgument(value, " is not a value of type ", DataTypeName(dtype));
}

StatusOr<Tensor> FromLiterals(const std::vector<Literal>& values, const TensorShape& shape, DataType dtype) {
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  const Status status = VisitDataType(dtype, Status(), [&]<typename T>() -> Status {
    T* const out = tensor.data<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      const Literal& value = values[i];
      const bool is_text = value.kind == Literal::Kind::kString;
      bool fits = false;
      if constexpr (std::same_as<T, std::string>) {
        out[i] = value.text;
        fits = is_text;
      } else if constexpr (std::same_as<T, complex64> || std::same_as<T, complex128>) {
        out[i] = T(static_cast<typename T::value_type>(value.number));
        fits = !is_text;
      } else if constexpr (kIsReal<T>) {
        fits = !is_text && (value.kind == Literal::Kind::kFloat ? FromDouble(value.number, &out[i])
                                                                : FromInteger(value.integer, &out[i]));
      }
      if (!fits) return NoPlace(is_text ? Quoted(value.text, 40) : NumberText(value.number), dtype);
    }
    return Status();
  });
  MR_RETURN_IF_ERROR(status);
  return tensor;
}

DataType TypeOf(const std::vector<Literal>& values) {
  bool any_float = false, any_text = false, all_bool = !values.empty(), small = true;
  for (const Literal& value : values) {
    any_text = any_text || value.kind == Literal::Kind::kString;
    any_float = any_float || value.kind == Literal::Kind::kFloat;
    all_bool = all_bool && value.kind == Literal::Kind::kBool;
    small = small && std::in_range<int32_t>(value.integer);
  }
  if (any_text) return DataType::kString;
  if (all_bool) return DataType::kBool;
  if (any_float || values.empty()) return DataType::kFloat;
  return small ? DataType::kInt32 : DataType::kInt64;
}

StatusOr<Tensor> ParseText(std::string_view text, DataType dtype) {
  // A bare word is a string if one is expected, since shells remove quotes.
  const std::string_view stripped = StripWhitespace(text);
  const bool quoted = !stripped.empty() && (stripped[0] == '[' || stripped[0] == '"' || stripped[0] == '\'');
  if (dtype == DataType::kString && !quoted) return Tensor::Scalar(std::string(text));
  LiteralParser parser(text);
  MR_RETURN_IF_ERROR(parser.Parse());
  const std::vector<int64_t> dims = parser.dims();
  MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
  if (shape.num_elements() != static_cast<int64_t>(parser.values().size())) {
    return errors::InvalidArgument("lists of different lengths");
  }
  return FromLiterals(parser.values(), shape, dtype == DataType::kInvalid ? TypeOf(parser.values()) : dtype);
}

StatusOr<Tensor> ReadNpz(Env& env, const std::string& path, const std::string& name) {
  MR_ASSIGN_OR_RETURN(const auto arrays, io::ReadNpzFile(env, path));
  const auto found = name.empty() && arrays.size() == 1 ? arrays.begin() : arrays.find(name);
  if (found != arrays.end()) return found->second;
  std::vector<std::string> names;
  names.reserve(arrays.size());
  for (const auto& [key, tensor] : arrays) names.push_back(key);
  return errors::NotFound(path, "; has no array ", Quoted(name, 80), ", but ",
                          Printable(StrJoin(names, ", "), 400));
}

}  // namespace

StatusOr<Tensor> ReadFeed(Env& env, std::string_view text, DataType dtype) {
  StatusOr<Tensor> tensor = errors::Internal("no value");
  const size_t npz = text.rfind(".npz:");
  if (text.starts_with('@')) {
    MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, std::string(text.substr(1))));
    tensor = Tensor::Scalar(bytes);
  } else if (text.ends_with(".npy")) {
    tensor = io::ReadNpyFile(env, std::string(text));
  } else if (text.ends_with(".npz")) {
    tensor = ReadNpz(env, std::string(text), "");
  } else if (npz != std::string_view::npos) {
    tensor = ReadNpz(env, std::string(text.substr(0, npz + 4)), std::string(text.substr(npz + 5)));
  } else {
    return ParseText(text, dtype);
  }
  MR_RETURN_IF_ERROR(tensor.status());
  return dtype == DataType::kInvalid ? tensor : ConvertTo(*tensor, dtype);
}

StatusOr<Tensor> ConvertTo(const Tensor& tensor, DataType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  MR_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(dtype, tensor.shape()));
  Status unable = errors::InvalidArgument("elements of type ", DataTypeName(tensor.dtype()),
                                          " instead of type ", DataTypeName(dtype));
  const Status status = VisitDataType(tensor.dtype(), unable, [&]<typename From>() -> Status {
    if constexpr (!kIsReal<From>) {
      return unable;
    } else {
      return VisitDataType(dtype, unable, [&]<typename To>() -> Status {
        if constexpr (!kIsReal<To>) {
          return unable;
        } else {
          for (int64_t i = 0; i < tensor.num_elements(); ++i) {
            const From value = tensor.data<From>()[i];
            bool fits;
            if constexpr (std::same_as<From, uint64_t>) {
              fits = std::in_range<int64_t>(value) &&
                     FromInteger(static_cast<int64_t>(value), &result.data<To>()[i]);
            } else if constexpr (std::integral<From>) {
              fits = FromInteger(static_cast<int64_t>(value), &result.data<To>()[i]);
            } else {
              fits = FromDouble(AsDouble(value), &result.data<To>()[i]);
            }
            if (!fits) return NoPlace(NumberText(AsDouble(value)), dtype);
          }
          return Status();
        }
      });
    }
  });
  MR_RETURN_IF_ERROR(status);
  return result;
}

StatusOr<SparseFeed> MakeSparse(const Tensor& dense) {
  std::vector<int64_t> places;  // of the kept elements, in the flat tensor
  SparseFeed feed;
  auto no_type =
      errors::InvalidArgument("sparse tensors of ", DataTypeName(dense.dtype()),
                              " are fed by their parts: NAME.indices, NAME.values, NAME.dense_shape");
  MR_RETURN_IF_ERROR(VisitDataType(dense.dtype(), no_type, [&]<typename T>() -> Status {
    if constexpr (std::is_same_v<T, std::string> || std::equality_comparable<T>) {
      for (int64_t i = 0; i < dense.num_elements(); ++i) {
        if (!(dense.data<T>()[i] == T())) places.push_back(i);
      }
      feed.values = Tensor(dense.dtype(), TensorShape({static_cast<int64_t>(places.size())}));
      for (size_t i = 0; i < places.size(); ++i) feed.values.data<T>()[i] = dense.data<T>()[places[i]];
      return Status();
    } else {
      return no_type;
    }
  }));
  const int rank = dense.rank();
  feed.indices = Tensor(DataType::kInt64, TensorShape({static_cast<int64_t>(places.size()), rank}));
  feed.shape = Tensor(DataType::kInt64, TensorShape({rank}));
  for (int d = 0; d < rank; ++d) feed.shape.data<int64_t>()[d] = dense.dim(d);
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t rest = places[i];
    for (int d = rank - 1; d >= 0; rest /= dense.dim(d), --d) {
      feed.indices.data<int64_t>()[static_cast<int64_t>(i) * rank + d] = rest % dense.dim(d);
    }
  }
  return feed;
}

StatusOr<Tensor> MakeUpTensor(DataType dtype, const TensorShape& shape) {
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  uint64_t seed = 0x9e3779b97f4a7c15;
  VisitDataType(dtype, false, [&]<typename T>() {
    if constexpr (std::same_as<T, std::string> || !std::is_trivially_copyable_v<T>) return false;
    for (T& element : tensor.flat<T>()) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const double part = static_cast<double>(seed >> 11) / 9007199254740992.0;
      if constexpr (kIsFloat<T>) {
        element = T(static_cast<float>(part));
      } else if constexpr (std::same_as<T, bool>) {
        element = part < 0.5;
      } else if constexpr (std::integral<T>) {
        element = static_cast<T>(part * 8);
      } else {
        element = T();
      }
    }
    return true;
  });
  return tensor;
}

}  // namespace millrace::cli
