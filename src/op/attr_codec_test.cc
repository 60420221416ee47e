// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/attr_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "op/op_def_codec.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

StatusOr<AttrValue> FromText(const std::string& text) {
  tensorflow::AttrValue proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return AttrValueFromProto(proto, "x");
}

std::string ErrorOf(const std::string& text) { return FromText(text).status().ToString(); }

AttrValue RoundTrip(const AttrValue& value) {
  tensorflow::AttrValue proto;
  proto.set_i(99);  // is overwritten
  AttrValueToProto(value, &proto);
  const auto decoded = AttrValueFromProto(proto, "x");
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return *decoded;
}

TEST(AttrCodec, EachKindComesBack) {
  const auto inner = std::make_shared<AttrMap>(AttrMap{{"T", DataType::kInt32}});
  const NameAttrList func{"f", inner};
  const std::vector<AttrValue> values = {
      AttrValue(),
      "s\0t\xff",
      int64_t{-5},
      2.5,
      true,
      DataType::kHalf,
      PartialShape({2, -1}),
      PartialShape(),
      PartialShape(std::vector<int64_t>{}),
      Tensor::Vector<float>({1, 2, 2}),
      func,
      AttrPlaceholder{"T"},
      EmptyList{},
      std::vector<std::string>{"", "b"},
      std::vector<int64_t>{INT64_MIN, INT64_MAX},
      std::vector<float>{0, -1},
      std::vector<bool>{true, false},
      std::vector<DataType>{DataType::kFloat, DataType::kString},
      std::vector<PartialShape>{PartialShape(), PartialShape({3})},
      std::vector<Tensor>{Tensor::Scalar<float>(1), Tensor::Scalar("x")},
      std::vector<NameAttrList>{func, {"g", nullptr}},
  };
  for (const AttrValue& value : values) EXPECT_EQ(RoundTrip(value), value) << value.ToString();
}

TEST(AttrCodec, WireFormIsThatOfTheMessage) {
  tensorflow::AttrValue proto;
  AttrValueToProto(std::vector<int64_t>{1, 2}, &proto);
  EXPECT_EQ(proto.ShortDebugString(), "list { i: 1 i: 2 }");
  AttrValueToProto(EmptyList{}, &proto);
  EXPECT_EQ(proto.ShortDebugString(), "list { }");
  AttrValueToProto(AttrPlaceholder{"T"}, &proto);
  EXPECT_EQ(proto.ShortDebugString(), "placeholder: \"T\"");
  AttrValueToProto(AttrValue(), &proto);
  EXPECT_EQ(proto.value_case(), tensorflow::AttrValue::VALUE_NOT_SET);
}

TEST(AttrCodec, MalformedValuesNameTheAttr) {
  EXPECT_EQ(ErrorOf("list { i: 1 s: 'x' }"),
            "Invalid argument: Attr 'x' is a list of several kinds of values at once");
  EXPECT_THAT(ErrorOf("shape { dim { size: -2 } }"),
              AllOf(HasSubstr("Invalid argument"), HasSubstr("attr 'x'")));
  EXPECT_THAT(ErrorOf("tensor { dtype: DT_FLOAT tensor_shape { dim { size: -1 } } }"), HasSubstr("attr 'x'"));
  EXPECT_THAT(ErrorOf("list { shape { dim { size: -2 } } }"), HasSubstr("attr 'x'"));
  EXPECT_THAT(ErrorOf("list { tensor { dtype: DT_COMPLEX64 scomplex_val: 1 } }"), HasSubstr("attr 'x'"));
  EXPECT_EQ(ErrorOf("type: 99"), "Invalid argument: Attr 'x': 99 is not the number of a data type");
  EXPECT_EQ(ErrorOf("list { type: 1 type: -3 }"),
            "Invalid argument: Attr 'x': -3 is not the number of a data type");
}

TEST(AttrCodec, NestingIsBounded) {
  for (const int depth : {kMaxAttrNesting - 1, kMaxAttrNesting + 1, 500}) {
    tensorflow::AttrValue proto;
    tensorflow::AttrValue* innermost = &proto;
    for (int i = 0; i < depth; ++i) {
      innermost = i % 2 == 0 ? &(*innermost->mutable_func()->mutable_attr())["a"]
                             : &(*innermost->mutable_list()->add_func()->mutable_attr())["a"];
    }
    innermost->set_i(1);
    const auto decoded = AttrValueFromProto(proto, "x");
    EXPECT_EQ(decoded.ok(), depth < kMaxAttrNesting);
    if (!decoded.ok()) {
      EXPECT_THAT(decoded.status().message(), HasSubstr("Attr 'x': functions are nested deeper"));
    }
  }
}

TEST(AttrCodec, TensorsShareABudget) {
  google::protobuf::Map<std::string, tensorflow::AttrValue> protos;
  for (const char* name : {"a", "b", "c"}) {
    auto* tensor = protos[name].mutable_tensor();
    tensor->set_dtype(tensorflow::DT_FLOAT);
    tensor->mutable_tensor_shape()->add_dim()->set_size(1000);
    tensor->add_float_val(1);
  }
  int64_t budget = 13000;
  EXPECT_TRUE(AttrMapFromProto(protos, &budget).ok());
  EXPECT_EQ(budget, 1000);
  budget = 11000;
  EXPECT_TRUE(errors::IsResourceExhausted(AttrMapFromProto(protos, &budget).status()));
}

TEST(AttrCodec, MapsKeepEveryEntry) {
  const AttrMap attrs{{"b", 1}, {"a", "x"}, {"_c", EmptyList{}}};
  google::protobuf::Map<std::string, tensorflow::AttrValue> protos;
  protos["stale"].set_i(1);
  AttrMapToProto(attrs, &protos);
  EXPECT_EQ(protos.size(), 3u);
  EXPECT_EQ(*AttrMapFromProto(protos), attrs);
}

TEST(OpDefCodec, ARegistrationComesBack) {
  const auto registration = OpBuilder("Foo")
                                .Input("a: Ref(T)")
                                .Input("b: N * int32")
                                .Input("c: Ts")
                                .Output("d: T")
                                .Attr("T: {float, int32} = DT_FLOAT")
                                .Attr("N: int >= 2 = 3")
                                .Attr("Ts: list(type) >= 1")
                                .Attr("mode: {'x', 'y'} = 'x'")
                                .Commutative()
                                .Aggregate()
                                .Stateful()
                                .AllowsUninitializedInput()
                                .Deprecated(7, "gone")
                                .Doc("Short.\nLong.")
                                .Finalize();
  ASSERT_TRUE(registration.ok()) << registration.status();
  tensorflow::OpDef proto;
  OpDefToProto(registration->def, &proto);
  EXPECT_EQ(proto.input_arg(0).type_attr(), "T");
  EXPECT_TRUE(proto.input_arg(0).is_ref());
  EXPECT_EQ(proto.input_arg(1).number_attr(), "N");
  EXPECT_EQ(proto.input_arg(1).type(), tensorflow::DT_INT32);
  EXPECT_EQ(proto.input_arg(2).type_list_attr(), "Ts");
  EXPECT_EQ(proto.attr(0).default_value().type(), tensorflow::DT_FLOAT);
  EXPECT_EQ(proto.attr(1).minimum(), 2);
  EXPECT_EQ(proto.deprecation().version(), 7);
  const auto decoded = OpDefFromProto(proto);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, registration->def);
}

TEST(OpDefCodec, ABadDefaultNamesAttrAndOp) {
  tensorflow::OpDef proto;
  proto.set_name("Foo");
  auto* attr = proto.add_attr();
  attr->set_name("x");
  attr->set_type("shape");
  attr->mutable_default_value()->mutable_shape()->add_dim()->set_size(-7);
  EXPECT_THAT(OpDefFromProto(proto).status().message(),
              AllOf(HasSubstr("attr 'x'"), HasSubstr("OpDef 'Foo'")));
}

TEST(OpDefCodec, ExportListsOpsByName) {
  OpRegistry registry;
  ASSERT_TRUE(registry.Register(OpBuilder("Foo")).ok());
  ASSERT_TRUE(registry.Register(OpBuilder("Bar")).ok());
  tensorflow::OpList list;
  ExportOps(registry, &list);
  ASSERT_EQ(list.op_size(), 2);
  EXPECT_EQ(list.op(0).name(), "Bar");
  EXPECT_EQ(list.op(1).name(), "Foo");
}

}  // namespace
}  // namespace millrace
