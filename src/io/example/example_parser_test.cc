// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/example/example_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "io/example/feature_view.h"
#include "tensor/testing.h"
#include "tensorflow/core/example/example.pb.h"

namespace millrace::io {
namespace {

constexpr DataType kFloat = DataType::kFloat, kInt64 = DataType::kInt64, kString = DataType::kString;

const auto kSerially = [](int64_t total, int64_t, ThreadPool::ShardFn fn) {
  for (int64_t i = 0; i < total; ++i) fn(i, i + 1);
};

FeatureSpec Sparse(const std::string& key, DataType dtype) {
  return {.key = key, .dtype = dtype, .is_sparse = true, .shape = {}, .default_value = {}};
}
FeatureSpec Dense(const std::string& key, DataType dtype, PartialShape shape, Tensor value = {}) {
  return {.key = key, .dtype = dtype, .shape = std::move(shape), .default_value = std::move(value)};
}

// A field of the wire format, with its bytes.
std::string Field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string Entry(const std::string& key, const std::string& feature) {
  return Field(1, Field(1, key) + Field(2, feature));
}
std::string ExampleOf(const std::string& entries) { return Field(1, entries); }

StatusOr<ParsedFeatures> Parse(std::vector<FeatureSpec> specs, const std::vector<std::string>& serialized,
                               ParseRequest request = {}) {
  MR_ASSIGN_OR_RETURN(const FeatureTable table, FeatureTable::Make(std::move(specs)));
  request.serialized = serialized;
  return ParseFeatures(table, request, kSerially);
}
ParsedFeatures Parsed(std::vector<FeatureSpec> specs, const std::vector<std::string>& serialized,
                      ParseRequest request = {}) {
  auto parsed = Parse(std::move(specs), serialized, request);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : ParsedFeatures(10, std::vector<Tensor>(3));
}
std::string ErrorOf(std::vector<FeatureSpec> specs, const std::vector<std::string>& serialized,
                    ParseRequest request = {}) {
  const auto parsed = Parse(std::move(specs), serialized, request);
  EXPECT_EQ(parsed.status().code(), ErrorCode::kInvalidArgument);
  return parsed.status().message();
}

Tensor Ints(const std::vector<int64_t>& values) { return Tensor::Vector<int64_t>(values); }
Tensor Matrix(const std::vector<int64_t>& values, int64_t columns) {
  return Tensor::From<int64_t>(values, TensorShape({static_cast<int64_t>(values.size()) / columns, columns}));
}

const std::string kOne = Field(3, Field(1, "\x01"));
const std::string kOneTwo = Field(3, Field(1, "\x01\x02"));

TEST(ExampleParserTest, SparseFeaturesHaveAnIndexForEachValue) {
  const ParsedFeatures out =
      Parsed({Sparse("a", kInt64)}, {ExampleOf(Entry("a", kOneTwo)), "", ExampleOf(Entry("a", kOne))});
  ExpectTensorEqual(Matrix({0, 0, 0, 1, 2, 0}, 2), out[0][0]);
  ExpectTensorEqual(Ints({1, 2, 1}), out[0][1]);
  ExpectTensorEqual(Ints({3, 2}), out[0][2]);
}

TEST(ExampleParserTest, NoExamplesGiveEmptyTensors) {
  const ParsedFeatures out = Parsed({Sparse("a", kInt64), Dense("b", kFloat, {2})}, {});
  ExpectTensorEqual(Tensor(kInt64, TensorShape({0, 2})), out[0][0]);
  ExpectTensorEqual(Ints({0, 0}), out[0][2]);
  ExpectTensorEqual(Tensor(kFloat, TensorShape({0, 2})), out[1][0]);
}

TEST(ExampleParserTest, DenseFeaturesThatAreMissingGetTheDefault) {
  const ParsedFeatures out = Parsed({Dense("a", kInt64, {2}, Ints({7, 8}))},
                                    {"", ExampleOf(Entry("a", kOneTwo)), ExampleOf(Entry("x", kOne))});
  ExpectTensorEqual(Tensor::From<int64_t>({7, 8, 1, 2, 7, 8}, TensorShape({3, 2})), out[0][0]);
}

TEST(ExampleParserTest, VariableLengthsAreFilledUp) {
  const ParsedFeatures out =
      Parsed({Dense("a", kInt64, {-1}, Ints({9})), Dense("b", kInt64, {-1, 2}, Ints({5}))},
             {ExampleOf(Entry("a", kOne)), ExampleOf(Entry("a", kOneTwo) + Entry("b", kOneTwo)), ""});
  ExpectTensorEqual(Tensor::From<int64_t>({1, 9, 1, 2, 9, 9}, TensorShape({3, 2})), out[0][0]);
  ExpectTensorEqual(Tensor::From<int64_t>({5, 5, 1, 2, 5, 5}, TensorShape({3, 1, 2})), out[1][0]);
}

TEST(ExampleParserTest, PackedAndUnpackedListsMix) {
  // 08 05: an unpacked 5; 0d: an unpacked float.
  const std::string ints = Field(3, std::string("\x08\x05", 2) + Field(1, "\x01\x02") + "\x08\x07");
  const std::string floats =
      Field(2, std::string("\x0d\0\0\x80\x3f", 5) + Field(1, std::string("\0\0\0\x40", 4)));
  const ParsedFeatures out = Parsed({Sparse("i", kInt64), Dense("f", kFloat, {2})},
                                    {ExampleOf(Entry("f", floats) + Entry("i", ints))});
  ExpectTensorEqual(Ints({5, 1, 2, 7}), out[0][1]);
  ExpectTensorEqual(Tensor::From<float>({1, 2}, TensorShape({1, 2})), out[1][0]);
}

TEST(ExampleParserTest, NegativeNumbersTakeTenBytes) {
  const std::string minus_one = std::string(9, '\xff') + "\x01";
  const ParsedFeatures out =
      Parsed({Sparse("a", kInt64)}, {ExampleOf(Entry("a", Field(3, Field(1, minus_one + "\x02"))))});
  ExpectTensorEqual(Ints({-1, 2}), out[0][1]);
  const std::string eleven = std::string(10, '\xff') + "\x01";
  EXPECT_TRUE(ErrorOf({Sparse("a", kInt64)}, {ExampleOf(Entry("a", Field(3, Field(1, eleven))))})
                  .starts_with("Could not parse example input, value: '"));
}

TEST(ExampleParserTest, TheLastEntryOfAKeyCountsUnlessItIsEmpty) {
  const ParsedFeatures out =
      Parsed({Sparse("a", kInt64)}, {ExampleOf(Entry("a", kOneTwo) + Entry("a", kOne) + Entry("a", "")),
                                     ExampleOf(Entry("a", kOne)) + ExampleOf(Entry("a", kOneTwo))});
  ExpectTensorEqual(Ints({1, 1, 2}), out[0][1]);
}

TEST(ExampleParserTest, PackedNumbersOfAnyLengthAreRead) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 400; ++round) {
    const int most_bits = 1 + static_cast<int>(random() % 64), count = static_cast<int>(random() % 70);
    std::vector<int64_t> values;
    tensorflow::Example example;
    for (int i = 0; i < count; ++i) {
      const int bits = round % 3 == 0 ? most_bits : 1 + static_cast<int>(random() % most_bits);
      values.push_back(static_cast<int64_t>(random() >> (64 - bits)));
      (*example.mutable_features()->mutable_feature())["x"].mutable_int64_list()->add_value(values.back());
    }
    const auto result = Parsed({Sparse("x", kInt64)}, {example.SerializeAsString()});
    ExpectTensorEqual(Ints(values), result[0][1]);
  }
}

TEST(ExampleParserTest, UndeclaredFieldsAreSkipped) {
  const std::string group = "\x2b\x08\x01\x33\x34\x2c";  // 5: { 1: 1, 6: {} }
  const std::string fixed = std::string("\x31", 1) + std::string(8, 'x') + "\x35" + "yyyy";
  const ParsedFeatures out =
      Parsed({Sparse("a", kInt64)}, {group + fixed + ExampleOf(group + Entry("a", fixed + kOne))});
  ExpectTensorEqual(Ints({1}), out[0][1]);
}

TEST(ExampleParserTest, OneExampleHasNoDimensionForABatch) {
  const ParsedFeatures out =
      Parsed({Sparse("a", kInt64), Dense("b", kInt64, {2}), Dense("c", kInt64, {-1}, Ints({0}))},
             {ExampleOf(Entry("a", kOneTwo) + Entry("b", kOneTwo))}, {.batched = false});
  ExpectTensorEqual(Matrix({0, 1}, 1), out[0][0]);
  ExpectTensorEqual(Ints({2}), out[0][2]);
  ExpectTensorEqual(Ints({1, 2}), out[1][0]);
  ExpectTensorEqual(Ints({}), out[2][0]);
}

TEST(ExampleParserTest, ErrorsNameExampleAndKey) {
  const std::vector<std::string> one = {"", ExampleOf(Entry("a", kOne))};
  const std::vector<std::string> names = {"in0", "in1"};
  const Tensor pad = Ints({1, 2});
  EXPECT_EQ(
      ErrorOf({Dense("a", kInt64, {2}, pad)}, one, {.names = names}),
      "Name: in1, Key: a, Index: 1.  Number of int64 values != expected.  Values size: 1 but output shape: "
      "[2]");
  EXPECT_EQ(
      ErrorOf({Dense("a", kFloat, {1}, Tensor::Vector<float>({0}))}, one, {.names = names}),
      "Name: in1, Key: a, Index: 1.  Data types don't match. Data type: int64 but expected type: float");
  EXPECT_EQ(ErrorOf({Sparse("a", kString)}, one),
            "Name: <unknown>, Key: a, Index: 1.  Data types don't match. Expected type: string, Actual type: "
            "int64");
  EXPECT_EQ(ErrorOf({Dense("a", kInt64, {1})}, one, {.names = names}),
            "Name: in0, Feature: a (data type: int64) is required but could not be found.");
  EXPECT_EQ(
      ErrorOf({Dense("a", kInt64, {-1, 2}, Ints({0}))}, one, {.names = names}),
      "Name: in1, Key: a, Index: 1.  Number of int64 values is not a multiple of stride length. Saw 1 values "
      "but output shape is: [?,2]");
  EXPECT_EQ(ErrorOf({Dense("a", kInt64, {2})}, {one[1]}, {.batched = false}),
            "Key: a.  Number of int64 values != expected.  Values size: 1 but output shape: [2]");
  EXPECT_EQ(ErrorOf({Dense("b", kInt64, {2})}, {one[1]}, {.batched = false}),
            "Feature: b (data type: int64) is required but could not be found.");
  EXPECT_EQ(ErrorOf({Sparse("a", kInt64)}, {"\x0a\x05"}), "Could not parse example input, value: '\\n\\005'");
}

TEST(ExampleParserTest, BrokenBytesAreErrors) {
  for (const std::string& bytes : std::vector<std::string>{
           "\x0a", "\x07", std::string("\0", 1), "\x0c", "\x0b", std::string(200, '\x0b'),
           ExampleOf("\x0a\x7f"), ExampleOf(Field(1, "\x0a")), ExampleOf(Entry("a", "\x1a\x05")),
           ExampleOf(Entry("a", Field(3, "\x08"))), ExampleOf(Entry("a", Field(3, Field(1, "\xff"))))}) {
    ErrorOf({Sparse("a", kInt64)}, {bytes});
  }
  ErrorOf({Sparse("a", kFloat)}, {ExampleOf(Entry("a", Field(2, Field(1, "abcde"))))});
}

TEST(ExampleParserTest, TablesAreChecked) {
  const auto refused = [](std::vector<FeatureSpec> specs) {
    return !FeatureTable::Make(std::move(specs)).ok();
  };
  EXPECT_TRUE(refused({Sparse("a", DataType::kInt32)}));
  EXPECT_TRUE(refused({Sparse("a", kInt64), Dense("a", kInt64, {})}));
  EXPECT_TRUE(refused({Dense("a", kInt64, PartialShape())}));
  EXPECT_TRUE(refused({Dense("a", kInt64, {2, -1})}));
  EXPECT_TRUE(refused({Dense("a", kInt64, {int64_t{1} << 40, int64_t{1} << 40})}));
  EXPECT_TRUE(refused({Dense("a", kInt64, {2}, Ints({1}))}));
  EXPECT_TRUE(refused({Dense("a", kInt64, {2}, Tensor::Vector<float>({1, 2}))}));
  EXPECT_TRUE(refused({Dense("a", kInt64, {-1}, Ints({1, 2}))}));
}

std::string Steps(const std::string& key, const std::vector<std::string>& features) {
  std::string list;
  for (const std::string& f : features) list += Field(1, f);
  return Entry(key, list);
}

TEST(ExampleParserTest, ListsHaveARowForEachStep) {
  const std::string first =
      Field(1, Entry("c", kOne)) + Field(2, Steps("s", {kOneTwo, "", kOne}) + Steps("d", {kOneTwo, kOneTwo}));
  const std::string second = Field(2, Steps("s", {kOne}) + Steps("d", {kOneTwo}));
  const ParseRequest lists{.source = FeatureSource::kSequenceLists};
  const ParsedFeatures out = Parsed({Sparse("s", kInt64), Dense("d", kInt64, {2})}, {first, second}, lists);
  ExpectTensorEqual(Matrix({0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 0, 0}, 3), out[0][0]);
  ExpectTensorEqual(Ints({1, 2, 1, 1}), out[0][1]);
  ExpectTensorEqual(Ints({2, 3, 2}), out[0][2]);
  ExpectTensorEqual(Tensor::From<int64_t>({1, 2, 1, 2, 1, 2, 0, 0}, TensorShape({2, 2, 2})), out[1][0]);
  ExpectTensorEqual(Ints({2, 1}), out[1][1]);
  const ParsedFeatures one = Parsed({Sparse("s", kInt64), Dense("d", kInt64, {2})}, {first},
                                    {.source = FeatureSource::kSequenceLists, .batched = false});
  ExpectTensorEqual(Matrix({0, 0, 0, 1, 2, 0}, 2), one[0][0]);
  ExpectTensorEqual(Ints({3, 2}), one[0][2]);
  ExpectTensorEqual(Tensor::From<int64_t>({1, 2, 1, 2}, TensorShape({2, 2})), one[1][0]);
  const ParsedFeatures context = Parsed({Dense("c", kInt64, {1}, Ints({4}))}, {first, second},
                                        {.source = FeatureSource::kSequenceContext});
  ExpectTensorEqual(Tensor::From<int64_t>({1, 4}, TensorShape({2, 1})), context[0][0]);
}

TEST(ExampleParserTest, ErrorsOfListsNameTheStep) {
  const std::vector<std::string> bytes = {Field(2, Steps("d", {kOne, kOneTwo}))};
  const ParseRequest lists{.source = FeatureSource::kSequenceLists, .batched = false};
  EXPECT_EQ(
      ErrorOf({Dense("d", kInt64, {1})}, bytes, lists),
      "Name: <unknown>, Key: d, Index: 1.  Number of int64 values != expected.  values size: 2 but output "
      "shape: [1]");
  EXPECT_EQ(
      ErrorOf({Sparse("d", kFloat)}, bytes, lists),
      "Name: <unknown>, Feature list: d, Index: 0.  Data types don't match. Expected type: float  Feature "
      "is: int64");
  EXPECT_EQ(
      ErrorOf({Dense("e", kInt64, {1})}, bytes, lists),
      "Name: <unknown>, Feature list 'e' is required but could not be found.  Did you mean to include it "
      "in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?");
  EXPECT_EQ(ErrorOf({Dense("e", kInt64, {1})}, bytes, {.source = FeatureSource::kSequenceContext}),
            "Name: <unknown>, Context feature 'e' is required but could not be found.");
  FeatureSpec optional = Dense("e", kInt64, {1});
  optional.may_be_missing = true;
  ExpectTensorEqual(Tensor(kInt64, TensorShape({0, 1})), Parsed({optional}, bytes, lists)[0][0]);
}

// The features as parsed by protobuf, assembled by a simple loop.
class Reference {
 public:
  explicit Reference(std::vector<tensorflow::Example> examples) : examples_(std::move(examples)) {}
  void ExpectSparse(const std::string& key, DataType dtype, const std::vector<Tensor>& got) const {
    std::vector<int64_t> indices, ints;
    std::vector<float> floats;
    std::vector<std::string> strings;
    int longest = 0;
    for (size_t e = 0; e < examples_.size(); ++e) {
      const auto& map = examples_[e].features().feature();
      const auto found = map.find(key);
      if (found == map.end()) continue;
      const tensorflow::Feature& f = found->second;
      for (const int64_t v : f.int64_list().value()) ints.push_back(v);
      for (const float v : f.float_list().value()) floats.push_back(v);
      for (const std::string& v : f.bytes_list().value()) strings.push_back(v);
      const int n = f.int64_list().value_size() + f.float_list().value_size() + f.bytes_list().value_size();
      for (int i = 0; i < n; ++i) indices.insert(indices.end(), {static_cast<int64_t>(e), i});
      longest = std::max(longest, n);
    }
    ExpectTensorEqual(Matrix(indices, 2), got[0]);
    ExpectTensorEqual(dtype == kInt64   ? Ints(ints)
                      : dtype == kFloat ? Tensor::Vector<float>(floats)
                                        : Tensor::Vector<std::string>(strings),
                      got[1]);
    ExpectTensorEqual(Ints({static_cast<int64_t>(examples_.size()), longest}), got[2]);
  }

 private:
  std::vector<tensorflow::Example> examples_;
};

TEST(ExampleParserTest, AgreesWithProtobufOnRandomExamples) {
  std::mt19937 rng(1);
  std::vector<tensorflow::Example> examples(150);
  std::vector<std::string> serialized;
  for (auto& example : examples) {
    auto& map = *example.mutable_features()->mutable_feature();
    const auto below = [&](uint32_t n) { return static_cast<int>(rng() % n); };
    for (int i = below(20); i > 0; --i) {
      map["i"].mutable_int64_list()->add_value(static_cast<int64_t>(rng() | uint64_t{rng()} << 32) >>
                                               below(64));
    }
    for (int i = below(4); i > 0; --i)
      map["f"].mutable_float_list()->add_value(static_cast<float>(below(99)) / 8);
    for (int i = below(4); i > 0; --i) map["s"].mutable_bytes_list()->add_value(std::string(below(300), 'x'));
    map["other"].mutable_bytes_list()->add_value("y");
    serialized.push_back(example.SerializeAsString());
  }
  const ParsedFeatures got =
      Parsed({Sparse("i", kInt64), Sparse("f", kFloat), Sparse("s", kString)}, serialized);
  const Reference reference(examples);
  reference.ExpectSparse("i", kInt64, got[0]);
  reference.ExpectSparse("f", kFloat, got[1]);
  reference.ExpectSparse("s", kString, got[2]);
}

// The same examples with and without an empty entry in front, which makes the parser use its general
// method.
TEST(ExampleParserTest, PlainExamplesAreReadAsOthersAre) {
  std::mt19937 rng(2);
  const auto below = [&](uint32_t n) { return static_cast<int>(rng() % n); };
  std::vector<std::string> plain, general;
  std::vector<tensorflow::Example> examples(100);
  for (auto& example : examples) {
    auto& map = *example.mutable_features()->mutable_feature();
    for (int i = 0; i < 20; ++i) {
      map["i"].mutable_int64_list()->add_value(static_cast<int64_t>(rng() | uint64_t{rng()} << 32) >>
                                               below(64));
    }
    map["one"].mutable_int64_list()->add_value(below(1000) - 500);
    for (int i = 0; i < 6; ++i) map["f"].mutable_float_list()->add_value(static_cast<float>(below(99)) / 8);
    for (int i = 0; i < 2; ++i) map["s"].mutable_bytes_list()->add_value(std::string(below(300), 'x'));
    if (below(2) == 0) map["other"].mutable_bytes_list()->add_value("y");
    if (below(3) == 0) map["maybe"].mutable_float_list()->add_value(1);
    plain.push_back(example.SerializeAsString());
    general.push_back(ExampleOf("") + plain.back());
  }
  const std::vector<FeatureSpec> specs = {Dense("s", kString, {2}), Dense("i", kInt64, {4, 5}),
                                          Dense("f", kFloat, {6}), Dense("one", kInt64, PartialShape({})),
                                          Dense("maybe", kFloat, PartialShape({}), Tensor::Scalar(7.f))};
  const ParsedFeatures got = Parsed(specs, plain), expected = Parsed(specs, general);
  for (size_t f = 0; f < specs.size(); ++f) ExpectTensorEqual(expected[f][0], got[f][0]);
  for (size_t i = 0; i < examples.size(); ++i) {
    const auto& map = examples[i].features().feature();
    EXPECT_EQ(got[0][0].data<std::string>()[i * 2 + 1], map.at("s").bytes_list().value(1));
    EXPECT_EQ(got[1][0].data<int64_t>()[i * 20 + 19], map.at("i").int64_list().value(19));
    EXPECT_EQ(got[3][0].data<int64_t>()[i], map.at("one").int64_list().value(0));
    EXPECT_EQ(got[4][0].data<float>()[i], map.count("maybe") > 0 ? 1 : 7);
  }
  std::vector<std::string_view> views(plain.begin(), plain.end());
  const auto of_views = ParseFeatures(*FeatureTable::Make(specs), ParseRequest{.views = views}, kSerially);
  ASSERT_TRUE(of_views.ok());
  for (size_t f = 0; f < specs.size(); ++f) ExpectTensorEqual((*of_views)[f][0], got[f][0]);
}

// Each byte of a plain example is changed, and each prefix is parsed; the results are those of the general
// method.
TEST(ExampleParserTest, BrokenPlainExamplesGiveTheErrorsOfTheGeneralParser) {
  const std::string whole = ExampleOf(Entry("a", kOneTwo) + Entry("f", Field(2, Field(1, "12345678"))) +
                                      Entry("s", Field(1, Field(1, "text"))));
  const std::vector<FeatureSpec> specs = {Dense("a", kInt64, {2}), Dense("f", kFloat, {2}),
                                          Dense("s", kString, PartialShape({}))};
  std::vector<std::string> variants;
  for (size_t i = 0; i < whole.size(); ++i) {
    variants.push_back(whole.substr(0, i));
    for (const char c : {'\x00', '\x01', '\x0a', '\x12', '\x1a', '\x7f', '\x80', '\xff'}) {
      variants.push_back(whole);
      variants.back()[i] = c;
    }
  }
  int accepted = 0;
  for (const std::string& bytes : variants) {
    const auto got = Parse(specs, {whole, bytes}), general = Parse(specs, {ExampleOf("") + whole, bytes});
    ASSERT_EQ(got.ok(), general.ok()) << got.status() << general.status();
    if (!got.ok()) {
      EXPECT_EQ(got.status().message(), general.status().message());
      continue;
    }
    ++accepted;
    for (size_t f = 0; f < specs.size(); ++f) ExpectTensorEqual((*general)[f][0], (*got)[f][0]);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace millrace::io
