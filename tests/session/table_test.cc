// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Tables between steps of a session.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "base/env.h"
#include "tensor/testing.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

tensorflow::DataType Wire(DataType t) { return static_cast<tensorflow::DataType>(t); }

// Both kinds of handles.
class TableTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string V(const std::string& op) const { return op + GetParam(); }
  // A table "t" and its ops, fed by k (keys), v (values) and d (the default).
  tensorflow::NodeDef* Table(const std::string& op, DataType key, DataType value,
                             const std::vector<std::string>& inputs = {}) {
    key_ = key;
    value_ = value;
    std::vector<std::string> keys = inputs;
    if (V(op) == "MutableDenseHashTableV2") keys.push_back("deleted");
    auto* table = graph_.Add("t", V(op), keys);
    (*table->mutable_attr())["key_dtype"].set_type(Wire(key));
    (*table->mutable_attr())["value_dtype"].set_type(Wire(value));
    graph_.Placeholder("k", Wire(key));
    graph_.Placeholder("v", Wire(value));
    graph_.Placeholder("d", Wire(value));
    Access("find", "LookupTableFind", "Tin", "Tout", {"k", "d"});
    Access("insert", "LookupTableInsert", "Tin", "Tout", {"k", "v"});
    Access("import", "LookupTableImport", "Tin", "Tout", {"k", "v"});
    Access("export", "LookupTableExport", "Tkeys", "Tvalues", {});
    Access("init", "InitializeTable", "Tkey", "Tval", {"k", "v"});
    graph_.Add("size", V("LookupTableSize"), {"t"});
    if (V("") == "V2") {
      auto* remove = graph_.Add("remove", "LookupTableRemoveV2", {"t", "k"});
      (*remove->mutable_attr())["Tin"].set_type(Wire(key));
    }
    return table;
  }
  void FromFile(int64_t key_index, int64_t value_index, int64_t vocab_size = -1,
                const std::string& delimiter = "\t") {
    graph_.Placeholder("file", tensorflow::DT_STRING);
    auto* node = graph_.Add("load", V("InitializeTableFromTextFile"), {"t", "file"});
    (*node->mutable_attr())["key_index"].set_i(key_index);
    (*node->mutable_attr())["value_index"].set_i(value_index);
    (*node->mutable_attr())["vocab_size"].set_i(vocab_size);
    (*node->mutable_attr())["delimiter"].set_s(delimiter);
  }
  Session& session() {
    if (session_ == nullptr) session_ = SessionWith(graph_);
    return *session_;
  }
  Status Do(const std::string& target, const Tensor& k, const Tensor& v) {
    return session().Run({{"k", k}, {"v", v}}, {}, {target}, nullptr);
  }
  Status Remove(const Tensor& k) { return session().Run({{"k", k}}, {}, {"remove"}, nullptr); }
  Status Load(const std::string& path) {
    return session().Run({{"file", Tensor::Scalar<std::string>(path)}}, {}, {"load"}, nullptr);
  }
  StatusOr<Tensor> Find(const Tensor& k, const Tensor& d) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session().Run({{"k", k}, {"d", d}}, {"find"}, {}, &out));
    return out[0];
  }
  StatusOr<std::vector<Tensor>> Export() {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session().Run({}, {"export:0", "export:1"}, {}, &out));
    return out;
  }
  int64_t Size() {
    std::vector<Tensor> out;
    const Status status = session().Run({}, {"size"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? out[0].scalar<int64_t>() : -1;
  }

  DefBuilder graph_;
  std::unique_ptr<Session> session_;
  DataType key_ = DataType::kInvalid, value_ = DataType::kInvalid;

 private:
  void Access(const std::string& name, const std::string& op, const char* key_attr, const char* value_attr,
              std::vector<std::string> inputs) {
    inputs.insert(inputs.begin(), "t");
    auto* node = graph_.Add(name, V(op), inputs);
    (*node->mutable_attr())[key_attr].set_type(Wire(key_));
    (*node->mutable_attr())[value_attr].set_type(Wire(value_));
  }
};

Tensor S(const std::vector<std::string>& v) { return Tensor::Vector(v); }
Tensor I(const std::vector<int64_t>& v) { return Tensor::Vector(v); }

::testing::AssertionResult Holds(const StatusOr<Tensor>& got, const Tensor& want) {
  if (!got.ok()) return ::testing::AssertionFailure() << got.status();
  return TensorsEqual(want, *got);
}

TEST_P(TableTest, AStaticTableIsFilledOnce) {
  Table("HashTable", DataType::kString, DataType::kInt64);
  const Tensor none = Tensor::Scalar<int64_t>(-1);
  EXPECT_EQ(Size(), 0);
  const Status early = Find(S({"a"}), none).status();
  EXPECT_TRUE(errors::IsFailedPrecondition(early));
  EXPECT_THAT(early.ToString(), HasSubstr("Table not initialized."));
  EXPECT_TRUE(errors::IsAborted(Export().status()));
  ASSERT_EQ(Do("init", S({"a", "b", "a"}), I({1, 2, 1})), Status()) << "repeated with the same value";
  EXPECT_EQ(Size(), 2);
  EXPECT_TRUE(Holds(Find(AsTensor<std::string>({"b", "x", "a", ""}, {2, 2}), none),
                    AsTensor<int64_t>({2, -1, 1, -1}, {2, 2})));
  EXPECT_TRUE(Holds(Find(S({}), none), I({})));
  EXPECT_EQ(Do("init", S({"c", "d"}), I({1, 2})), Status()) << "as many entries as there are";
  EXPECT_THAT(Do("init", S({"a"}), I({1})).ToString(), HasSubstr("Table already initialized."));
  EXPECT_THAT(Do("insert", S({"a"}), I({1})).ToString(),
              HasSubstr("Insert not supported by InitializableLookupTable implementations"));
  EXPECT_THAT(Do("import", S({"a"}), I({1})).ToString(), HasSubstr("ImportValues not supported"));
  const auto all = Export();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(TensorsEqual(S({"a", "b"}), (*all)[0]));
  EXPECT_TRUE(TensorsEqual(I({1, 2}), (*all)[1]));
}

TEST_P(TableTest, BadInitialValuesAreRefused) {
  Table("HashTable", DataType::kString, DataType::kInt64);
  EXPECT_THAT(Do("init", S({"a", "a"}), I({1, 2})).ToString(),
              HasSubstr("HashTable has different value for same key. Key a has 1 and trying to add value 2"));
  EXPECT_EQ(Size(), 0);
  EXPECT_THAT(Do("init", S({"a", "b"}), I({1})).ToString(),
              HasSubstr("Keys and values must have the same size 2 vs 1"));
  EXPECT_THAT(Do("init", Tensor::Scalar("a"), I({1})).ToString(), HasSubstr("Keys must be a vector"));
  ASSERT_EQ(Do("init", S({"a"}), I({1})), Status());
  EXPECT_THAT(Find(S({"a"}), I({1})).status().ToString(),
              HasSubstr("Expected shape [] for default value, got [1]"));
}

TEST_P(TableTest, AMutableTableIsChangedAndExported) {
  Table("MutableHashTable", DataType::kInt64, DataType::kString);
  ASSERT_EQ(Do("insert", AsTensor<int64_t>({5, 6, 7, 5}, {2, 2}),
               AsTensor<std::string>({"a", "b", "c", "d"}, {2, 2})),
            Status());
  EXPECT_EQ(Size(), 3);
  EXPECT_TRUE(Holds(Find(I({5, 6, 8}), Tensor::Scalar("?")), S({"d", "b", "?"})));
  EXPECT_THAT(Do("insert", I({1, 2}), S({"x"})).ToString(),
              HasSubstr("Expected shape [2] for value, got [1]"));
  EXPECT_THAT(Do("init", I({1}), S({"x"})).ToString(), HasSubstr("is not initializable"));
  if (V("") == "V2") {
    ASSERT_EQ(Remove(I({5, 99})), Status());
    EXPECT_EQ(Size(), 2);
    EXPECT_TRUE(Holds(Find(I({5, 6, 7}), Tensor::Scalar("?")), S({"?", "b", "c"})));
  }
  ASSERT_EQ(Do("import", I({1, 2}), S({"x", "y"})), Status());
  const auto all = Export();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(TensorsEqual(I({1, 2}), (*all)[0]));
  EXPECT_TRUE(TensorsEqual(S({"x", "y"}), (*all)[1]));
}

TEST_P(TableTest, ValuesMayBeVectors) {
  auto* table = Table("MutableHashTableOfTensors", DataType::kString, DataType::kFloat);
  (*table->mutable_attr())["value_shape"].mutable_shape()->add_dim()->set_size(2);
  ASSERT_EQ(Do("insert", S({"a", "b"}), AsTensor<float>({1, 2, 3, 4}, {2, 2})), Status());
  EXPECT_TRUE(
      Holds(Find(S({"b", "c"}), Tensor::Vector<float>({8, 9})), AsTensor<float>({3, 4, 8, 9}, {2, 2})));
  EXPECT_THAT(Find(S({"b"}), Tensor::Scalar(1.0f)).status().ToString(),
              HasSubstr("Expected shape [2] for default value, got []"));
}

TEST_P(TableTest, ADenseTableHasAnEmptyKey) {
  graph_.Const("empty", Tensor::Scalar<int64_t>(-1));
  graph_.Const("deleted", Tensor::Scalar<int64_t>(-2));
  auto* table = Table("MutableDenseHashTable", DataType::kInt64, DataType::kFloat, {"empty"});
  (*table->mutable_attr())["initial_num_buckets"].set_i(4);
  const Tensor zero = Tensor::Scalar(0.0f);
  ASSERT_EQ(Do("insert", I({7, 8, 9}), Tensor::Vector<float>({1, 2, 3})), Status());
  EXPECT_TRUE(Holds(Find(I({9, 1}), zero), Tensor::Vector<float>({3, 0})));
  EXPECT_THAT(Find(I({-1}), zero).status().ToString(),
              HasSubstr("Using the empty_key as a table key is not allowed"));
  EXPECT_THAT(Do("insert", I({1, -1}), Tensor::Vector<float>({1, 2})).ToString(), HasSubstr("empty_key"));
  if (V("") == "V2") {
    EXPECT_THAT(Find(I({-2}), zero).status().ToString(),
                HasSubstr("Using the deleted_key as a table key is not allowed"));
  }
  EXPECT_EQ(Size(), 3);
  auto all = Export();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(TensorsEqual(I({7, 8, 9, -1}), (*all)[0])) << "4 buckets take 3 at a load of 0.8";
  EXPECT_TRUE(TensorsEqual(Tensor::Vector<float>({1, 2, 3, 0}), (*all)[1]));
  ASSERT_EQ(Do("insert", I({4}), Tensor::Vector<float>({4})), Status());
  EXPECT_EQ(Export()->at(0).dim(0), 8);
  ASSERT_EQ(Do("import", (*all)[0], (*all)[1]), Status()) << "what was exported can be imported";
  EXPECT_EQ(Size(), 3);
}

TEST_P(TableTest, KeysOfADenseTableMayBeVectors) {
  graph_.Const("empty", S({"", ""}));
  graph_.Const("deleted", S({"", "-"}));
  auto* table = Table("MutableDenseHashTable", DataType::kString, DataType::kInt64, {"empty"});
  (*table->mutable_attr())["value_shape"].mutable_shape()->add_dim()->set_size(1);
  ASSERT_EQ(
      Do("insert", AsTensor<std::string>({"a", "bc", "ab", "c"}, {2, 2}), AsTensor<int64_t>({1, 2}, {2, 1})),
      Status());
  EXPECT_TRUE(Holds(Find(AsTensor<std::string>({"ab", "c", "a", "bc", "abc", ""}, {3, 2}), I({0})),
                    AsTensor<int64_t>({2, 1, 0}, {3, 1})));
  EXPECT_THAT(Find(S({"a"}), I({0})).status().ToString(),
              HasSubstr("Input key shape [1] must end with the table's key shape [2]"));
}

TEST_P(TableTest, BadDenseTablesAreRefused) {
  graph_.Const("empty", Tensor::Scalar<int64_t>(0));
  graph_.Const("deleted", Tensor::Scalar<int64_t>(-1));
  auto* table = Table("MutableDenseHashTable", DataType::kInt64, DataType::kInt64, {"empty"});
  (*table->mutable_attr())["initial_num_buckets"].set_i(6);
  std::vector<Tensor> out;
  EXPECT_THAT(session().Run({}, {"size"}, {}, &out).ToString(),
              HasSubstr("Number of buckets must be at least 4 and a power of 2, got: 6"));
  session_ = nullptr;
  (*table->mutable_attr())["initial_num_buckets"].set_i(8);
  (*table->mutable_attr())["max_load_factor"].set_f(1.5f);
  EXPECT_THAT(session().Run({}, {"size"}, {}, &out).ToString(),
              HasSubstr("max_load_factor must be between 0 and 1, got: 1.5"));
}

TEST_P(TableTest, TheKeysThatADenseTableCannotHoldDiffer) {
  if (V("") != "V2") GTEST_SKIP() << "has one of them";
  graph_.Const("empty", Tensor::Scalar<int64_t>(5));
  graph_.Const("deleted", Tensor::Scalar<int64_t>(5));
  Table("MutableDenseHashTable", DataType::kInt64, DataType::kInt64, {"empty"});
  std::vector<Tensor> out;
  EXPECT_THAT(session().Run({}, {"size"}, {}, &out).ToString(),
              HasSubstr("Empty and deleted keys cannot be equal"));
}

TEST_P(TableTest, RandomChangesDoWhatAMapDoes) {
  Table("MutableHashTable", DataType::kInt32, DataType::kInt32);
  std::mt19937 random(7);
  std::map<int32_t, int32_t> model;
  for (int step = 0; step < 200; ++step) {
    std::vector<int32_t> keys, values;
    for (int i = 0; i < 5; ++i) {
      keys.push_back(static_cast<int32_t>(random() % 60));
      values.push_back(static_cast<int32_t>(random()));
    }
    if (V("") == "V2" && step % 3 == 0) {
      ASSERT_EQ(Remove(Tensor::Vector(keys)), Status());
      for (const int32_t k : keys) model.erase(k);
    } else {
      ASSERT_EQ(Do("insert", Tensor::Vector(keys), Tensor::Vector(values)), Status());
      for (size_t i = 0; i < keys.size(); ++i) model[keys[i]] = values[i];
    }
    ASSERT_EQ(Size(), static_cast<int64_t>(model.size()));
  }
  std::vector<int32_t> keys, want;
  for (int32_t k = 0; k < 60; ++k) {
    keys.push_back(k);
    want.push_back(model.count(k) != 0 ? model[k] : -7);
  }
  EXPECT_TRUE(Holds(Find(Tensor::Vector(keys), Tensor::Scalar(-7)), Tensor::Vector(want)));
}

TEST_P(TableTest, ManyThreadsInsertAndFind) {
  Table("MutableHashTable", DataType::kInt64, DataType::kInt64);
  session();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 60; ++i) {
        const int64_t k = t * 1000 + i;
        if (!Do("insert", I({k, k + 500}), I({k, k})).ok()) ++wrong;
        const auto got = Find(I({k, k + 500, -1}), Tensor::Scalar<int64_t>(-5));
        if (!Holds(got, I({k, k, -5}))) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(Size(), 480);
}

class TableFileTest : public TableTest {
 protected:
  std::string Write(const std::string& text) {
    std::string path =
        ::testing::TempDir() + "/table" + std::to_string(getpid()) + "_" + std::to_string(files_++);
    EXPECT_TRUE(WriteFileAtomically(Env::Posix(), path, text).ok());
    written_.push_back(path);
    return path;
  }
  void TearDown() override {
    for (const std::string& path : written_)
      Env::Posix().DeleteFile(path).IgnoreError("it is a scratch file");
  }

 private:
  static inline int files_ = 0;
  std::vector<std::string> written_;
};

TEST_P(TableFileTest, LinesAreKeysAndTheirNumbersValues) {
  Table("HashTable", DataType::kString, DataType::kInt64);
  FromFile(-2, -1);
  ASSERT_EQ(Load(Write("brain\nsalad\nsurgery\n")), Status());
  EXPECT_TRUE(Holds(Find(S({"surgery", "brain", "tank"}), Tensor::Scalar<int64_t>(-1)), I({2, 0, -1})));
}

TEST_P(TableFileTest, ColumnsAreParsed) {
  Table("HashTable", DataType::kInt64, DataType::kFloat);
  FromFile(2, 0, 2, " ");
  ASSERT_EQ(Load(Write("0.5 x 10\n-1.5 y 20\nnot read\n")), Status());
  EXPECT_TRUE(Holds(Find(I({20, 10}), Tensor::Scalar(0.0f)), Tensor::Vector<float>({-1.5f, 0.5f})));
}

TEST_P(TableFileTest, BadFilesAreRefused) {
  Table("HashTable", DataType::kString, DataType::kInt64);
  FromFile(0, 1, 3);
  const auto error = [&](const std::string& text) { return Load(Write(text)).ToString(); };
  EXPECT_THAT(error("a\t1\n"), HasSubstr(": expected 3 but got 1"));
  EXPECT_THAT(error("a\t1\n\nc\t2\n"), HasSubstr("empty line found at position 4."));
  EXPECT_THAT(error("a\t1\nb\nc\t2\n"), HasSubstr("line 1 (b) : expected 1 got 1"));
  EXPECT_THAT(error("a\t1\nb\tx\nc\t2\n"), HasSubstr("Field x in line 1 is not a valid int64."));
  EXPECT_THAT(error("a\t1\na\t2\nc\t2\n"), HasSubstr("HashTable has different value for same key."));
  EXPECT_TRUE(errors::IsNotFound(Load("/nowhere/at/all")));
  EXPECT_THAT(Load("").ToString(), HasSubstr("filename cannot be empty."));
  EXPECT_EQ(Size(), 0);
}

TEST_P(TableFileTest, ColumnsMustFitTheTypes) {
  Table("HashTable", DataType::kString, DataType::kFloat);
  FromFile(-2, -1);
  EXPECT_THAT(Load(Write("a\n")).ToString(),
              HasSubstr("Value index for line number requires table value dtype of int64, got float"));
}

INSTANTIATE_TEST_SUITE_P(Handles, TableTest, ::testing::Values("", "V2"));
INSTANTIATE_TEST_SUITE_P(Handles, TableFileTest, ::testing::Values("", "V2"));

}  // namespace
}  // namespace millrace
