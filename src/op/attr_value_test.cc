// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/attr_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(AttrValue, NamesTheTypeOfWhatItHolds) {
  EXPECT_EQ(AttrValue("x").TypeName(), "string");
  EXPECT_EQ(AttrValue(3).TypeName(), "int");
  EXPECT_EQ(AttrValue(3.5).TypeName(), "float");
  EXPECT_EQ(AttrValue(true).TypeName(), "bool");
  EXPECT_EQ(AttrValue(DataType::kFloat).TypeName(), "type");
  EXPECT_EQ(AttrValue(PartialShape()).TypeName(), "shape");
  EXPECT_EQ(AttrValue(TensorShape({2})).TypeName(), "shape");
  EXPECT_EQ(AttrValue(Tensor::Scalar<float>(1)).TypeName(), "tensor");
  EXPECT_EQ(AttrValue(NameAttrList{"f", nullptr}).TypeName(), "func");
  EXPECT_EQ(AttrValue(std::vector<std::string>{"a"}).TypeName(), "list(string)");
  EXPECT_EQ(AttrValue(std::vector<int64_t>{1}).TypeName(), "list(int)");
  EXPECT_EQ(AttrValue(std::vector<float>{1}).TypeName(), "list(float)");
  EXPECT_EQ(AttrValue(std::vector<bool>{true}).TypeName(), "list(bool)");
  EXPECT_EQ(AttrValue(std::vector<DataType>{DataType::kInt32}).TypeName(), "list(type)");
  EXPECT_EQ(AttrValue(std::vector<PartialShape>{PartialShape()}).TypeName(), "list(shape)");
  EXPECT_EQ(AttrValue(std::vector<Tensor>{Tensor()}).TypeName(), "list(tensor)");
  EXPECT_EQ(AttrValue(std::vector<NameAttrList>{{"f", nullptr}}).TypeName(), "list(func)");
  EXPECT_EQ(AttrValue(std::vector<int64_t>{}).TypeName(), "any list");
}

TEST(AttrValue, OnlyListsAreLists) {
  EXPECT_FALSE(AttrValue().IsList());
  EXPECT_FALSE(AttrValue("x").IsList());
  EXPECT_FALSE(AttrValue(AttrPlaceholder{"T"}).IsList());
  EXPECT_TRUE(AttrValue(EmptyList{}).IsList());
  EXPECT_TRUE(AttrValue(std::vector<bool>{true}).IsList());
}

TEST(AttrValue, NamesTheTypeFoundInsteadOfTheExpectedOne) {
  EXPECT_EQ(CheckAttrType(AttrValue(3), "int"), Status::Ok());
  EXPECT_EQ(CheckAttrType(AttrValue(3), "string").message(),
            "AttrValue had value with type 'int' when 'string' expected");
  EXPECT_EQ(CheckAttrType(AttrValue(std::vector<int64_t>{1}), "int").message(),
            "AttrValue had value with type 'list(int)' when 'int' expected");
  Tensor moved = Tensor::Vector({1.0f, 2.0f});
  const Tensor kept = std::move(moved);
  EXPECT_EQ(CheckAttrType(AttrValue(kept), "tensor"), Status::Ok());
  EXPECT_EQ(CheckAttrType(AttrValue(moved), "tensor").message(),  // NOLINT(bugprone-use-after-move)
            "AttrValue had a tensor without value: float of shape [2]");
  EXPECT_EQ(CheckAttrType(AttrValue(std::vector<Tensor>{kept, moved}), "list(tensor)").code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(CheckAttrType(AttrValue(Tensor(DataType::kInt32, TensorShape({0, 3}))), "tensor"), Status::Ok());
  EXPECT_EQ(CheckAttrType(AttrValue(), "int").message(), "AttrValue missing value with expected type 'int'");
  EXPECT_EQ(CheckAttrType(AttrValue(EmptyList{}), "int").message(),
            "AttrValue missing value with expected type 'int'");
  EXPECT_EQ(CheckAttrType(AttrValue(AttrPlaceholder{"T"}), "type").message(),
            "AttrValue had value with unexpected type 'placeholder'");
  EXPECT_EQ(CheckAttrType(AttrValue(DataType::kInvalid), "type").message(),
            "AttrValue has invalid DataType enum value: 0");
  EXPECT_EQ(CheckAttrType(AttrValue(MakeRefType(DataType::kFloat)), "type").message(),
            "AttrValue must not have reference type value of float_ref");
}

TEST(AttrValue, AnEmptyListSuitsEveryListType) {
  for (const char* type : {"list(string)", "list(int)", "list(type)", "list(func)"}) {
    EXPECT_TRUE(AttrValue(EmptyList{}).HasType(type)) << type;
    EXPECT_TRUE(AttrValue().HasType(type)) << type;
  }
}

TEST(AttrValue, PrintsAsTensorFlowDoes) {
  EXPECT_EQ(AttrValue("a\"b\n\x01").ToString(), "\"a\\\"b\\n\\001\"");
  EXPECT_EQ(AttrValue(-3).ToString(), "-3");
  EXPECT_EQ(AttrValue(0.1).ToString(), "0.1");
  EXPECT_EQ(AttrValue(1e-5).ToString(), "1e-05");
  EXPECT_EQ(AttrValue(16777217.0).ToString(), "16777216");
  EXPECT_EQ(AttrValue(std::numeric_limits<float>::infinity()).ToString(), "inf");
  EXPECT_EQ(AttrValue(true).ToString(), "true");
  EXPECT_EQ(AttrValue(DataType::kFloat).ToString(), "DT_FLOAT");
  EXPECT_EQ(AttrValue(PartialShape({2, -1})).ToString(), "[2,?]");
  EXPECT_EQ(AttrValue(PartialShape()).ToString(), "<unknown>");
  EXPECT_EQ(AttrValue(AttrPlaceholder{"T"}).ToString(), "$T");
  EXPECT_EQ(AttrValue(std::vector<int64_t>{1, 2}).ToString(), "[1, 2]");
  EXPECT_EQ(AttrValue(std::vector<std::string>{"a", "b"}).ToString(), "[\"a\", \"b\"]");
  EXPECT_EQ(AttrValue(EmptyList{}).ToString(), "[]");
  const auto attrs = std::make_shared<AttrMap>(AttrMap{{"T", DataType::kInt32}, {"n", 2}});
  EXPECT_EQ(AttrValue(NameAttrList{"f", attrs}).ToString(), "f[T=DT_INT32, n=2]");
}

TEST(AttrValue, PrintsLongValuesShortened) {
  std::vector<int64_t> list(12);
  for (int i = 0; i < 12; ++i) list[i] = i;
  EXPECT_EQ(AttrValue(list).ToString(), "[0, 1, 2, 3, 4, ..., 7, 8, 9, 10, 11]");
  EXPECT_LT(AttrValue(std::string(10000, 'x')).ToString().size(), 100u);
}

TEST(AttrValue, EqualityIsThatOfTheSerialisedForm) {
  EXPECT_EQ(AttrValue(std::nanf("")), AttrValue(std::nanf("")));
  EXPECT_FALSE(AttrValue(0.0) == AttrValue(-0.0));
  EXPECT_FALSE(AttrValue(1) == AttrValue(1.0));
  EXPECT_FALSE(AttrValue(1) == AttrValue(std::vector<int64_t>{1}));
  EXPECT_EQ(AttrValue(std::vector<int64_t>{}), AttrValue(std::vector<float>{}));
  EXPECT_EQ(AttrValue(Tensor::Vector<float>({1, 2})), AttrValue(Tensor::Vector<float>({1, 2})));
  EXPECT_FALSE(AttrValue(Tensor::Vector<float>({1, 2})) == AttrValue(Tensor::Vector<float>({1, 3})));
  EXPECT_FALSE(AttrValue(Tensor::Scalar<float>(1)) == AttrValue(Tensor::Vector<float>({1})));
  EXPECT_EQ(AttrValue(Tensor::Scalar("ab")), AttrValue(Tensor::Scalar("ab")));
  EXPECT_FALSE(AttrValue(Tensor::Scalar("ab")) == AttrValue(Tensor::Scalar("ac")));
  EXPECT_EQ(AttrValue(NameAttrList{"f", nullptr}), AttrValue(NameAttrList{"f", std::make_shared<AttrMap>()}));
  EXPECT_FALSE(AttrValue(NameAttrList{"f", nullptr}) == AttrValue(NameAttrList{"g", nullptr}));
}

TEST(AttrMap, KeepsEntriesSortedAndReplaces) {
  AttrMap attrs{{"b", 1}, {"a", 2}, {"b", 3}};
  ASSERT_EQ(attrs.size(), 2u);
  EXPECT_EQ(attrs.begin()->first, "a");
  EXPECT_EQ(*attrs.Find("b"), AttrValue(3));
  attrs.Erase("a");
  attrs.Erase("absent");
  EXPECT_EQ(attrs.Find("a"), nullptr);
  EXPECT_EQ(attrs, AttrMap::FromEntries({{"b", 3}}));
}

TEST(AttrMap, FromEntriesSorts) {
  const AttrMap attrs = AttrMap::FromEntries({{"c", 1}, {"a", 2}, {"b", 3}});
  EXPECT_EQ(attrs, (AttrMap{{"a", 2}, {"b", 3}, {"c", 1}}));
  EXPECT_EQ(*attrs.Find("c"), AttrValue(1));
}

TEST(AttrMap, GetReadsEachType) {
  const AttrMap attrs{{"i", 7},
                      {"s", "x"},
                      {"shape", TensorShape({2, 3})},
                      {"t", Tensor::Scalar<float>(4)},
                      {"list", std::vector<int64_t>{1, 2}},
                      {"none", EmptyList{}}};
  EXPECT_EQ(*attrs.Get<int64_t>("i"), 7);
  EXPECT_EQ(*attrs.Get<int32_t>("i"), 7);
  EXPECT_EQ(*attrs.Get<std::string>("s"), "x");
  EXPECT_EQ(*attrs.Get<TensorShape>("shape"), TensorShape({2, 3}));
  EXPECT_EQ(attrs.Get<Tensor>("t")->scalar<float>(), 4);
  EXPECT_EQ(*attrs.Get<std::vector<int32_t>>("list"), (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(attrs.Get<std::vector<DataType>>("none")->empty());
}

TEST(AttrMap, GetDescribesTheError) {
  const AttrMap attrs{{"i", int64_t{1} << 40},
                      {"big", std::vector<int64_t>{int64_t{1} << 40}},
                      {"partial", PartialShape({2, -1})},
                      {"list", std::vector<float>{1}}};
  EXPECT_EQ(attrs.Get<bool>("x").status().ToString(), "Not found: No attr named 'x' in NodeDef");
  EXPECT_EQ(attrs.Get<bool>("i").status().message(),
            "AttrValue had value with type 'int' when 'bool' expected for attr 'i'");
  EXPECT_THAT(attrs.Get<int32_t>("i").status().message(), HasSubstr("out of range for an int32"));
  EXPECT_THAT(attrs.Get<std::vector<int32_t>>("big").status().message(),
              HasSubstr("out of range for an int32"));
  EXPECT_FALSE(attrs.Get<TensorShape>("partial").ok());
  EXPECT_THAT(attrs.Get<std::vector<int64_t>>("list").status().message(),
              HasSubstr("type 'list(float)' when 'list(int)' expected"));
}

}  // namespace
}  // namespace millrace
