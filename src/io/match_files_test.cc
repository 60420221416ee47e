// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/match_files.h"

#include <fnmatch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace millrace::io {
namespace {

using ::testing::ElementsAre;

TEST(MatchFilesTest, PatternsMeanWhatTheyMeanToTheShell) {
  EXPECT_TRUE(MatchesPattern("*.tfrecord", "train.tfrecord"));
  EXPECT_TRUE(MatchesPattern("a\\*", "a*"));
  EXPECT_FALSE(MatchesPattern("a\\*", "ab"));
  EXPECT_TRUE(MatchesPattern("[", "["));
  std::mt19937 random(3);
  const std::string alphabet = "ab*?[]-^!c";
  for (int i = 0; i < 20000; ++i) {
    std::string pattern(random() % 8, ' '), text(random() % 8, ' ');
    for (char& c : pattern) c = alphabet[random() % alphabet.size()];
    for (char& c : text) c = "abc]-"[random() % 5];
    // Neither the library nor the standard defines the meaning of unusual sets.
    if (pattern.find("[") != std::string::npos && pattern.find_first_of("-^!") != std::string::npos) continue;
    if (pattern.find("[[") != std::string::npos || pattern.find("[]") != std::string::npos) continue;
    EXPECT_EQ(MatchesPattern(pattern, text), fnmatch(pattern.c_str(), text.c_str(), 0) == 0)
        << pattern << " " << text;
  }
  EXPECT_TRUE(MatchesPattern("x[a-c]", "xb"));
  EXPECT_FALSE(MatchesPattern("x[a-c]", "xd"));
  EXPECT_FALSE(MatchesPattern("x[^a-c]", "xb"));
  EXPECT_TRUE(MatchesPattern("x[!a-c]", "xd"));
  EXPECT_TRUE(MatchesPattern("[]x]", "]"));
}

TEST(MatchFilesTest, ManyStarsTakeNoLongTime) {
  std::string pattern, text(2000, 'a');
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  EXPECT_TRUE(MatchesPattern(pattern, text));
  EXPECT_FALSE(MatchesPattern(pattern + "*b", text));
}

TEST(MatchFilesTest, FilesOfFolders) {
  MemEnv env;
  for (const char* dir : {"/d", "/d/e1", "/d/e2"}) ASSERT_TRUE(env.CreateDir(dir).ok());
  for (const char* file : {"/d/a.txt", "/d/b.txt", "/d/e1/a.txt", "/d/e2/b.txt", "/d/e2/c"}) {
    ASSERT_TRUE(WriteFileAtomically(env, file, "").ok());
  }
  EXPECT_THAT(*MatchingFiles(env, "/d/*.txt"), ElementsAre("/d/a.txt", "/d/b.txt"));
  EXPECT_THAT(*MatchingFiles(env, "/*/e?/[ab].txt"), ElementsAre("/d/e1/a.txt", "/d/e2/b.txt"));
  EXPECT_THAT(*MatchingFiles(env, "/d/e2/c"), ElementsAre("/d/e2/c"));
  EXPECT_THAT(*MatchingFiles(env, "/d/*/c"), ElementsAre("/d/e2/c"));
  for (const char* none : {"", "/d/none", "/none/*", "/d/a.txt/*", "*"}) {
    EXPECT_THAT(*MatchingFiles(env, none), ElementsAre()) << none;
  }
}

TEST(MatchFilesTest, FoldersAreMadeWhereTheyAreMissing) {
  MemEnv env;
  ASSERT_TRUE(MakeFolders(env, "/a/b/c").ok());
  EXPECT_TRUE(env.FileExists("/a/b/c"));
  EXPECT_TRUE(MakeFolders(env, "/a/b/c").ok());
  EXPECT_TRUE(MakeFolders(env, "").ok());
  EXPECT_FALSE(MakeFolders(Env::Posix(), "/dev/null/x").ok());
}

}  // namespace
}  // namespace millrace::io
