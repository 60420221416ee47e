// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that parse messages, whose bytes rows can't express. Parsing is tested in src/io/example.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"
#include "tensorflow/core/example/example.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace millrace {
namespace {

using Types = std::vector<DataType>;
using Shapes = std::vector<PartialShape>;
using Strings = std::vector<std::string>;

template <typename Message = tensorflow::Example>
std::string Bytes(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message.SerializeAsString();
}

const char* const kExample =
    "features { feature { key: 'age' value { int64_list { value: [3, 4] } } }"
    " feature { key: 'name' value { bytes_list { value: 'x' } } }"
    " feature { key: 'w' value { float_list { value: [0.5, 1.5] } } } }";

// Keys "age" and "name" sparse, "w" dense.
void Configure(KernelRunner* runner, const PartialShape& shape = {2}, int64_t sparse = 2) {
  runner->Attr("Nsparse", sparse).Attr("Ndense", int64_t{1});
  runner->Attr("sparse_types", Types{DataType::kInt64, DataType::kString});
  runner->Attr("Tdense", Types{DataType::kFloat}).Attr("dense_shapes", Shapes{shape});
}

StatusOr<std::vector<Tensor>> RunParseExample(const Tensor& serialized, const Tensor& names,
                                              const Tensor& value, const PartialShape& shape = {2}) {
  KernelRunner runner("ParseExample");
  Configure(&runner, shape);
  runner.Input(serialized).Input(names);
  for (const char* key : {"age", "name", "w"}) runner.Input(Tensor::Scalar(key));
  return runner.Input(value).Run();
}

TEST(ParseExampleTest, OutputsGoByKind) {
  ThreadPool pool("test", 4);
  KernelRunner runner("ParseExample");
  Configure(&runner);
  runner.Input(Tensor::Vector<std::string>({"", Bytes(kExample)})).Input(Tensor::Vector<std::string>({}));
  for (const char* key : {"age", "name", "w"}) runner.Input(Tensor::Scalar(key));
  runner.Input(Tensor::Vector<float>({8, 9})).Pool(&pool);
  const auto out = runner.Run();
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->size(), 7u);
  ExpectTensorEqual(Tensor::From<int64_t>({1, 0, 1, 1}, {2, 2}), (*out)[0]);
  ExpectTensorEqual(Tensor::From<int64_t>({1, 0}, {1, 2}), (*out)[1]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({3, 4}), (*out)[2]);
  ExpectTensorEqual(Tensor::Vector<std::string>({"x"}), (*out)[3]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({2, 2}), (*out)[4]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({2, 1}), (*out)[5]);
  ExpectTensorEqual(Tensor::From<float>({8, 9, 0.5, 1.5}, {2, 2}), (*out)[6]);
}

TEST(ParseExampleTest, InputsAreChecked) {
  const Tensor one = Tensor::Vector<std::string>({""}), none = Tensor::Vector<std::string>({});
  const Tensor value = Tensor::Vector<float>({8, 9});
  const auto message = [&](const Tensor& serialized, const Tensor& names, const Tensor& def,
                           const PartialShape& shape) {
    const auto result = RunParseExample(serialized, names, def, shape);
    EXPECT_EQ(result.status().code(), ErrorCode::kInvalidArgument);
    return result.status().message();
  };
  EXPECT_EQ(message(Tensor::Scalar(""), none, value, {2}),
            "Expected serialized to be a vector, got shape: []");
  EXPECT_EQ(message(one, Tensor::Scalar(""), value, {2}), "Expected names to be a vector, got shape: []");
  EXPECT_EQ(message(one, Tensor::Vector<std::string>({"a", "b"}), value, {2}),
            "Expected len(names) == len(serialized), but got: 2 vs. 1");
  EXPECT_EQ(message(one, none, value, {3}),
            "def_value[0].shape() == [2] is not compatible with dense_shapes_[0] == [3]");
  EXPECT_EQ(
      message(one, none, value, {-1}),
      "dense_shape[0] is a variable length shape: [?], therefore def_value[0] must contain a single element "
      "(the padding element).  But its shape is: [2]");
  EXPECT_EQ(message(one, none, value, PartialShape()),
            "dense_shapes[0] has unknown rank or unknown inner dimensions: <unknown>");
  EXPECT_EQ(message(one, none, value, {2, -1}),
            "dense_shapes[0] has unknown rank or unknown inner dimensions: [2,?]");
}

TEST(ParseExampleTest, KeysMustBeScalarsAndDifferent) {
  for (const bool twice : {false, true}) {
    KernelRunner runner("ParseExample");
    Configure(&runner);
    runner.Input(Tensor::Vector<std::string>({})).Input(Tensor::Vector<std::string>({}));
    runner.Input(Tensor::Scalar("age"))
        .Input(twice ? Tensor::Scalar("age") : Tensor::Vector<std::string>({}));
    const auto out = runner.Input(Tensor::Scalar("w")).Input(Tensor::Vector<float>({8, 9})).Run();
    EXPECT_EQ(out.status().code(), ErrorCode::kInvalidArgument) << out.status();
  }
}

// "age" ragged with int32 splits, "name" sparse, "w" dense.
StatusOr<std::vector<Tensor>> RunParseExampleV2(const Tensor& serialized, const Tensor& sparse_keys) {
  KernelRunner runner("ParseExampleV2");
  runner.Attr("num_sparse", int64_t{1}).Attr("sparse_types", Types{DataType::kString});
  runner.Attr("Tdense", Types{DataType::kFloat}).Attr("dense_shapes", Shapes{{2}});
  runner.Attr("ragged_value_types", Types{DataType::kInt64});
  runner.Attr("ragged_split_types", Types{DataType::kInt32});
  runner.Input(serialized).Input(Tensor::Vector<std::string>({})).Input(sparse_keys);
  runner.Input(Tensor::Vector<std::string>({"w"})).Input(Tensor::Vector<std::string>({"age"}));
  return runner.Input(Tensor::Vector<float>({8, 9})).Run();
}

TEST(ParseExampleTest, SecondVersionHasKeysInVectorsAndRaggedFeatures) {
  const Tensor keys = Tensor::Vector<std::string>({"name"});
  const auto out =
      RunParseExampleV2(Tensor::Vector<std::string>({Bytes(kExample), "", Bytes(kExample)}), keys);
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->size(), 6u);
  ExpectTensorEqual(Tensor::From<int64_t>({0, 0, 2, 0}, {2, 2}), (*out)[0]);
  ExpectTensorEqual(Tensor::Vector<std::string>({"x", "x"}), (*out)[1]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({3, 1}), (*out)[2]);
  ExpectTensorEqual(Tensor::From<float>({0.5, 1.5, 8, 9, 0.5, 1.5}, {3, 2}), (*out)[3]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({3, 4, 3, 4}), (*out)[4]);
  ExpectTensorEqual(Tensor::Vector<int32_t>({0, 2, 2, 4}), (*out)[5]);
  const auto one = RunParseExampleV2(Tensor::Scalar<std::string>(Bytes(kExample)), keys);
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectTensorEqual(Tensor::From<int64_t>({0}, {1, 1}), (*one)[0]);
  ExpectTensorEqual(Tensor::Vector<float>({0.5, 1.5}), (*one)[3]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({3, 4}), (*one)[4]);
  EXPECT_EQ((*one)[5].num_elements(), 0);
}

TEST(ParseExampleTest, SecondVersionChecksItsKeys) {
  const Tensor serialized = Tensor::Vector<std::string>({""});
  EXPECT_EQ(RunParseExampleV2(serialized, Tensor::Scalar("name")).status().message(),
            "Expected sparse_keys to be a vector, got shape: []");
  EXPECT_EQ(RunParseExampleV2(serialized, Tensor::Vector<std::string>({})).status().message(),
            "Expected len(sparse_keys) == 1, but got: 0");
  EXPECT_EQ(
      RunParseExampleV2(Tensor(DataType::kString, TensorShape({1, 1})), Tensor::Vector<std::string>({"name"}))
          .status()
          .message(),
      "Expected serialized to be a scalar or vector, got shape: [1,1]");
}

TEST(ParseExampleTest, OneExampleHasItsKeysAsAttributes) {
  const auto run = [](const Strings& keys) {
    KernelRunner runner("ParseSingleExample");
    runner.Attr("num_sparse", int64_t{1}).Attr("sparse_keys", Strings{"age"}).Attr("dense_keys", keys);
    runner.Attr("sparse_types", Types{DataType::kInt64}).Attr("Tdense", Types{DataType::kFloat});
    runner.Attr("dense_shapes", Shapes{{2}});
    return runner.Input(Tensor::Scalar<std::string>(Bytes(kExample))).Input(Tensor::Vector<float>({})).Run();
  };
  const auto out = run({"w"});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::From<int64_t>({0, 1}, {2, 1}), (*out)[0]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({3, 4}), (*out)[1]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({2}), (*out)[2]);
  ExpectTensorEqual(Tensor::Vector<float>({0.5, 1.5}), (*out)[3]);
  EXPECT_EQ(run({}).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run({"v"}).status().message(),
            "Feature: v (data type: float) is required but could not be found.");
}

const char* const kSequence =
    "context { feature { key: 'c' value { float_list { value: [1] } } } }"
    " feature_lists {"
    " feature_list { key: 's' value { feature { int64_list { value: [1, 2] } } feature { } } }"
    " feature_list { key: 'd' value { feature { bytes_list { value: 'x' } } feature { bytes_list { value: "
    "'y' } } } } }";

void ConfigureSequence(KernelRunner* runner) {
  runner->Attr("Ncontext_sparse", int64_t{0}).Attr("Ncontext_dense", int64_t{1});
  runner->Attr("Nfeature_list_sparse", int64_t{1}).Attr("Nfeature_list_dense", int64_t{2});
  runner->Attr("context_sparse_types", Types{}).Attr("Tcontext_dense", Types{DataType::kFloat});
  runner->Attr("feature_list_sparse_types", Types{DataType::kInt64});
  runner->Attr("feature_list_dense_types", Types{DataType::kString, DataType::kFloat});
  runner->Attr("context_dense_shapes", Shapes{{1}})
      .Attr("feature_list_dense_shapes", Shapes{PartialShape(TensorShape()), {3}});
}

TEST(ParseExampleTest, OneSequence) {
  KernelRunner runner("ParseSingleSequenceExample");
  ConfigureSequence(&runner);
  runner.Input(Tensor::Scalar<std::string>(Bytes<tensorflow::SequenceExample>(kSequence)));
  runner.Input(Tensor::Vector<std::string>({"e"}));
  for (const char* key : {"c", "s", "d", "e"}) runner.Input(Tensor::Scalar(key));
  const auto out = runner.Input(Tensor::Vector<float>({7})).Input(Tensor::Scalar("name")).Run();
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->size(), 6u);
  ExpectTensorEqual(Tensor::Vector<float>({1}), (*out)[0]);
  ExpectTensorEqual(Tensor::From<int64_t>({0, 0, 0, 1}, {2, 2}), (*out)[1]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({1, 2}), (*out)[2]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({2, 2}), (*out)[3]);
  ExpectTensorEqual(Tensor::Vector<std::string>({"x", "y"}), (*out)[4]);
  ExpectTensorEqual(Tensor(DataType::kFloat, {0, 3}), (*out)[5]);
}

TEST(ParseExampleTest, ABatchOfSequencesHasLengths) {
  KernelRunner runner("ParseSequenceExample");
  ConfigureSequence(&runner);
  runner.Attr("feature_list_dense_missing_assumed_empty", Strings{"d", "e"});
  runner.Attr("context_sparse_keys", Strings{}).Attr("context_dense_keys", Strings{"c"});
  runner.Attr("feature_list_sparse_keys", Strings{"s"}).Attr("feature_list_dense_keys", Strings{"d", "e"});
  runner.Input(Tensor::Vector<std::string>({"", Bytes<tensorflow::SequenceExample>(kSequence)}));
  const auto out = runner.Input(Tensor::Vector<std::string>({})).Input(Tensor::Vector<float>({7})).Run();
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ(out->size(), 8u);
  ExpectTensorEqual(Tensor::From<float>({7, 1}, {2, 1}), (*out)[0]);
  ExpectTensorEqual(Tensor::From<int64_t>({1, 0, 0, 1, 0, 1}, {2, 3}), (*out)[1]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({2, 2, 2}), (*out)[3]);
  ExpectTensorEqual(Tensor::From<std::string>({"", "", "x", "y"}, {2, 2}), (*out)[4]);
  ExpectTensorEqual(Tensor(DataType::kFloat, {2, 0, 3}), (*out)[5]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({0, 2}), (*out)[6]);
  ExpectTensorEqual(Tensor::Vector<int64_t>({0, 0}), (*out)[7]);
}

TEST(ParseExampleTest, JsonBecomesAnExample) {
  KernelRunner runner("DecodeJSONExample");
  const auto out =
      runner.Input(Tensor::Scalar(R"({"features": {"feature": {"age": {"int64List": {"value": [7]}}}}})"))
          .RunOne();
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<std::string>(),
            Bytes("features { feature { key: 'age' value { int64_list { value: 7 } } } }"));
  KernelRunner broken("DecodeJSONExample");
  EXPECT_EQ(broken.Input(Tensor::Scalar(R"({"no_such_field": 1})")).RunOne().status().code(),
            ErrorCode::kInvalidArgument);
}

TEST(ParseExampleTest, QuotedFieldsOfCsv) {
  const auto run = [](const char* record, bool quotes = true) {
    KernelRunner runner("DecodeCSV");
    runner.Attr("OUT_TYPE", Types{DataType::kString, DataType::kString}).Attr("use_quote_delim", quotes);
    const Tensor none = Tensor::Vector<std::string>({});
    return runner.Input(Tensor::Scalar(record)).Input(none).Input(none).Run();
  };
  const auto out = run("\"a,\"\"b\"\"\n\",\"c\"");
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<std::string>(), "a,\"b\"\n");
  EXPECT_EQ((*out)[1].scalar<std::string>(), "c");
  const auto plain = run("\"a,b\"", false);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ((*plain)[0].scalar<std::string>(), "\"a");
  EXPECT_EQ(run("a\"b,c").status().message(), "Unquoted fields cannot have quotes/CRLFs inside");
  EXPECT_EQ(run("a\nb,c").status().message(), "Unquoted fields cannot have quotes/CRLFs inside");
  EXPECT_EQ(run("\"a\"b,c").status().message(), "Quote inside a string has to be escaped by another quote");
  EXPECT_EQ(run("a,\"b").status().message(), "Quoted field has to end with quote followed by delim or end");
  EXPECT_EQ(run("a,\"").status().message(), "Quoted field has to end with quote followed by delim or end");
}

TEST(ParseExampleTest, TensorsGoRoundThroughBytes) {
  for (const Tensor& tensor : {Tensor::From<float>({1, 2, 3}, {3, 1}), Tensor::Vector<std::string>({"a", ""}),
                               Tensor(DataType::kInt64, {0, 4})}) {
    KernelRunner serialize("SerializeTensor");
    const auto bytes = serialize.Input(tensor).RunOne();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    KernelRunner parse("ParseTensor");
    const auto back = parse.Attr("out_type", tensor.dtype()).Input(*bytes).RunOne();
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectTensorEqual(tensor, *back);
    KernelRunner other("ParseTensor");
    EXPECT_EQ(
        other.Attr("out_type", DataType::kInt32).Input(*bytes).RunOne().status().message(),
        StrCat("Type mismatch between parsed tensor (", DataTypeName(tensor.dtype()), ") and dtype (int32)"));
  }
}

}  // namespace
}  // namespace millrace
