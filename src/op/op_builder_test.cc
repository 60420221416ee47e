// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "op/attr_text.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The one attribute that the text declares.
AttrDef Parsed(const std::string& spec) {
  const auto registration = OpBuilder("Foo").Attr(spec).Finalize();
  EXPECT_TRUE(registration.ok()) << registration.status();
  return registration.ok() ? registration->def.attrs[0] : AttrDef();
}

std::string AttrError(const std::string& spec) {
  return OpBuilder("Foo").Attr(spec).Finalize().status().message();
}

std::string InputError(const std::string& spec) {
  return OpBuilder("Foo")
      .Input(spec)
      .Attr("T: type")
      .Attr("N: int >= 1")
      .Attr("L: list(type)")
      .Attr("n: int")
      .Finalize()
      .status()
      .message();
}

using Types = std::vector<DataType>;

TEST(OpBuilder, ReadsEveryAttrType) {
  for (const char* type : {"string", "int", "float", "bool", "type", "shape", "tensor", "func"}) {
    EXPECT_EQ(Parsed(StrCat("a: ", type)).type, type);
    const std::string list = StrCat("list(", type, ")");
    EXPECT_EQ(Parsed("a: " + list).type, list);
  }
  EXPECT_EQ(Parsed("  a :list ( int )  ").type, "list(int)");
  EXPECT_EQ(Parsed("a:int").name, "a");
}

TEST(OpBuilder, ReadsMinimums) {
  const AttrDef attr = Parsed("N: int >= -2");
  EXPECT_TRUE(attr.has_minimum);
  EXPECT_EQ(attr.minimum, -2);
  EXPECT_FALSE(attr.default_value.IsSet());
  EXPECT_EQ(Parsed("N: int >= 2 = 3").default_value, AttrValue(3));
  EXPECT_EQ(Parsed("N: list(int) >= 0 = []").default_value, AttrValue(EmptyList{}));
  EXPECT_EQ(Parsed("T: list({float, int32}) >= 1").minimum, 1);
}

TEST(OpBuilder, ReadsAllowedTypes) {
  const AttrDef attr = Parsed("T: {float, int32,} = DT_INT32");
  EXPECT_EQ(attr.type, "type");
  EXPECT_EQ(attr.allowed_values, AttrValue(Types{DataType::kFloat, DataType::kInt32}));
  EXPECT_EQ(attr.default_value, AttrValue(DataType::kInt32));
  const AttrDef list = Parsed("T: list({ float , double }) = [DT_FLOAT, DT_DOUBLE]");
  EXPECT_EQ(list.type, "list(type)");
  EXPECT_EQ(list.default_value, AttrValue(Types{DataType::kFloat, DataType::kDouble}));
}

TEST(OpBuilder, ReadsNamedTypeSets) {
  using enum DataType;
  // As ops of 1.15 list them.
  const AttrValue number =
      Types{kFloat,  kDouble, kInt32,    kUint8,  kInt16,      kInt8, kComplex64, kInt64, kQint8,
            kQuint8, kQint32, kBfloat16, kUint16, kComplex128, kHalf, kUint32,    kUint64};
  const AttrValue real = Types{kFloat, kDouble,   kInt32,  kUint8, kInt16,  kInt8,
                               kInt64, kBfloat16, kUint16, kHalf,  kUint32, kUint64};
  EXPECT_EQ(Parsed("T: numbertype").allowed_values, number);
  EXPECT_EQ(Parsed("T: numerictype").allowed_values, number);
  EXPECT_EQ(Parsed("T: realnumbertype").allowed_values, real);
  EXPECT_EQ(Parsed("T: realnumerictype = DT_HALF").allowed_values, real);
  EXPECT_EQ(Parsed("T: quantizedtype").allowed_values,
            AttrValue(Types{kQint8, kQuint8, kQint16, kQuint16, kQint32}));
  EXPECT_EQ(Parsed("T: list(numbertype)").type, "list(type)");
}

TEST(OpBuilder, ReadsAllowedStrings) {
  const AttrDef attr = Parsed("s: {'a', \"b'c\", 'd\\n'} = \"b'c\"");
  EXPECT_EQ(attr.type, "string");
  EXPECT_EQ(attr.allowed_values, AttrValue(std::vector<std::string>{"a", "b'c", "d\n"}));
  EXPECT_EQ(attr.default_value, AttrValue("b'c"));
}

TEST(OpBuilder, ReadsEveryFormOfDefault) {
  EXPECT_EQ(Parsed("a: string = 'x y'").default_value, AttrValue("x y"));
  EXPECT_EQ(Parsed("a: string = \"\"").default_value, AttrValue(""));
  EXPECT_EQ(Parsed("a: string = '\\t\\'\\x41\\101'").default_value, AttrValue("\t'AA"));
  EXPECT_EQ(Parsed("a: int = -9223372036854775808").default_value, AttrValue(INT64_MIN));
  EXPECT_EQ(Parsed("a: float = 1").default_value, AttrValue(1.0f));
  EXPECT_EQ(Parsed("a: float = -1.5e-3").default_value, AttrValue(-1.5e-3f));
  EXPECT_EQ(Parsed("a: float = inf").default_value.ToString(), "inf");
  EXPECT_EQ(Parsed("a: bool = true").default_value, AttrValue(true));
  EXPECT_EQ(Parsed("a: type = DT_FLOAT").default_value, AttrValue(DataType::kFloat));
  EXPECT_EQ(Parsed("a: shape = { dim { size: 2 } dim { size: -1 } }").default_value,
            AttrValue(PartialShape({2, -1})));
  EXPECT_EQ(Parsed("a: shape = {}").default_value, AttrValue(PartialShape(std::vector<int64_t>{})));
  EXPECT_EQ(Parsed("a: shape = { unknown_rank: true }").default_value, AttrValue(PartialShape()));
  EXPECT_EQ(Parsed("a: tensor = { dtype: DT_INT32 int_val: 5 tensor_shape {} }").default_value,
            AttrValue(Tensor::Scalar<int32_t>(5)));
  EXPECT_EQ(Parsed("a: func = { name: 'f' }").default_value, AttrValue(NameAttrList{"f", nullptr}));
  EXPECT_EQ(Parsed("a: list(string) = ['a', 'b']").default_value,
            AttrValue(std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Parsed("a: list(int) = [1, 2]").default_value, AttrValue(std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Parsed("a: list(float) = [0.75, 1]").default_value, AttrValue(std::vector<float>{0.75f, 1}));
  EXPECT_EQ(Parsed("a: list(bool) = [true]").default_value, AttrValue(std::vector<bool>{true}));
  EXPECT_EQ(Parsed("a: list(shape) = [{ dim { size: 2 } }, { unknown_rank: true }]").default_value,
            AttrValue(std::vector<PartialShape>{PartialShape({2}), PartialShape()}));
}

TEST(OpBuilder, ReadsArguments) {
  const auto registration = OpBuilder("Foo")
                                .Input("a: float")
                                .Input("b: Ref(T)")
                                .Input("c: N * T")
                                .Input("d: Ref( N*int32 )")
                                .Input("e: L")
                                .Output("a: T")
                                .Attr("T: type")
                                .Attr("N: int >= 1")
                                .Attr("L: list(type)")
                                .Finalize();
  ASSERT_TRUE(registration.ok()) << registration.status();
  const auto& inputs = registration->def.inputs;
  EXPECT_EQ(inputs[0].name, "a");
  EXPECT_EQ(inputs[0].type, DataType::kFloat);
  EXPECT_EQ(inputs[0].type_attr, "");
  EXPECT_FALSE(inputs[0].is_ref);
  EXPECT_EQ(inputs[1].type_attr, "T");
  EXPECT_TRUE(inputs[1].is_ref);
  EXPECT_EQ(inputs[2].type_attr, "T");
  EXPECT_EQ(inputs[2].number_attr, "N");
  EXPECT_EQ(inputs[3].type, DataType::kInt32);
  EXPECT_EQ(inputs[3].number_attr, "N");
  EXPECT_TRUE(inputs[3].is_ref);
  EXPECT_EQ(inputs[4].type_list_attr, "L");
  EXPECT_EQ(registration->def.outputs[0].name, "a") << "an output may have the name of an input";
}

TEST(OpBuilder, KeepsFlagsAndDocumentation) {
  const auto registration = OpBuilder("Foo")
                                .Commutative()
                                .Aggregate()
                                .Stateful()
                                .AllowsUninitializedInput()
                                .Deprecated(3, "Use Bar")
                                .Doc("\nDoes foo.\n\nAt length.\n")
                                .Traits({.cheap = true})
                                .Finalize();
  ASSERT_TRUE(registration.ok());
  const OpDef& op = registration->def;
  EXPECT_TRUE(op.is_commutative && op.is_aggregate && op.is_stateful && op.allows_uninitialized_input);
  EXPECT_EQ(op.deprecated_version, 3);
  EXPECT_EQ(op.deprecated_explanation, "Use Bar");
  EXPECT_EQ(op.summary, "Does foo.");
  EXPECT_EQ(op.description, "At length.");
  EXPECT_TRUE(registration->traits.cheap);
}

TEST(OpBuilder, RecordsHowTheOpFusesWhatItCostsAndThatGradientsEnd) {
  const auto plain = OpBuilder("Foo").Finalize();
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->elementwise.operands, ElementwiseForm::Operands::kNone);
  EXPECT_EQ(plain->flop_rule, FlopRule::kElements);
  EXPECT_FALSE(plain->traits.not_differentiable);

  const auto full = OpBuilder("Foo")
                        .NotDifferentiable()
                        .Traits({.cheap = true})  // replaces the other traits only
                        .Fuses({.operands = ElementwiseForm::Operands::kSelect, .takes_integers = false})
                        .Flops(FlopRule::kInputs, 5)
                        .Finalize();
  ASSERT_TRUE(full.ok());
  EXPECT_TRUE(full->traits.not_differentiable);
  EXPECT_TRUE(full->traits.cheap);
  EXPECT_EQ(full->elementwise.arity(), 3);
  EXPECT_FALSE(full->elementwise.takes_integers);
  EXPECT_EQ(full->flop_rule, FlopRule::kInputs);
  EXPECT_EQ(full->flop_factor, 5);
}

TEST(OpBuilder, RefusesMalformedAttrs) {
  EXPECT_EQ(AttrError("a int"), "Op 'Foo': Expected ':' at 'int' in Attr(\"a int\")");
  EXPECT_THAT(AttrError(": int"), HasSubstr("Expected a name"));
  EXPECT_THAT(AttrError("a:"), HasSubstr("Expected a type"));
  EXPECT_THAT(AttrError("a: integer"), HasSubstr("Unrecognized type 'integer' in attr 'a'"));
  EXPECT_THAT(AttrError("a: list(int"), HasSubstr("Expected ')' to close 'list('"));
  EXPECT_THAT(AttrError("a: list(list(int))"), HasSubstr("Expected ')'"));
  EXPECT_THAT(AttrError("a: {}"), HasSubstr("set of allowed values is empty"));
  EXPECT_THAT(AttrError("a: {float int32}"), HasSubstr("Expected ',' or '}' at 'int32}'"));
  EXPECT_THAT(AttrError("a: {float"), HasSubstr("Expected ',' or '}'"));
  EXPECT_THAT(AttrError("a: {float, 'x'}"), HasSubstr("types and strings at once"));
  EXPECT_THAT(AttrError("a: {'x"), HasSubstr("Trouble parsing the allowed values"));
  EXPECT_THAT(AttrError("a: {flota}"), HasSubstr("Unrecognized type 'flota'"));
  EXPECT_THAT(AttrError("a: {float_ref}"), HasSubstr("Unrecognized type 'float_ref'"));
  EXPECT_THAT(AttrError("a: int >= x"), HasSubstr("Could not parse the minimum"));
  EXPECT_THAT(AttrError("a: int >= 99999999999999999999"), HasSubstr("Could not parse the minimum"));
  EXPECT_THAT(AttrError("a: int 5"), HasSubstr("Extra '5' at the end"));
  EXPECT_THAT(AttrError("1a: int"), HasSubstr("Invalid name for attr '1a'"));
  EXPECT_THAT(AttrError("float: type"), HasSubstr("Attr can't have name float that matches a data type"));
}

TEST(OpBuilder, RefusesMalformedDefaults) {
  EXPECT_THAT(AttrError("a: int = x"), HasSubstr("'x' is not a value of type int"));
  EXPECT_THAT(AttrError("a: int ="), HasSubstr("is not a value of type int"));
  EXPECT_THAT(AttrError("a: int = 3 s: 'x'"), HasSubstr("is not a value of type int"));
  EXPECT_THAT(AttrError("a: bool = 2"), HasSubstr("is not a value of type bool"));
  EXPECT_THAT(AttrError("a: string = x"), HasSubstr("is not a value of type string"));
  EXPECT_THAT(AttrError("a: string = 'x"), HasSubstr("is not a value of type string"));
  EXPECT_THAT(AttrError("a: type = DT_FLOTA"), HasSubstr("is not a value of type type"));
  EXPECT_THAT(AttrError("a: list(int) = 3"), HasSubstr("a list has to begin with '['"));
  EXPECT_THAT(AttrError("a: list(int) = [1, 2"), HasSubstr("is not a value of type list(int)"));
  EXPECT_THAT(AttrError("a: list(int) = [1] s: 'x'"), HasSubstr("several kinds"));
  EXPECT_THAT(AttrError("a: shape = 3"), HasSubstr("has to be written in braces"));
  EXPECT_THAT(AttrError("a: shape = { dim { size: -3 } }"), HasSubstr("shape"));
}

TEST(OpBuilder, RefusesDefaultsOutsideTheConstraints) {
  EXPECT_THAT(
      AttrError("a: int >= 2 = 1"),
      AllOf(HasSubstr("Value for attr 'a' of 1 must be at least minimum 2"), HasSubstr("its default")));
  EXPECT_THAT(AttrError("a: list(int) >= 1 = []"),
              HasSubstr("Length for attr 'a' of 0 must be at least minimum 1"));
  EXPECT_THAT(AttrError("a: {float, int32} = DT_STRING"),
              HasSubstr("Value for attr 'a' of string is not in the list of allowed values: float, int32"));
  EXPECT_THAT(AttrError("a: {'x', 'y'} = 'z'"),
              HasSubstr("Value for attr 'a' of \"z\" is not in the list of allowed values: \"x\", \"y\""));
}

TEST(OpBuilder, RefusesMinimumsThatMakeNoSense) {
  EXPECT_THAT(AttrError("a: string >= 2"), HasSubstr("minimum for unsupported type string"));
  EXPECT_THAT(AttrError("a: list(int) >= -1"), HasSubstr("non-negative minimum"));
}

TEST(OpBuilder, RefusesMalformedArguments) {
  EXPECT_THAT(InputError("a float"), HasSubstr("Expected ':' at 'float' in Input(\"a float\")"));
  EXPECT_THAT(InputError("a:"), HasSubstr("Expected a type or the name of an attr"));
  EXPECT_THAT(InputError("a: U"), HasSubstr("Reference to unknown attr 'U'"));
  EXPECT_THAT(InputError("a: n"),
              HasSubstr("Reference to attr 'n' with type int that isn't type or list(type)"));
  EXPECT_THAT(InputError("a: Ref(T"), HasSubstr("Expected ')' to close 'Ref('"));
  EXPECT_THAT(InputError("a: T T"), HasSubstr("Extra 'T' at the end"));
  EXPECT_THAT(InputError("a: N * "), HasSubstr("Expected a type or the name of an attr"));
  EXPECT_THAT(InputError("a: * T"), HasSubstr("Expected the name of an attr before '*'"));
  EXPECT_THAT(InputError("a: M * T"), HasSubstr("No attr with name 'M' for argument 'a'"));
  EXPECT_THAT(InputError("a: T * T"),
              HasSubstr("Attr 'T' used for argument 'a' has type type instead of int"));
  EXPECT_THAT(InputError("a: n * T"),
              HasSubstr("Attr 'n' used as number_attr for argument 'a' should have a minimum"));
  EXPECT_THAT(InputError("a: N * L"), HasSubstr("Can't have both number_attr and type_list_attr"));
  EXPECT_THAT(InputError("A: T"), HasSubstr("Invalid name for input argument 'A'"));
  EXPECT_EQ(InputError("a: T"), "");
}

TEST(OpBuilder, RefusesBadAndDuplicateNames) {
  EXPECT_THAT(OpBuilder("foo").Finalize().status().message(), HasSubstr("Did you use CamelCase?"));
  EXPECT_THAT(OpBuilder("").Finalize().status().message(), HasSubstr("Did you use CamelCase?"));
  EXPECT_THAT(OpBuilder("F-o").Finalize().status().message(), HasSubstr("Did you use CamelCase?"));
  EXPECT_TRUE(OpBuilder("_Send").Finalize().ok());
  EXPECT_TRUE(OpBuilder("Name>Foo2D").Finalize().ok());
  EXPECT_THAT(OpBuilder("Foo").Input("a: float").Input("a: float").Finalize().status().message(),
              HasSubstr("Duplicate name: a"));
  EXPECT_THAT(OpBuilder("Foo").Attr("a: int").Attr("a: int").Finalize().status().message(),
              HasSubstr("Duplicate name: a"));
  EXPECT_THAT(OpBuilder("Foo").Attr("a: int").Output("a: float").Finalize().status().message(),
              HasSubstr("Duplicate name: a"));
}

TEST(OpBuilder, ReportsAllErrorsAtOnce) {
  EXPECT_THAT(OpBuilder("Foo").Attr("a int").Input("b").Output("c: U").Finalize().status().message(),
              AllOf(HasSubstr("Attr(\"a int\")"), HasSubstr("Input(\"b\")"), HasSubstr("Output(\"c: U\")")));
}

TEST(OpBuilder, RefusesCallsThatContradict) {
  EXPECT_THAT(OpBuilder("Foo").Deprecated(1, "a").Deprecated(2, "b").Finalize().status().message(),
              HasSubstr("Deprecated called twice"));
  EXPECT_THAT(OpBuilder("Foo").Deprecated(0, "a").Finalize().status().message(), HasSubstr("above 0"));
  EXPECT_THAT(OpBuilder("Foo").Doc("a").Doc("b").Finalize().status().message(),
              HasSubstr("Doc called twice"));
  const ShapeFn fn = [](InferenceContext&) { return Status::Ok(); };
  EXPECT_THAT(OpBuilder("Foo").Shape(fn).Shape(fn).Finalize().status().message(),
              HasSubstr("Shape called twice"));
}

TEST(AttrText, ReadsAndRefuses) {
  EXPECT_EQ(*ParseAttrText("int", " 3 "), AttrValue(3));
  EXPECT_EQ(*ParseAttrText("list(type)", "[DT_INT32]"), AttrValue(Types{DataType::kInt32}));
  EXPECT_FALSE(ParseAttrText("int", "3 4").ok());
  EXPECT_FALSE(ParseAttrText("nonsense", "3").ok());
}

}  // namespace
}  // namespace millrace
