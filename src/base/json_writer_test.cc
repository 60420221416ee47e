// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace {
namespace {

TEST(JsonWriterTest, CommasStandBetweenValues) {
  JsonWriter json;
  json.BeginObject().Field("a", 1).Key("b").BeginArray().Value(2).Value("x").BeginArray().EndArray();
  json.EndArray().Field("c", true).Field("d", -0.5).EndObject();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[2,"x",[]],"c":true,"d":-0.5})");
}

TEST(JsonWriterTest, NumbersThatAreNoneBecomeNullAndOthersComeBackTheSame) {
  JsonWriter json;
  json.BeginArray().Value(NAN).Value(HUGE_VAL).Value(0.1).Value(1e300).Value(INT64_MIN).EndArray();
  EXPECT_EQ(json.text(), "[null,null,0.1,1e+300,-9223372036854775808]");
}

TEST(JsonWriterTest, TextsAreEscapedForJsonAndForHtml) {
  JsonWriter json;
  json.Value(std::string_view("\"\\\n\0</&é\xff\xc3", 11));
  EXPECT_EQ(json.text(), "\"\\\"\\\\\\u000a\\u0000\\u003c/\\u0026é\\ufffd\\ufffd\"");
}

TEST(JsonWriterTest, OverlongAndSurrogateBytesAreNoText) {
  JsonWriter json;
  json.Value("\xc0\x80\xed\xa0\x80\xf5\xf0\x9f\x98\x80");
  EXPECT_EQ(json.text(), "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\xf0\x9f\x98\x80\"");
}

TEST(JsonWriterTest, FloatsAreShortAndRangesAreArrays) {
  JsonWriter json;
  json.BeginObject().Field("a", 0.1f).Field("b", std::vector<double>{1e300, -0.0, NAN}).EndObject();
  EXPECT_EQ(json.text(), R"({"a":0.1,"b":[1e+300,-0,null]})");
}

}  // namespace
}  // namespace millrace
