// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "op/op_builder.h"
#include "op/op_registry.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

OpDef Def(const OpBuilder& builder) {
  const auto registration = builder.Finalize();
  EXPECT_TRUE(registration.ok()) << registration.status();
  return registration->def;
}

OpDef MatMul() {
  return Def(OpBuilder("MatMul")
                 .Input("a: T")
                 .Input("b: T")
                 .Output("product: T")
                 .Attr("transpose_a: bool = false")
                 .Attr("transpose_b: bool = false")
                 .Attr("T: {float, double}"));
}

OpDef Mixed() {
  return Def(OpBuilder("Mixed")
                 .Input("ref: Ref(T)")
                 .Input("same: N * T")
                 .Input("many: L")
                 .Input("fixed: bool")
                 .Output("out: N * int64")
                 .Output("refs: Ref(N * T)")
                 .Attr("T: type")
                 .Attr("N: int >= 0")
                 .Attr("L: list(type)"));
}

constexpr char kMatMulSummary[] =
    "Op<name=MatMul; signature=a:T, b:T -> product:T; attr=transpose_a:bool,default=false; "
    "attr=transpose_b:bool,default=false; attr=T:type,allowed=[DT_FLOAT, DT_DOUBLE]>";

TEST(OpDef, SummaryIsInTensorFlowsForm) {
  EXPECT_EQ(SummarizeOp(MatMul()), kMatMulSummary);
  EXPECT_EQ(
      SummarizeOp(Mixed()),
      "Op<name=Mixed; signature=ref:Ref(T), same:N*T, many:L, fixed:bool -> out:N*int64, refs:Ref(N*T); "
      "attr=T:type; attr=N:int,min=0; attr=L:list(type)>");
  EXPECT_EQ(SummarizeOp(Def(OpBuilder("NoOp").Stateful())),
            "Op<name=NoOp; signature= -> ; is_stateful=true>");
}

TEST(OpDef, WorksOutTheTypesOfArguments) {
  std::vector<DataType> inputs;
  std::vector<DataType> outputs;
  const AttrMap attrs{
      {"T", DataType::kFloat}, {"N", 2}, {"L", std::vector<DataType>{DataType::kInt32, DataType::kString}}};
  ASSERT_EQ(InferArgTypes(Mixed(), attrs, &inputs, &outputs), Status::Ok());
  const DataType ref = MakeRefType(DataType::kFloat);
  EXPECT_THAT(inputs, ElementsAre(ref, DataType::kFloat, DataType::kFloat, DataType::kInt32,
                                  DataType::kString, DataType::kBool));
  EXPECT_THAT(outputs, ElementsAre(DataType::kInt64, DataType::kInt64, ref, ref));
}

TEST(OpDef, WorksOutTheRangesOfArguments) {
  std::vector<ArgRange> ranges;
  const AttrMap attrs{{"T", DataType::kFloat}, {"N", 0}, {"L", std::vector<DataType>(3, DataType::kInt32)}};
  const OpDef op = Mixed();
  ASSERT_EQ(InferArgRanges(op.inputs, attrs, &ranges), Status::Ok());
  ASSERT_EQ(ranges.size(), 4u);
  EXPECT_EQ(ranges[1].begin, 1);
  EXPECT_EQ(ranges[1].end, 1);
  EXPECT_EQ(ranges[2].end, 4);
  EXPECT_EQ(ranges[3].name, "fixed");
  EXPECT_EQ(ranges[3].begin, 4);
}

TEST(OpDef, TypesThatCantBeWorkedOutNameTheAttr) {
  std::vector<DataType> inputs;
  std::vector<DataType> outputs;
  const OpDef op = Mixed();
  const std::vector<DataType> list = {DataType::kInt32};
  EXPECT_EQ(InferArgTypes(op, AttrMap{{"N", 2}, {"L", list}}, &inputs, &outputs).message(),
            "No attr named 'T' in NodeDef");
  EXPECT_THAT(InferArgTypes(op, AttrMap{{"T", 1}, {"N", 2}, {"L", list}}, &inputs, &outputs).message(),
              HasSubstr("'type' expected for attr 'T'"));
  for (const int64_t n : {int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_THAT(InferArgTypes(op, AttrMap{{"T", DataType::kFloat}, {"N", n}, {"L", list}}, &inputs, &outputs)
                    .message(),
                HasSubstr("Value for attr 'N'"));
  }
  const AttrMap ref_type{{"T", MakeRefType(DataType::kFloat)}, {"N", 1}, {"L", list}};
  EXPECT_THAT(InferArgTypes(op, ref_type, &inputs, &outputs).message(),
              HasSubstr("Requested reference to a reference type: float_ref"));
}

TEST(OpDef, DefaultsAreFilledIn) {
  AttrMap attrs{{"T", DataType::kFloat}, {"transpose_b", true}};
  ASSERT_EQ(AddDefaultAttrs(MatMul(), &attrs), Status::Ok());
  EXPECT_EQ(*attrs.Find("transpose_a"), AttrValue(false));
  EXPECT_EQ(*attrs.Find("transpose_b"), AttrValue(true));
}

TEST(OpDef, BadAttrsAreRefusedInTensorFlowsWords) {
  const OpDef op = MatMul();
  const AttrMap good{{"T", DataType::kFloat}, {"transpose_a", false}, {"transpose_b", false}};
  EXPECT_EQ(ValidateAttrs(op, good), Status::Ok());

  AttrMap attrs = good;
  attrs.Set("_private", 1);
  EXPECT_EQ(ValidateAttrs(op, attrs), Status::Ok());
  attrs.Set("x", 1);
  EXPECT_EQ(ValidateAttrs(op, attrs).message(), StrCat("NodeDef mentions attr 'x' not in ", kMatMulSummary));

  attrs = good;
  attrs.Erase("T");
  EXPECT_EQ(ValidateAttrs(op, attrs).message(), StrCat("NodeDef missing attr 'T' from ", kMatMulSummary));
  attrs.Erase("transpose_a");
  EXPECT_EQ(ValidateAttrs(op, attrs).message(),
            StrCat("NodeDef missing attrs 'transpose_a', 'T' from ", kMatMulSummary));

  attrs = good;
  attrs.Set("T", DataType::kString);
  EXPECT_EQ(ValidateAttrs(op, attrs).message(),
            StrCat("Value for attr 'T' of string is not in the list of allowed values: float, double; ",
                   kMatMulSummary));
  attrs = good;
  attrs.Set("transpose_a", "yes");
  EXPECT_THAT(
      ValidateAttrs(op, attrs).message(),
      HasSubstr("AttrValue had value with type 'string' when 'bool' expected\n\t for attr 'transpose_a'"));
}

TEST(OpDef, ListsAreCheckedEntryByEntry) {
  const OpDef op = Def(OpBuilder("Foo").Attr("t: list({float, int32}) >= 2").Attr("s: list({'a', 'b'})"));
  const auto validate = [&op](AttrValue t, AttrValue s) {
    return ValidateAttrs(op, AttrMap{{"t", std::move(t)}, {"s", std::move(s)}}).message();
  };
  using Types = std::vector<DataType>;
  using Strings = std::vector<std::string>;
  EXPECT_EQ(validate(Types{DataType::kFloat, DataType::kInt32}, Strings{"a", "a"}), "");
  EXPECT_EQ(validate(Types{DataType::kFloat, DataType::kInt32}, EmptyList{}), "");
  EXPECT_THAT(validate(Types{DataType::kFloat}, Strings{"a"}),
              HasSubstr("Length for attr 't' of 1 must be at least minimum 2"));
  EXPECT_THAT(validate(EmptyList{}, Strings{"a"}),
              HasSubstr("Length for attr 't' of 0 must be at least minimum 2"));
  EXPECT_THAT(validate(Types{DataType::kFloat, DataType::kBool}, Strings{"a"}),
              HasSubstr("Value for attr 't' of bool is not in the list"));
  EXPECT_THAT(validate(Types{DataType::kFloat, DataType::kFloat}, Strings{"c"}),
              HasSubstr("Value for attr 's' of \"c\" is not in the list of allowed values: \"a\", \"b\""));
}

TEST(OpDef, SignaturesOfFunctionsMayHaveAnyName) {
  OpDef op = MatMul();
  op.name = "my_function";
  EXPECT_FALSE(ValidateOpDef(op).ok());
  EXPECT_EQ(ValidateSignature(op), Status::Ok());
}

TEST(OpDef, ArgumentsWithoutTypeOrWithTwoAreRefused) {
  OpDef op = MatMul();
  op.inputs[0].type_attr.clear();
  EXPECT_THAT(ValidateOpDef(op).message(), HasSubstr("Argument 'a' has no type; in OpDef: Op<name=MatMul"));
  op.inputs[0].type = static_cast<DataType>(77);
  EXPECT_THAT(ValidateOpDef(op).message(), HasSubstr("Illegal type"));
  op.inputs[0].type_attr = "T";
  EXPECT_THAT(ValidateOpDef(op).message(), HasSubstr("Argument 'a' has more than one type"));
}

TEST(OpRegistry, LooksUpWhatWasRegistered) {
  OpRegistry registry;
  ASSERT_EQ(registry.Register(OpBuilder("Foo")), Status::Ok());
  ASSERT_TRUE(registry.LookUp("Foo").ok());
  EXPECT_EQ((*registry.LookUp("Foo"))->def.name, "Foo");
  const Status missing = registry.LookUp("Bar").status();
  EXPECT_TRUE(errors::IsNotFound(missing));
  EXPECT_THAT(missing.message(), StartsWith("Op type not registered 'Bar' in binary running on "));
  EXPECT_THAT(
      missing.message(),
      HasSubstr(". Make sure the Op and Kernel are registered in the binary running in this process. Note "
                "that if you are loading a saved graph which used ops from tf.contrib, accessing (e.g.) "
                "`tf.contrib.resampler` should be done before importing the graph, as contrib ops are "
                "lazily registered when the module is first accessed."));
}

TEST(OpRegistry, RefusesAnotherOpUnderTheSameName) {
  OpRegistry registry;
  ASSERT_EQ(registry.Register(OpBuilder("Foo")), Status::Ok());
  EXPECT_EQ(registry.Register(OpBuilder("Foo")), Status::Ok());
  EXPECT_TRUE(errors::IsAlreadyExists(registry.Register(OpBuilder("Foo").Stateful())));
  EXPECT_FALSE((*registry.LookUp("Foo"))->def.is_stateful);
  EXPECT_TRUE(errors::IsInvalidArgument(registry.Register(OpBuilder("bad name"))));
}

TEST(OpRegistry, ManyThreadsMayRegisterAndLookUp) {
  OpRegistry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&registry] {
      for (int i = 0; i < 200; ++i) {
        const std::string name = StrCat("Op", i);
        EXPECT_EQ(registry.Register(OpBuilder(name)), Status::Ok());
        EXPECT_EQ((*registry.LookUp(name))->def.name, name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.All().size(), 200u);
}

}  // namespace
}  // namespace millrace
