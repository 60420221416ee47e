// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/function.h"
#include "base/hash.h"
#include "base/logging.h"
#include "base/small_vector.h"
#include "millrace/logging.h"
#include "millrace/ref.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StringsTest, SplitKeepsEmptyParts) {
  EXPECT_THAT(StrSplit("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(StrSplit("", ','), ElementsAre(""));
  EXPECT_THAT(StrSplitSkipEmpty(",a,,b,", ','), ElementsAre("a", "b"));
  EXPECT_THAT(StrSplitSkipEmpty(",,", ','), IsEmpty());
}

TEST(StringsTest, JoinPutsSeparatorsBetween) {
  EXPECT_EQ(StrJoin(std::vector<std::string>{"a", "", "c"}, ", "), "a, , c");
  EXPECT_EQ(StrJoin(std::vector<std::string_view>{}, ","), "");
}

TEST(StringsTest, IntegersAreParsedWholeOrNotAtAll) {
  EXPECT_EQ(SafeStringToInt64("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(SafeStringToInt64("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(SafeStringToUint64("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(SafeStringToInt32("-2147483648"), INT32_MIN);
  for (const char* bad : {"", " 1", "1 ", "1x", "+1", "--1", "0x10", "9223372036854775808", "1.0"}) {
    EXPECT_EQ(SafeStringToInt64(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(SafeStringToUint64("-1"), std::nullopt);
  EXPECT_EQ(SafeStringToInt32("2147483648"), std::nullopt);
}

TEST(StringsTest, DoublesAreParsedWholeOrNotAtAll) {
  EXPECT_EQ(SafeStringToDouble("-1.5e3"), -1500.0);
  EXPECT_EQ(SafeStringToDouble("0x1p-3"), 0.125);
  EXPECT_EQ(SafeStringToDouble("-0x1.8p1"), -3.0);
  EXPECT_EQ(SafeStringToDouble("-inf"), -INFINITY);
  EXPECT_TRUE(std::isnan(*SafeStringToDouble("nan")));
  for (const char* bad : {"", "-", "--1", "0x", "1,5", "1.5 ", "0x-1", "1e999"}) {
    EXPECT_EQ(SafeStringToDouble(bad), std::nullopt) << bad;
  }
}

TEST(StringsTest, PrefixesAndSuffixesAreConsumed) {
  std::string_view text = "/job:worker";
  EXPECT_FALSE(ConsumePrefix(&text, "/task:"));
  EXPECT_TRUE(ConsumePrefix(&text, "/job:"));
  EXPECT_EQ(text, "worker");
  EXPECT_TRUE(ConsumeSuffix(&text, "er"));
  EXPECT_FALSE(ConsumeSuffix(&text, "er"));
  EXPECT_EQ(text, "work");
  EXPECT_EQ(StripWhitespace(" \t a b\n"), "a b");
  EXPECT_EQ(StripWhitespace(" \r\n"), "");
}

TEST(StringsTest, HexRoundTrips) {
  const std::string bytes("\x00\x7f\xff\x10", 4);
  EXPECT_EQ(HexEncode(bytes), "007fff10");
  EXPECT_EQ(HexDecode("007FfF10"), bytes);
  EXPECT_EQ(HexDecode("0"), std::nullopt);
  EXPECT_EQ(HexDecode("0g"), std::nullopt);
}

TEST(StringsTest, EscapeLeavesOnlyPrintableAscii) {
  EXPECT_EQ(CEscape(std::string("a\n\t\r\"'\\\0\x7f\xff", 10)), "a\\n\\t\\r\\\"\\'\\\\\\000\\177\\377");
}

TEST(HashTest, DependsOnEveryByteAndOnTheLength) {
  std::set<uint64_t> seen;
  std::string text(70, 'a');
  for (size_t n = 0; n <= text.size(); ++n) EXPECT_TRUE(seen.insert(Hash64(text.substr(0, n))).second) << n;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_TRUE(seen.insert(Hash64(changed)).second) << i;
  }
  EXPECT_NE(Hash64("a", 1), Hash64("a", 2));
  // Trailing zero bytes change the result.
  EXPECT_NE(Hash64(std::string_view("\0\0\0", 3)), Hash64(std::string_view("\0\0", 2)));
}

TEST(HashTest, CombineIsNotSymmetric) {
  EXPECT_NE(HashCombine(1, 2), HashCombine(2, 1));
  EXPECT_NE(HashCombine(0, 0), 0u);
}

TEST(StatusTest, KeepsTheFirstError) {
  Status status;
  status.Update(Status::Ok());
  EXPECT_TRUE(status.ok());
  status.Update(errors::NotFound("a ", 1));
  status.Update(errors::Internal("b"));
  EXPECT_EQ(status.ToString(), "Not found: a 1");
  EXPECT_EQ(status.WithContext(" (in c)").message(), "a 1 (in c)");
  EXPECT_TRUE(Status::Ok().WithContext("x").ok());
}

TEST(StatusTest, CopiesShareAndOutliveTheOriginal) {
  static_assert(sizeof(Status) == sizeof(void*));
  Status copy;
  {
    Status original = errors::Aborted("text");
    copy = original;
    EXPECT_EQ(&copy.message(), &original.message());
    original = copy;
    Status moved = std::move(original);
    EXPECT_EQ(moved, copy);
    Status& same = moved;
    moved = same;
    EXPECT_EQ(moved, copy);
  }
  EXPECT_EQ(copy.message(), "text");
  copy = Status::Ok();
  EXPECT_TRUE(copy.ok());
  EXPECT_TRUE(Status(ErrorCode::kOk, "ignored").ok());
}

TEST(StatusTest, CodesHaveTensorFlowsNames) {
  EXPECT_EQ(errors::InvalidArgument("x").ToString(), "Invalid argument: x");
  EXPECT_EQ(errors::ResourceExhausted("x").ToString(), "Resource exhausted: x");
  EXPECT_EQ(Status().ToString(), "OK");
  EXPECT_EQ(static_cast<int>(ErrorCode::kUnauthenticated), 16);
}

StatusOr<int> Half(int x) {
  if (x % 2 != 0) return errors::InvalidArgument(x, " is odd");
  return x / 2;
}
StatusOr<int> Quarter(int x) {
  MR_ASSIGN_OR_RETURN(const int half, Half(x));
  MR_RETURN_IF_ERROR(Half(half).status());
  return half / 2;
}

TEST(StatusTest, MacrosReturnTheError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(7).status().message(), "7 is odd");
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(Quarter(6).value_or(-1), -1);
}

TEST(StatusTest, StatusOrOfAnOkStatusIsAnError) {
  EXPECT_TRUE(errors::IsInternal(StatusOr<int>(Status()).status()));
}

TEST(FunctionTest, HoldsSmallAndLargeCallables) {
  auto token = std::make_shared<int>(0);
  {
    UniqueFunction<int(int)> small = [token](int x) { return x + 1; };
    std::array<int, 64> big{};
    big[63] = 5;
    UniqueFunction<int(int)> large = [token, big](int x) { return x + big[63]; };
    EXPECT_EQ(token.use_count(), 3);
    UniqueFunction<int(int)> moved = std::move(large);
    EXPECT_FALSE(large);
    EXPECT_EQ(small(1), 2);
    EXPECT_EQ(moved(1), 6);
    moved = std::move(small);
    EXPECT_EQ(moved(1), 2);
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(SmallVectorTest, GrowsBeyondItsInlineSpace) {
  SmallVector<int, 2> v;
  for (int i = 0; i < 100; ++i) v.push_back(i);
  SmallVector<int, 2> copy = v;
  SmallVector<int, 2> moved = std::move(v);
  EXPECT_EQ(copy, moved);
  EXPECT_EQ(moved.size(), 100u);
  moved.EraseAt(0);
  EXPECT_EQ(moved[0], 1);
  moved.resize(3);
  EXPECT_THAT(moved, ElementsAre(1, 2, 3));
}

struct Counted : RefCounted {
  explicit Counted(int* n) : alive(n) { ++*alive; }
  ~Counted() override { --*alive; }
  int* alive;
};

TEST(RefPtrTest, LastReferenceDestroys) {
  int alive = 0;
  RefPtr<Counted> a = MakeRef<Counted>(&alive);
  EXPECT_TRUE(a->RefCountIsOne());
  RefPtr<RefCounted> b = a;
  RefPtr<Counted> c = ShareRef(a.get());
  EXPECT_EQ(a->RefCountForTest(), 3);
  a.reset();
  c = std::move(a);
  EXPECT_EQ(alive, 1);
  b.reset();
  EXPECT_EQ(alive, 0);
}

std::string logged;

TEST(LoggingTest, SinkSeesTheLine) {
  SetLogSinkForTest(
      [](LogLevel level, std::string_view text) { logged = StrCat(static_cast<int>(level), ":", text); });
  MR_LOG(Warning) << "x=" << 3;
  SetLogSinkForTest(nullptr);
  EXPECT_EQ(logged, "1:x=3");
  MR_CHECK(true);
}

TEST(LoggingTest, HandlersTakeWhatIsSevereEnough) {
  static std::vector<std::string> lines;
  lines.clear();
  const LogSeverity before = MinLogSeverity();
  SetLogHandler([](LogSeverity severity, std::string_view file, int line, std::string_view message) {
    lines.push_back(StrCat(static_cast<int>(severity), " ", file, " ", line > 0, " ", message));
  });
  SetMinLogSeverity(LogSeverity::kWarning);
  MR_LOG(Info) << "dropped";
  MR_LOG(Warning) << "taken";
  SetMinLogSeverity(LogSeverity::kNone);
  MR_LOG(Error) << "dropped";
  SetMinLogSeverity(LogSeverity::kInfo);
  MR_LOG(Info) << "taken too";
  SetLogHandler(nullptr);
  SetMinLogSeverity(before);
  EXPECT_EQ(lines, (std::vector<std::string>{"1 base_test.cc 1 taken", "0 base_test.cc 1 taken too"}));
}

TEST(LoggingTest, HandlersMayBeReplacedWhileOthersLog) {
  SetMinLogSeverity(LogSeverity::kInfo);
  std::atomic<int> taken{0};
  SetLogHandler([&](LogSeverity, std::string_view, int, std::string_view) { ++taken; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) MR_LOG(Info) << i;
    });
  }
  for (int i = 0; i < 100; ++i)
    SetLogHandler([&](LogSeverity, std::string_view, int, std::string_view) { ++taken; });
  for (std::thread& thread : threads) thread.join();
  SetLogHandler(nullptr);
  EXPECT_EQ(taken, 4000);
}

// The environment is read once in a process, so each case runs in a separate process.
TEST(LoggingDeathTest, TheEnvironmentGivesTheLevel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto level_is = [](const char* variable, const char* value, LogSeverity expected) {
    setenv(variable, value, 1);
    EXPECT_EXIT(std::exit(MinLogSeverity() == expected ? 0 : 1), testing::ExitedWithCode(0), "")
        << variable << "=" << value;
    unsetenv(variable);
  };
  level_is("MILLRACE_LOG_LEVEL", "info", LogSeverity::kInfo);
  level_is("MILLRACE_LOG_LEVEL", "error", LogSeverity::kError);
  level_is("MILLRACE_LOG_LEVEL", "ERROR", LogSeverity::kError);
  level_is("MILLRACE_LOG_LEVEL", "nonsense", LogSeverity::kInfo);
  level_is("TF_CPP_MIN_LOG_LEVEL", "0", LogSeverity::kInfo);
  level_is("TF_CPP_MIN_LOG_LEVEL", "1", LogSeverity::kWarning);
  level_is("TF_CPP_MIN_LOG_LEVEL", "3", LogSeverity::kNone);
  level_is("TF_CPP_MIN_LOG_LEVEL", "17", LogSeverity::kNone);
  level_is("TF_CPP_MIN_LOG_LEVEL", "", LogSeverity::kInfo);
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 1);
  level_is("MILLRACE_LOG_LEVEL", "warning", LogSeverity::kWarning);
  unsetenv("TF_CPP_MIN_LOG_LEVEL");
}

TEST(LoggingDeathTest, FailedCheckNamesItsCondition) {
  const int x = 1;
  EXPECT_DEATH(MR_CHECK(x == 2), "check failed: x == 2");
}

}  // namespace
}  // namespace millrace
