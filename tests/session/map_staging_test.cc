// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Staging maps: tuples that persist between steps of a session, with keys, whole and in parts.
#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "tensor/testing.h"
#include "tests/session/state_testing.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using Types = std::vector<DataType>;

// Tuples of a float and a string. The parameter is the prefix of the ops.
class MapStagingTest : public StateTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    graph_.Placeholder("key", tensorflow::DT_INT64);
    graph_.Placeholder("i", tensorflow::DT_INT32);
    graph_.Placeholder("f");
    graph_.Placeholder("s", tensorflow::DT_STRING);
    Put("put", {"f", "s"}, {DataType::kFloat, DataType::kString});
    Put("put_f", {"f"}, {DataType::kFloat});
    Put("put_s", {"s"}, {DataType::kString});
    Put("put_swapped", {"s", "f"}, {DataType::kString, DataType::kFloat});
    for (const auto& [suffix, types] : {std::pair("", kTuple), std::pair("_f", Types{DataType::kFloat}),
                                        std::pair("_s", Types{DataType::kString})}) {
      Op(StrCat("get", suffix), "Unstage", {"key", "i"}, types);
      Op(StrCat("peek", suffix), "Peek", {"key", "i"}, types);
      Op(StrCat("any", suffix), "UnstageNoKey", {"i"}, types);
    }
    for (const char* op : {"Size", "IncompleteSize", "Clear"}) Op(op, op, {}, kTuple);
  }
  void Op(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
          const Types& types) {
    AttrMap attrs{{"dtypes", types}, {"shared_name", "map"}};
    if (op == "Size") {  // the first op to run creates the map
      attrs.Set("capacity", capacity_);
      attrs.Set("memory_limit", memory_limit_);
    }
    graph_.Node(name, StrCat(GetParam(), op), inputs, attrs);
  }
  void Put(const std::string& name, const std::vector<std::string>& values, const Types& types) {
    std::vector<std::string> inputs = {"key", "i"};
    inputs.insert(inputs.end(), values.begin(), values.end());
    graph_.Node(name, StrCat(GetParam(), "Stage"), inputs,
                {{"dtypes", kTuple}, {"fake_dtypes", types}, {"shared_name", "map"}});
  }
  static Session::Feeds Feeds(int64_t key, const std::vector<int32_t>& i, float f = 0,
                              const std::string& s = "") {
    return {{"key", Tensor::Scalar(key)},
            {"i", Tensor::Vector<int32_t>(i)},
            {"f", Tensor::Scalar(f)},
            {"s", Tensor::Scalar(s)}};
  }
  Status PutBoth(int64_t key, float f, const std::string& s) { return Do("put", Feeds(key, {0, 1}, f, s)); }
  // "<float> <string>" of an existing tuple.
  std::string Both(const std::string& node, int64_t key) {
    const auto out = Get({node + ":0", node + ":1"}, Feeds(key, {0, 1}));
    if (!out.ok()) return out.status().ToString();
    return StrCat((*out)[0].scalar<float>(), " ", (*out)[1].scalar<std::string>());
  }
  static bool Waits(const Status& status) { return errors::IsDeadlineExceeded(status); }

  static inline const Types kTuple = {DataType::kFloat, DataType::kString};
  int64_t capacity_ = 0;
  int64_t memory_limit_ = 0;
};

TEST_P(MapStagingTest, TuplesAreFoundByTheirKeys) {
  for (const int64_t key : {7, -3, 5}) ASSERT_EQ(PutBoth(key, key, StrCat("at ", key)), Status());
  EXPECT_EQ(Count("Size"), 3);
  EXPECT_EQ(Both("peek", 5), "5 at 5");
  EXPECT_EQ(Both("get", 5), "5 at 5");
  EXPECT_EQ(Both("get", -3), "-3 at -3");
  EXPECT_EQ(Count("Size"), 1);
  EXPECT_TRUE(Waits(DoFor(5, "get", Feeds(5, {0, 1})))) << "it was taken";
  ASSERT_EQ(Do("Clear"), Status());
  EXPECT_EQ(Count("Size"), 0);
}

TEST_P(MapStagingTest, MissingKeyTakesTheSmallestOrAny) {
  std::vector<int64_t> keys;
  for (const int64_t key : {4, 9, -1, 2}) ASSERT_EQ(PutBoth(key, key, "x"), Status());
  for (int i = 0; i < 4; ++i) {
    const auto out = Get({"any:0", "any:1", "any:2"}, Feeds(0, {0, 1}));
    ASSERT_TRUE(out.ok()) << out.status();
    keys.push_back((*out)[0].scalar<int64_t>());
    EXPECT_EQ((*out)[1].scalar<float>(), static_cast<float>(keys.back()));
  }
  if (std::string(GetParam()) == "OrderedMap") {
    EXPECT_EQ(keys, (std::vector<int64_t>{-1, 2, 4, 9}));
  } else {
    EXPECT_EQ(std::set<int64_t>(keys.begin(), keys.end()), (std::set<int64_t>{-1, 2, 4, 9}));
  }
  EXPECT_TRUE(Waits(DoFor(5, "any", Feeds(0, {0, 1}))));
}

TEST_P(MapStagingTest, ATupleMayComeInParts) {
  ASSERT_EQ(Do("put_s", Feeds(1, {1}, 0, "later")), Status());
  EXPECT_EQ(Count("IncompleteSize"), 1);
  EXPECT_EQ(Count("Size"), 0);
  EXPECT_THAT(Do("put_s", Feeds(1, {1}, 0, "twice")).ToString(),
              HasSubstr("The tensor for index '1' for key '1' was already initialized '2'."));
  EXPECT_TRUE(Waits(DoFor(5, "get", Feeds(1, {0, 1})))) << "half of it is missing";
  ASSERT_EQ(Do("put_f", Feeds(1, {0}, 2.5f)), Status());
  EXPECT_EQ(Count("IncompleteSize"), 0);
  EXPECT_EQ(Both("get", 1), "2.5 later");
}

TEST_P(MapStagingTest, ATupleMayGoInParts) {
  ASSERT_EQ(PutBoth(1, 3, "three"), Status());
  EXPECT_EQ(GetOne("get_s", Feeds(1, {1})).scalar<std::string>(), "three");
  EXPECT_EQ(Count("Size"), 1) << "the float is still there";
  EXPECT_THAT(Do("get_s", Feeds(1, {1})).ToString(),
              HasSubstr("Tensor at index '1' for key '1' has already been removed."));
  EXPECT_THAT(Do("peek", Feeds(1, {0, 1})).ToString(), HasSubstr("has already been removed."));
  EXPECT_EQ(GetOne("peek_f", Feeds(1, {0})).scalar<float>(), 3);
  EXPECT_EQ(GetOne("get_f", Feeds(1, {0})).scalar<float>(), 3);
  EXPECT_EQ(Count("Size"), 0);
}

TEST_P(MapStagingTest, ATupleWhoseKeyIsTakenIsDropped) {
  ASSERT_EQ(PutBoth(1, 1, "first"), Status());
  ASSERT_EQ(PutBoth(1, 2, "second"), Status());
  ASSERT_EQ(Do("put_f", Feeds(1, {0}, 3)), Status());
  ASSERT_EQ(Do("put_s", Feeds(1, {1}, 0, "third")), Status());
  EXPECT_EQ(Count("IncompleteSize"), 0);
  EXPECT_EQ(Both("get", 1), "1 first");
  EXPECT_EQ(Count("Size"), 0);
}

TEST_P(MapStagingTest, BadComponentsAreRefused) {
  EXPECT_THAT(Do("put", Feeds(1, {1, 0})).ToString(), HasSubstr("Indices are not strictly ordered"));
  EXPECT_THAT(Do("put", Feeds(1, {0, 0})).ToString(), HasSubstr("Indices are not strictly ordered"));
  EXPECT_THAT(Do("put_f", Feeds(1, {2})).ToString(),
              HasSubstr("Index '2' for key '1' was out of bounds '2'."));
  EXPECT_THAT(Do("put_f", Feeds(1, {-1})).ToString(),
              HasSubstr("Index '-1' for key '1' was out of bounds '2'."));
  EXPECT_TRUE(errors::IsInvalidArgument(Do("put_f", Feeds(1, {0, 1})))) << "two indices for one value";
  EXPECT_TRUE(errors::IsInvalidArgument(Do("put_swapped", Feeds(1, {0, 1})))) << "types";
  EXPECT_TRUE(errors::IsInvalidArgument(Do("get_s", Feeds(1, {0})))) << "types";
  EXPECT_TRUE(errors::IsInvalidArgument(Do("any", Feeds(1, {0}))));
  Session::Feeds bad_key = Feeds(1, {0, 1});
  bad_key[0].second = Tensor::Vector<int64_t>({1, 2});
  EXPECT_TRUE(errors::IsInvalidArgument(Do("put", bad_key)));
  EXPECT_EQ(Count("Size") + Count("IncompleteSize"), 0);
}

TEST_P(MapStagingTest, ReadersWaitForTheirKey) {
  session();
  std::thread reader([&] { EXPECT_EQ(Both("get", 3), "1 x"); });
  std::thread watcher([&] { EXPECT_TRUE(Get({"peek"}, Feeds(4, {0, 1})).ok()); });
  ASSERT_EQ(PutBoth(4, 2, "y"), Status());
  ASSERT_EQ(PutBoth(3, 1, "x"), Status());
  reader.join();
  watcher.join();
  EXPECT_EQ(GetOne("any", Feeds(0, {0, 1})).scalar<int64_t>(), 4) << "it was only read";
}

INSTANTIATE_TEST_SUITE_P(Kinds, MapStagingTest, ::testing::Values("Map", "OrderedMap"));

class SmallMapTest : public MapStagingTest {
 protected:
  void SetUp() override {
    capacity_ = 2;
    memory_limit_ = 100;
    MapStagingTest::SetUp();
    ASSERT_EQ(Count("Size"), 0);
  }
};

TEST_P(SmallMapTest, WritersWaitForRoom) {
  ASSERT_EQ(PutBoth(1, 1, ""), Status());
  ASSERT_EQ(PutBoth(2, 2, ""), Status());
  EXPECT_TRUE(Waits(DoFor(5, "put", Feeds(3, {0, 1}))));
  std::thread writer([&] { EXPECT_EQ(PutBoth(3, 3, ""), Status()); });
  EXPECT_EQ(Both("get", 1), "1 ");
  writer.join();
  EXPECT_EQ(Count("Size"), 2);
  std::thread another([&] { EXPECT_EQ(PutBoth(4, 4, ""), Status()); });
  ASSERT_EQ(Do("Clear"), Status());
  another.join();
}

TEST_P(SmallMapTest, BytesOfAllPartsCount) {
  const auto floats = [](int64_t key, int64_t n) {
    Session::Feeds feeds = Feeds(key, {0});
    feeds[2].second = Tensor(DataType::kFloat, TensorShape({n}));
    return feeds;
  };
  EXPECT_THAT(Do("put_f", floats(1, 26)).ToString(),
              HasSubstr("Attempted to insert tensors with combined size of '104' bytes into Staging Area "
                        "with a memory limit of '100'."));
  ASSERT_EQ(Do("put_f", floats(1, 20)), Status());
  EXPECT_TRUE(Waits(DoFor(5, "put_f", floats(2, 20))));
  ASSERT_EQ(Do("Clear"), Status());
  ASSERT_EQ(Do("put_f", floats(2, 20)), Status());
}

INSTANTIATE_TEST_SUITE_P(Kinds, SmallMapTest, ::testing::Values("Map", "OrderedMap"));

}  // namespace
}  // namespace millrace
