// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "optest.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <type_traits>

#include "base/strings.h"
#include "op/attr_text.h"
#include "tensor/buffer.h"
#include "tensor/dtype_table.h"

namespace millrace::optest {
namespace {

using Types = std::vector<std::pair<std::string, DataType>>;

const std::map<std::string, std::string>& Groups() {
  static const auto& groups = *new std::map<std::string, std::string>{
      {"@floats", "half bfloat16 float double"},
      {"@signed", "int8 int16 int32 int64"},
      {"@unsigned", "uint8 uint16 uint32 uint64"},
      {"@ints", "@signed @unsigned"},
      {"@complex", "complex64 complex128"},
      {"@reals", "@floats @ints"},
      {"@signed_reals", "@floats @signed"},
      {"@numbers", "@reals @complex"},
      {"@inexact", "@floats @complex"},
      {"@signed_numbers", "@floats @signed @complex"},
      {"@all", "@numbers bool string"},
  };
  return groups;
}

Status AddTypes(std::string_view word, TypeBinding* binding) {
  if (const auto group = Groups().find(std::string(word)); group != Groups().end()) {
    binding->is_group = true;
    for (const std::string_view part : StrSplitSkipEmpty(group->second, ' '))
      MR_RETURN_IF_ERROR(AddTypes(part, binding));
    return Status();
  }
  const auto type = ParseDataType(word);
  if (!type) return errors::InvalidArgument("unknown type ", word);
  binding->types.push_back(*type);
  return Status();
}

class Parser {
 public:
  Parser(const std::string& text, const Types& types) : text_(text), types_(types) {}

  StatusOr<Row> Parse() {
    Row row;
    row.op = Word();
    if (row.op.empty()) return Error("expected an op");
    if (Take('{')) MR_RETURN_IF_ERROR(ParseAttrs(&row));
    if (!Take('(')) return Error("expected '('");
    while (!Take(')')) {
      MR_ASSIGN_OR_RETURN(Value value, ParseValue());
      row.inputs.push_back(std::move(value));
      if (!Take(';') && Peek() != ')') return Error("expected ';' or ')'");
    }
    if (!Take('-') || !Take('>')) return Error("expected '->'");
    MR_RETURN_IF_ERROR(ParseResult(&row));
    if (Take('~')) {
      const auto relative = SafeStringToDouble(Word());
      const auto absolute = SafeStringToDouble(Word());
      if (!relative || !absolute) return Error("expected two numbers behind '~'");
      row.tolerance = {*relative, *absolute};
    }
    if (Peek() != '\0') return Error("unexpected text");
    return row;
  }

  StatusOr<Tensor> ParseOneTensor() {
    MR_ASSIGN_OR_RETURN(Value value, ParseValue());
    return value.tensor;
  }

 private:
  Status Error(std::string_view what) const {
    return errors::InvalidArgument(what, " at column ", at_ + 1, ": ",
                                   std::string_view(text_).substr(std::min(at_, text_.size())));
  }
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  // Everything up to a space or a punctuation character.
  std::string Word() {
    Peek();
    const size_t begin = at_;
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) == 0 &&
           std::string_view("(){}[];,=|~\"").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  // name=text, …; the text ends at a ',' or '}' outside brackets and quotes.
  Status ParseAttrs(Row* row) {
    while (!Take('}')) {
      std::string name = Word();
      if (name.empty() || !Take('=')) return Error("expected name=value");
      const size_t begin = at_;
      int depth = 0;
      for (bool quoted = false; at_ < text_.size(); ++at_) {
        const char c = text_[at_];
        if (c == '"') quoted = !quoted;
        if (quoted) continue;
        if (depth == 0 && (c == ',' || c == '}')) break;
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
      }
      row->attrs.emplace_back(std::move(name),
                              std::string(StripWhitespace(text_.substr(begin, at_ - begin))));
      if (!Take(',') && Peek() != '}') return Error("expected ',' or '}'");
    }
    return Status();
  }

  Status ParseResult(Row* row) {
    const size_t begin = at_;
    if (Word() == "error") {
      const std::string code = Word();
      const std::string rest = text_.substr(at_);
      // "InvalidArgument: text" in which the colon became part of the code.
      row->error = {std::string(StripWhitespace(code.substr(0, code.find(':')))),
                    std::string(StripWhitespace(rest))};
      at_ = text_.size();
      return Status();
    }
    at_ = begin;
    while (Peek() != '\0' && Peek() != '|' && Peek() != '~') {
      MR_ASSIGN_OR_RETURN(Value value, ParseValue());
      row->outputs.push_back(value.tensor);
      if (!Take(';')) break;
    }
    if (!Take('|')) return Status();
    if (Word() != "after") return Error("expected 'after'");
    do {
      MR_ASSIGN_OR_RETURN(Value value, ParseValue());
      row->after.push_back(value.tensor);
    } while (Take(';'));
    return Status();
  }

  StatusOr<Value> ParseValue() {
    Value value;
    std::string word = Word();
    if (word == "ref" || word == "var") {
      value.kind = word == "ref" ? Value::Kind::kRef : Value::Kind::kResource;
      word = Word();
    }
    DataType dtype = DataType::kInvalid;
    for (const auto& [name, type] : types_) {
      if (name == word) dtype = type;
    }
    if (dtype == DataType::kInvalid) {
      const auto type = ParseDataType(word);
      if (!type) return Error("unknown type " + word);
      dtype = *type;
    }
    if (!Take('[')) return Error("expected '['");
    std::vector<int64_t> dims;
    while (!Take(']')) {
      const auto size = SafeStringToInt64(Word());
      if (!size) return Error("expected a size");
      dims.push_back(*size);
      Take(',');
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    MR_ASSIGN_OR_RETURN(value.tensor, Tensor::Allocate(dtype, shape));
    MR_RETURN_IF_ERROR(ParseElements(dtype, shape, &value.tensor));
    return value;
  }

  Status ParseElements(DataType dtype, const TensorShape& shape, Tensor* tensor) {
    for (int64_t i = 0; i < shape.num_elements();) {
      int64_t repeat = 1;
      std::string element;
      const bool quoted = Take('"');
      if (quoted) {
        const size_t end = text_.find('"', at_);
        if (end == std::string::npos) return Error("unterminated string");
        element = text_.substr(at_, end - at_);
        at_ = end + 1;
      } else {
        element = Word();
        if (element == "uninit") {
          *tensor = Tensor::FromBuffer(dtype, shape, RefPtr<Buffer>(), nullptr);
          return Status();
        }
        if (element == "...") {  // repeats the last element to the end
          if (i == 0) return Error("'...' has nothing to repeat");
          repeat = shape.num_elements() - i;
          element = last_;
        } else if (const size_t star = element.find('*'); star != std::string::npos) {
          repeat = SafeStringToInt64(element.substr(0, star)).value_or(0);
          element = element.substr(star + 1);
        }
      }
      if (repeat < 1 || repeat > shape.num_elements() - i) return Error("wrong number of elements");
      last_ = element;
      for (; repeat > 0; --repeat, ++i) {
        if (!SetElement(dtype, i, element, quoted, tensor)) return Error("bad element '" + element + "'");
      }
    }
    return Status();
  }

  static bool SetElement(DataType dtype, int64_t i, const std::string& text, bool quoted, Tensor* tensor) {
    return VisitDataType(dtype, false, [&]<typename T>() -> bool {
      T& element = tensor->data<T>()[i];
      if constexpr (std::is_same_v<T, std::string>) {
        element = text;
        return true;
      } else if constexpr (std::is_same_v<T, bool>) {
        element = text == "true" || text == "1";
        return element || text == "false" || text == "0";
      } else if constexpr (std::is_same_v<T, uint64_t>) {
        const auto v = SafeStringToUint64(text);
        if (v) element = *v;
        return v.has_value();
      } else if constexpr (std::is_integral_v<T>) {
        const auto v = SafeStringToInt64(text);
        if (!v || *v < int64_t{std::numeric_limits<T>::min()} || *v > int64_t{std::numeric_limits<T>::max()})
          return false;
        element = static_cast<T>(*v);
        return true;
      } else if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) {
        return SetComplex(text, &element);
      } else if constexpr (requires { element.value; }) {
        const auto v = SafeStringToInt64(text);
        if (v) element.value = static_cast<decltype(element.value)>(*v);
        return v.has_value();
      } else if constexpr (std::is_constructible_v<T, float>) {
        const auto v = SafeStringToDouble(text);
        if (v && !quoted) {
          if constexpr (std::is_same_v<T, double>) {
            element = *v;
          } else {
            element = T(static_cast<float>(*v));
          }
        }
        return v.has_value();
      } else {
        return false;
      }
    });
  }

  // "1", "1+2i", "-0.5-2i".
  template <typename C>
  static bool SetComplex(const std::string& text, C* out) {
    using F = typename C::value_type;
    std::string real = text, imag = "0";
    if (!text.empty() && text.back() == 'i') {
      size_t split = text.size() - 1;
      while (split > 0 && !((text[split] == '+' || text[split] == '-') && text[split - 1] != 'e')) --split;
      if (split == 0) return false;
      real = text.substr(0, split);
      imag = text.substr(split, text.size() - 1 - split);
      if (imag[0] == '+') imag = imag.substr(1);
    }
    const auto re = SafeStringToDouble(real), im = SafeStringToDouble(imag);
    if (!re || !im) return false;
    *out = C(static_cast<F>(*re), static_cast<F>(*im));
    return true;
  }

  const std::string& text_;
  const Types& types_;
  size_t at_ = 0;
  std::string last_;
};

std::optional<DataType> FindType(std::string_view word, const Types& types) {
  for (const auto& [name, type] : types) {
    if (name == word) return type;
  }
  return ParseDataType(word);
}

// "[2,?]" or "?".
StatusOr<PartialShape> ParseShape(std::string_view text) {
  if (text == "?") return PartialShape();
  if (!ConsumePrefix(&text, "[") || !ConsumeSuffix(&text, "]"))
    return errors::InvalidArgument("bad shape ", text);
  std::vector<int64_t> dims;
  for (const std::string_view part : StrSplitSkipEmpty(text, ',')) {
    const auto size =
        StripWhitespace(part) == "?" ? std::optional<int64_t>(-1) : SafeStringToInt64(StripWhitespace(part));
    if (!size) return errors::InvalidArgument("bad shape ", text);
    dims.push_back(*size);
  }
  return PartialShape(std::move(dims));
}

}  // namespace

StatusOr<std::vector<Line>> ReadLines(const std::string& content) {
  std::vector<Line> lines;
  std::vector<TypeBinding> bindings;
  int number = 0;
  std::string joined;
  for (const std::string_view raw : StrSplit(content, '\n')) {
    ++number;
    std::string_view line = StripWhitespace(raw);
    if (joined.empty() && !line.empty() && line[0] == '#') continue;
    if (ConsumeSuffix(&line, "\\")) {
      joined += StrCat(line, " ");
      continue;
    }
    const std::string text = joined + std::string(line);
    joined.clear();
    if (text.empty()) {
      bindings.clear();
      continue;
    }
    std::string_view rest = text;
    if (ConsumePrefix(&rest, "types ")) {
      const size_t colon = rest.find(':');
      if (colon == std::string_view::npos)
        return errors::InvalidArgument("line ", number, ": expected 'types NAME: …'");
      TypeBinding binding;
      binding.name = StripWhitespace(rest.substr(0, colon));
      for (const std::string_view word : StrSplitSkipEmpty(rest.substr(colon + 1), ' ')) {
        const Status added = AddTypes(word, &binding);
        if (!added.ok()) return errors::InvalidArgument("line ", number, ": ", added.message());
      }
      bindings.push_back(std::move(binding));
      continue;
    }
    lines.push_back({number, text, bindings});
  }
  return lines;
}

StatusOr<Row> ParseRow(const std::string& text, const Types& types) { return Parser(text, types).Parse(); }

StatusOr<AttrValue> ParseAttr(const OpDef& op, const std::string& name, const std::string& text,
                              const Types& types) {
  const AttrDef* def = op.FindAttr(name);
  if (def == nullptr) return errors::InvalidArgument("op ", op.name, " has no attr ", name);
  if (def->type == "type") {
    const auto type = FindType(text, types);
    if (!type) return errors::InvalidArgument("unknown type ", text);
    return AttrValue(*type);
  }
  if (def->type == "list(type)") {
    std::string_view inner = text;
    ConsumePrefix(&inner, "[");
    ConsumeSuffix(&inner, "]");
    std::vector<DataType> list;
    for (const std::string_view part : StrSplitSkipEmpty(inner, ',')) {
      const auto type = FindType(StripWhitespace(part), types);
      if (!type) return errors::InvalidArgument("unknown type ", part);
      list.push_back(*type);
    }
    return AttrValue(std::move(list));
  }
  if (def->type == "shape") {
    MR_ASSIGN_OR_RETURN(PartialShape shape, ParseShape(text));
    return AttrValue(std::move(shape));
  }
  if (def->type == "tensor") {
    MR_ASSIGN_OR_RETURN(Tensor tensor, Parser(text, types).ParseOneTensor());
    return AttrValue(std::move(tensor));
  }
  return ParseAttrText(def->type, text);
}

}  // namespace millrace::optest
