// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/shape_fn_testing.h"

#include <memory>
#include <utility>

#include "base/strings.h"
#include "op/shape_inference.h"

namespace millrace {

PartialShape ParseShapeText(std::string_view text) {
  text = StripWhitespace(text);
  if (!ConsumePrefix(&text, "[") || !ConsumeSuffix(&text, "]")) return PartialShape();
  std::vector<int64_t> dims;
  for (const std::string_view dim : StrSplitSkipEmpty(text, ',')) {
    dims.push_back(SafeStringToInt64(dim).value_or(-1));
  }
  return PartialShape(std::move(dims));
}

// One call of the shape function with its context.
class ShapeTester::Run {
 public:
  Run(const ShapeTester& tester, std::string_view inputs) {
    for (const std::string_view text : StrSplitSkipEmpty(inputs, ';'))
      input_shapes_.push_back(ParseShapeText(text));
    status_ = Start(tester);
  }

  const Status& status() const { return status_; }
  InferenceContext& context() { return *context_; }

  // Whether a size fits "3", "?", "d0_1" or alternatives of these.
  bool DimFits(DimHandle dim, std::string_view expected) {
    for (const std::string_view choice : StrSplit(expected, '|')) {
      if (choice.starts_with("d")) {
        if (DimName(dim, choice)) return true;
      } else if (choice == "?") {
        if (!context_->ValueKnown(dim) && FirstDimName(dim).empty()) return true;
      } else if (SafeStringToInt64(choice) == context_->Value(dim)) {
        return true;
      }
    }
    return false;
  }

  bool ShapeFits(ShapeHandle shape, std::string_view expected) {
    if (expected.starts_with("[")) {
      const std::string_view inside = expected.substr(1, expected.size() - 2);
      const std::vector<std::string_view> dims = StrSplitSkipEmpty(inside, ',');
      if (context_->Rank(shape) != static_cast<int>(dims.size())) return false;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (!DimFits(context_->Dim(shape, static_cast<int64_t>(i)), dims[i])) return false;
      }
      return true;
    }
    for (std::string_view choice : StrSplit(expected, '|')) {
      if (choice == "?") {
        if (!context_->RankKnown(shape) && FirstShapeName(shape).empty()) return true;
      } else if (ConsumePrefix(&choice, "in")) {
        if (shape.SameAs(context_->input(static_cast<int>(SafeStringToInt64(choice).value_or(0)))))
          return true;
      }
    }
    return false;
  }

  std::string ShapeText(ShapeHandle shape) {
    if (std::string name = FirstShapeName(shape); !name.empty()) return name;
    if (!context_->RankKnown(shape)) return "?";
    std::string out = "[";
    for (int i = 0; i < context_->Rank(shape); ++i) {
      const DimHandle dim = context_->Dim(shape, i);
      if (i > 0) out += ",";
      if (const std::string name = FirstDimName(dim); !name.empty()) {
        out += name;
      } else {
        out += context_->ValueKnown(dim) ? std::to_string(context_->Value(dim)) : "?";
      }
    }
    return out + "]";
  }

 private:
  Status Start(const ShapeTester& tester) {
    MR_ASSIGN_OR_RETURN(const OpRegistration* registration, tester.registry_.LookUp(tester.op_));
    attrs_ = tester.attrs_;
    const int num_inputs = static_cast<int>(input_shapes_.size());
    tester.FillAttrs(registration->def, num_inputs, &attrs_);
    MR_RETURN_IF_ERROR(AddDefaultAttrs(registration->def, &attrs_));
    std::vector<DataType> inputs;
    std::vector<DataType> outputs;
    MR_RETURN_IF_ERROR(InferArgTypes(registration->def, attrs_, &inputs, &outputs));
    if (static_cast<int>(inputs.size()) != num_inputs) {
      return errors::InvalidArgument("the test gives ", num_inputs, " inputs, the op has ", inputs.size());
    }
    context_ = std::make_unique<InferenceContext>(registration->def, attrs_, "test",
                                                  static_cast<int>(outputs.size()), input_shapes_);
    for (const auto& [i, tensor] : tester.constants_) context_->set_input_tensor(i, &tensor);
    for (const auto& [i, text] : tester.as_shapes_) {
      MR_ASSIGN_OR_RETURN(const ShapeHandle shape, context_->MakeShapeFromPartial(ParseShapeText(text)));
      context_->set_input_as_shape(i, shape);
    }
    for (const auto& [i, handle] : tester.handles_) {
      MR_ASSIGN_OR_RETURN(const ShapeHandle shape,
                          context_->MakeShapeFromPartial(ParseShapeText(handle.shape)));
      context_->set_input_handle(i, {{shape, handle.dtype}});
    }
    if (registration->shape_fn == nullptr) return Status::Ok();
    return registration->shape_fn(*context_);
  }

  // Whether `name` ("d0_1") names the very size `dim`.
  bool DimName(DimHandle dim, std::string_view name) {
    const std::vector<std::string_view> parts = StrSplit(name.substr(1), '_');
    if (parts.size() != 2) return false;
    const int64_t input = SafeStringToInt64(parts[0]).value_or(-1);
    const int64_t index = SafeStringToInt64(parts[1]).value_or(-1);
    if (input < 0 || input >= context_->num_inputs()) return false;
    const ShapeHandle shape = context_->input(static_cast<int>(input));
    return index >= 0 && index < context_->Rank(shape) && dim.SameAs(context_->Dim(shape, index));
  }

  std::string FirstDimName(DimHandle dim) {
    for (int i = 0; i < context_->num_inputs(); ++i) {
      const ShapeHandle shape = context_->input(i);
      for (int d = 0; d < context_->Rank(shape); ++d) {
        if (dim.SameAs(context_->Dim(shape, d))) return StrCat("d", i, "_", d);
      }
    }
    return "";
  }

  std::string FirstShapeName(ShapeHandle shape) {
    for (int i = 0; i < context_->num_inputs(); ++i) {
      if (shape.SameAs(context_->input(i))) return StrCat("in", i);
    }
    return "";
  }

  std::vector<PartialShape> input_shapes_;
  AttrMap attrs_;
  std::unique_ptr<InferenceContext> context_;
  Status status_;
};

ShapeTester::ShapeTester(std::string op, const OpLookup& registry)
    : op_(std::move(op)), registry_(registry) {}

ShapeTester& ShapeTester::Attr(std::string_view name, AttrValue value) {
  attrs_.Set(name, std::move(value));
  return *this;
}

ShapeTester& ShapeTester::Const(int i, Tensor value) {
  constants_.insert_or_assign(i, std::move(value));
  return *this;
}

ShapeTester& ShapeTester::Const(int i, const std::vector<int>& values) {
  return Const(i, Tensor::Vector<int32_t>(values));
}

ShapeTester& ShapeTester::ConstScalar(int i, int value) { return Const(i, Tensor::Scalar<int32_t>(value)); }

ShapeTester& ShapeTester::AsShape(int i, std::string_view shape) {
  as_shapes_.insert_or_assign(i, std::string(shape));
  return *this;
}

ShapeTester& ShapeTester::Handle(int i, std::string_view shape, DataType dtype) {
  handles_.insert_or_assign(i, HandleText{std::string(shape), dtype});
  return *this;
}

void ShapeTester::FillAttrs(const OpDef& op, int num_inputs, AttrMap* attrs) const {
  // The number of inputs of the only argument of variable length.
  int spare = num_inputs;
  for (const ArgDef& arg : op.inputs) {
    if (arg.number_attr.empty() && arg.type_list_attr.empty()) --spare;
  }
  for (const AttrDef& attr : op.attrs) {
    if (attrs->Find(attr.name) != nullptr || attr.default_value.IsSet()) continue;
    DataType type = DataType::kFloat;
    if (const auto* allowed = attr.allowed_values.As<std::vector<DataType>>()) type = allowed->front();
    if (attr.type == "type") attrs->Set(attr.name, type);
    if (attr.type == "list(type)") attrs->Set(attr.name, std::vector<DataType>(std::max(spare, 0), type));
    for (const ArgDef& arg : op.inputs) {
      if (arg.number_attr == attr.name) attrs->Set(attr.name, spare);
    }
  }
}

std::string ShapeTester::Infer(std::string_view inputs) {
  output_handles_.clear();
  wanted_.clear();
  Run run(*this, inputs);
  if (!run.status().ok()) return StrCat("e;", run.status().message());
  InferenceContext& c = run.context();
  std::string out;
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (i > 0) out += ";";
    out += run.ShapeText(c.output(i));
    const auto& handle = c.output_handle(i);
    output_handles_.push_back(
        handle.empty() ? "" : StrCat(c.DebugString(handle[0].shape), ":", DataTypeName(handle[0].dtype)));
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.requested_input_tensor(i)) wanted_.push_back(i);
  }
  return out;
}

std::string ShapeTester::Check(std::string_view inputs, std::string_view expected) {
  const std::string actual = Infer(inputs);
  std::string complaint = StrCat(op_, "(", inputs, ") gives ", actual, ", not ", expected);
  const bool failed = actual.starts_with("e;");
  if (expected == "e" || expected.starts_with("e;")) {
    const std::string_view text = expected.substr(expected == "e" ? 1 : 2);
    return failed && actual.find(text) != std::string::npos ? "" : complaint;
  }
  if (failed) return complaint;
  Run run(*this, inputs);
  const std::vector<std::string_view> shapes = StrSplitSkipEmpty(expected, ';');
  if (static_cast<int>(shapes.size()) != run.context().num_outputs()) return complaint;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!run.ShapeFits(run.context().output(static_cast<int>(i)), shapes[i])) return complaint;
  }
  return "";
}

}  // namespace millrace
