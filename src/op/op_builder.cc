// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_builder.h"

#include <string_view>
#include <utility>

#include "base/strings.h"
#include "op/attr_text.h"

namespace millrace {
namespace {

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// A position in a text of the registration language.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(StripWhitespace(text)) {}

  bool AtEnd() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  // Consumes `token` if it is next, and the blanks after it.
  bool Take(std::string_view token) {
    if (!ConsumePrefix(&rest_, token)) return false;
    SkipBlanks();
    return true;
  }
  // Takes a name; empty when there is none.
  std::string_view TakeName() {
    return TakeWhile([](char c) { return IsNameChar(c); });
  }
  // Takes a number with an optional sign.
  std::string_view TakeNumber() {
    return TakeWhile([](char c) { return (c >= '0' && c <= '9') || c == '-' || c == '+'; });
  }
  // Takes a quoted string with its quotes; empty when there is none or it does not end.
  std::string_view TakeQuoted() {
    if (rest_.empty() || (rest_[0] != '"' && rest_[0] != '\'')) return {};
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '\\') {
        ++i;
      } else if (rest_[i] == rest_[0]) {
        return TakeChars(i + 1);
      }
    }
    return {};
  }

 private:
  std::string_view TakeWhile(auto accept) {
    size_t n = 0;
    while (n < rest_.size() && accept(rest_[n])) ++n;
    return TakeChars(n);
  }
  std::string_view TakeChars(size_t n) {
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    SkipBlanks();
    return taken;
  }
  void SkipBlanks() { rest_ = StripWhitespace(rest_); }

  std::string_view rest_;
};

using Types = std::vector<DataType>;

// The sets of types that have a name of their own.
const Types* NamedTypeSet(std::string_view name) {
  using enum DataType;
  static const Types kNumber = {kFloat,     kDouble,     kInt32, kUint8,  kInt16,  kInt8,
                                kComplex64, kInt64,      kQint8, kQuint8, kQint32, kBfloat16,
                                kUint16,    kComplex128, kHalf,  kUint32, kUint64};
  static const Types kReal = {kFloat, kDouble,   kInt32,  kUint8, kInt16,  kInt8,
                              kInt64, kBfloat16, kUint16, kHalf,  kUint32, kUint64};
  static const Types kQuantized = {kQint8, kQuint8, kQint16, kQuint16, kQint32};
  if (name == "numbertype" || name == "numerictype") return &kNumber;
  if (name == "realnumbertype" || name == "realnumerictype") return &kReal;
  if (name == "quantizedtype") return &kQuantized;
  return nullptr;
}

// The part of an attr's text between braces: a set of types, or of quoted strings.
Status ParseAllowedSet(Cursor* in, AttrDef* attr, std::string* element_type) {
  Types types;
  std::vector<std::string> strings;
  while (!in->Take("}")) {
    if (const std::string_view quoted = in->TakeQuoted(); !quoted.empty()) {
      MR_ASSIGN_OR_RETURN(const AttrValue text, ParseAttrText("string", quoted));
      strings.push_back(*text.As<std::string>());
    } else if (const std::string_view name = in->TakeName(); !name.empty()) {
      const auto type = ParseDataType(name);
      if (!type.has_value() || IsRefType(*type))
        return errors::InvalidArgument("Unrecognized type '", name, "'");
      types.push_back(*type);
    } else {
      return errors::InvalidArgument("Trouble parsing the allowed values at '", in->rest(), "'");
    }
    // A comma before the closing brace is fine.
    if (!in->Take(",") && !in->rest().starts_with("}")) {
      return errors::InvalidArgument("Expected ',' or '}' at '", in->rest(), "'");
    }
  }
  if (!types.empty() && !strings.empty()) {
    return errors::InvalidArgument("The allowed values are types and strings at once");
  }
  if (types.empty() && strings.empty()) return errors::InvalidArgument("The set of allowed values is empty");
  if (types.empty()) {
    *element_type = "string";
    attr->allowed_values = AttrValue(std::move(strings));
  } else {
    *element_type = "type";
    attr->allowed_values = AttrValue(std::move(types));
  }
  return Status::Ok();
}

// "int", "{float, int32}", "numbertype": the type of an attr or of the entries of a list.
Status ParseElementType(Cursor* in, AttrDef* attr, std::string* element_type) {
  if (in->Take("{")) return ParseAllowedSet(in, attr, element_type);
  const std::string_view name = in->TakeName();
  if (const Types* set = NamedTypeSet(name)) {
    *element_type = "type";
    attr->allowed_values = AttrValue(*set);
    return Status::Ok();
  }
  *element_type = name;  // checked by ValidateOpDef
  if (name.empty()) return errors::InvalidArgument("Expected a type at '", in->rest(), "'");
  return Status::Ok();
}

// "N: int >= 2 = 3".
Status ParseAttr(std::string_view text, AttrDef* attr) {
  Cursor in(text);
  attr->name = in.TakeName();
  if (attr->name.empty()) return errors::InvalidArgument("Expected a name at '", in.rest(), "'");
  if (!in.Take(":")) return errors::InvalidArgument("Expected ':' at '", in.rest(), "'");
  // "list" may be followed by blanks, and no other type begins so.
  Cursor ahead = in;
  if (ahead.TakeName() == "list" && ahead.Take("(")) {
    in = ahead;
    std::string element;
    MR_RETURN_IF_ERROR(ParseElementType(&in, attr, &element));
    if (!in.Take(")")) return errors::InvalidArgument("Expected ')' to close 'list(' at '", in.rest(), "'");
    attr->type = StrCat("list(", element, ")");
  } else {
    MR_RETURN_IF_ERROR(ParseElementType(&in, attr, &attr->type));
  }
  if (in.Take(">=")) {
    const std::string_view number = in.TakeNumber();
    const auto minimum = SafeStringToInt64(number);
    if (!minimum.has_value()) return errors::InvalidArgument("Could not parse the minimum '", number, "'");
    attr->has_minimum = true;
    attr->minimum = *minimum;
  }
  if (in.Take("=")) {
    MR_ASSIGN_OR_RETURN(attr->default_value, ParseAttrText(attr->type, in.rest()));
    return Status::Ok();
  }
  if (!in.AtEnd()) return errors::InvalidArgument("Extra '", in.rest(), "' at the end");
  return Status::Ok();
}

// "a: N * T", "a: Ref(T)", "a: float".
Status ParseArg(std::string_view text, const OpDef& op, ArgDef* arg) {
  Cursor in(text);
  arg->name = in.TakeName();
  if (arg->name.empty()) return errors::InvalidArgument("Expected a name at '", in.rest(), "'");
  if (!in.Take(":")) return errors::InvalidArgument("Expected ':' at '", in.rest(), "'");
  Cursor ahead = in;
  if (ahead.TakeName() == "Ref" && ahead.Take("(")) {
    in = ahead;
    arg->is_ref = true;
  }
  std::string_view name = in.TakeName();
  if (in.Take("*")) {
    arg->number_attr = name;
    if (name.empty()) return errors::InvalidArgument("Expected the name of an attr before '*'");
    name = in.TakeName();
  }
  if (name.empty())
    return errors::InvalidArgument("Expected a type or the name of an attr at '", in.rest(), "'");
  if (arg->is_ref && !in.Take(")"))
    return errors::InvalidArgument("Expected ')' to close 'Ref(' at '", in.rest(), "'");
  if (!in.AtEnd()) return errors::InvalidArgument("Extra '", in.rest(), "' at the end");

  if (const auto type = ParseDataType(name); type.has_value() && !IsRefType(*type)) {
    arg->type = *type;
    return Status::Ok();
  }
  const AttrDef* attr = op.FindAttr(name);
  if (attr == nullptr) return errors::InvalidArgument("Reference to unknown attr '", name, "'");
  if (attr->type == "type") {
    arg->type_attr = name;
  } else if (attr->type == "list(type)") {
    arg->type_list_attr = name;
  } else {
    return errors::InvalidArgument("Reference to attr '", name, "' with type ", attr->type,
                                   " that isn't type or list(type)");
  }
  return Status::Ok();
}

// The first line is the summary, the rest the description.
void ParseDoc(std::string_view text, OpDef* op) {
  text = StripWhitespace(text);
  const size_t end = text.find('\n');
  op->summary = StripWhitespace(text.substr(0, end));
  op->description = end == std::string_view::npos ? std::string_view() : StripWhitespace(text.substr(end));
}

}  // namespace

OpBuilder::OpBuilder(std::string_view name_and_summary) {
  const size_t colon = name_and_summary.find(':');
  reg_.def.name = name_and_summary.substr(0, colon);
  if (colon != std::string_view::npos) reg_.def.summary = StripWhitespace(name_and_summary.substr(colon + 1));
}
OpBuilder::OpBuilder(const OpBuilder& o) = default;
OpBuilder::OpBuilder(OpBuilder&& o) noexcept = default;
OpBuilder& OpBuilder::operator=(const OpBuilder& o) = default;
OpBuilder& OpBuilder::operator=(OpBuilder&& o) noexcept = default;
OpBuilder::~OpBuilder() = default;

OpBuilder& OpBuilder::Input(std::string_view spec) {
  inputs_.emplace_back(spec);
  return *this;
}

OpBuilder& OpBuilder::Output(std::string_view spec) {
  outputs_.emplace_back(spec);
  return *this;
}

OpBuilder& OpBuilder::Attr(std::string_view spec) {
  attrs_.emplace_back(spec);
  return *this;
}

OpBuilder& OpBuilder::Commutative() {
  reg_.def.is_commutative = true;
  return *this;
}

OpBuilder& OpBuilder::Aggregate() {
  reg_.def.is_aggregate = true;
  return *this;
}

OpBuilder& OpBuilder::Stateful() {
  reg_.def.is_stateful = true;
  return *this;
}

OpBuilder& OpBuilder::AllowsUninitializedInput() {
  reg_.def.allows_uninitialized_input = true;
  return *this;
}

OpBuilder& OpBuilder::Deprecated(int version, std::string_view explanation) {
  if (reg_.def.deprecated_version != 0) errors_.push_back("Deprecated called twice");
  if (version <= 0) errors_.push_back(StrCat("Deprecated needs a version above 0, not ", version));
  reg_.def.deprecated_version = version;
  reg_.def.deprecated_explanation = explanation;
  return *this;
}

OpBuilder& OpBuilder::Doc(std::string_view text) {
  if (!reg_.def.summary.empty()) errors_.push_back("Doc called twice");
  ParseDoc(text, &reg_.def);
  return *this;
}

OpBuilder& OpBuilder::Shape(ShapeFn fn) {
  if (reg_.shape_fn != nullptr) errors_.push_back("Shape called twice");
  reg_.shape_fn = std::move(fn);
  return *this;
}

OpBuilder& OpBuilder::Traits(OpTraits traits) {
  traits.not_differentiable |= reg_.traits.not_differentiable;
  reg_.traits = traits;
  return *this;
}

OpBuilder& OpBuilder::NotDifferentiable() {
  reg_.traits.not_differentiable = true;
  return *this;
}

OpBuilder& OpBuilder::Fuses(ElementwiseForm form) {
  reg_.elementwise = form;
  return *this;
}

OpBuilder& OpBuilder::Flops(FlopRule rule, float factor) {
  reg_.flop_rule = rule;
  reg_.flop_factor = factor;
  return *this;
}

StatusOr<OpRegistration> OpBuilder::Finalize() const {
  OpRegistration registration = reg_;
  OpDef& op = registration.def;
  std::vector<std::string> found = errors_;
  const auto note = [&found](const Status& status, std::string_view method, std::string_view spec) {
    if (!status.ok()) found.push_back(StrCat(status.message(), " in ", method, "(\"", spec, "\")"));
  };
  // Attributes first: arguments refer to them.
  for (const std::string& spec : attrs_) {
    AttrDef attr;
    note(ParseAttr(spec, &attr), "Attr", spec);
    op.attrs.push_back(std::move(attr));
  }
  for (const std::string& spec : inputs_) {
    ArgDef arg;
    note(ParseArg(spec, op, &arg), "Input", spec);
    op.inputs.push_back(std::move(arg));
  }
  for (const std::string& spec : outputs_) {
    ArgDef arg;
    note(ParseArg(spec, op, &arg), "Output", spec);
    op.outputs.push_back(std::move(arg));
  }
  if (!found.empty()) {
    return errors::InvalidArgument("Op '", op.name, "': ", StrJoin(found, "; "));
  }
  MR_RETURN_IF_ERROR(ValidateOpDef(op));
  return registration;
}

}  // namespace millrace
