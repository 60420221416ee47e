// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/checkpoint_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/checkpoint/bundle.h"

namespace millrace::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CheckpointStateTest, TextsAreParsed) {
  const auto state = ParseCheckpointState(
      "# a comment\nmodel_checkpoint_path: \"/a/b\\\"\\303\\244\\x41-2\"\n"
      "all_model_checkpoint_paths: 'x' \"y\" , all_model_checkpoint_paths: [\"p\", \"q\"]\n"
      "all_model_checkpoint_timestamps: 1.5e9;all_model_checkpoint_timestamps:[2, 3] "
      "last_preserved_timestamp : -1\n");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->model_checkpoint_path,
            "/a/b\"\xc3\xa4"
            "A-2");
  EXPECT_THAT(state->all_model_checkpoint_paths, ElementsAre("xy", "p", "q"));
  EXPECT_THAT(state->all_model_checkpoint_timestamps, ElementsAre(1.5e9, 2, 3));
  EXPECT_EQ(state->last_preserved_timestamp, -1);
  for (const char* bad :
       {"", "model_checkpoint_path", "model_checkpoint_path: x", "model_checkpoint_path: \"x", "other: 1",
        "model_checkpoint_path: \"x\n\"", "model_checkpoint_path: \"\\\"", "model_checkpoint_path: \"\\q\"",
        "last_preserved_timestamp: \"1\"", "all_model_checkpoint_paths: [\"a\" \"b\"", ": 1", "{"}) {
    EXPECT_TRUE(errors::IsInvalidArgument(ParseCheckpointState(bad).status())) << bad;
  }
}

TEST(CheckpointStateTest, StatesAreWrittenAsText) {
  const CheckpointState state{"/a\n/b", {"x", "/a\n/b"}, {1, 1511259025.25}, 7};
  EXPECT_EQ(CheckpointStateText(state),
            "model_checkpoint_path: \"/a\\n/b\"\n"
            "all_model_checkpoint_paths: \"x\"\n"
            "all_model_checkpoint_paths: \"/a\\n/b\"\n"
            "all_model_checkpoint_timestamps: 1\n"
            "all_model_checkpoint_timestamps: 1511259025.25\n"
            "last_preserved_timestamp: 7\n");
  EXPECT_EQ(ParseCheckpointState(CheckpointStateText(state))->model_checkpoint_path, "/a\n/b");
}

TEST(CheckpointStateTest, TheLatestIsFoundIfItsFilesExist) {
  MemEnv env;
  EXPECT_EQ(*LatestCheckpoint(env, "/d"), std::nullopt);
  ASSERT_EQ(UpdateCheckpointState(env, "/d", {"/d/p-2", {"/d/p-1"}, {}, 0}, {.save_relative_paths = true}),
            Status::Ok());
  EXPECT_EQ(*ReadFileToString(env, "/d/checkpoint"),
            "model_checkpoint_path: \"p-2\"\nall_model_checkpoint_paths: "
            "\"p-1\"\nall_model_checkpoint_paths: \"p-2\"\n");
  EXPECT_EQ(*LatestCheckpoint(env, "/d"), std::nullopt);
  ASSERT_EQ((*BundleWriter::Open(env, "/d/p-2"))->Finish(), Status::Ok());
  EXPECT_EQ(*LatestCheckpoint(env, "/d"), "/d/p-2");
  EXPECT_THAT((*ReadCheckpointState(env, "/d"))->all_model_checkpoint_paths, ElementsAre("/d/p-1", "/d/p-2"));
  // A checkpoint of the first format.
  ASSERT_EQ(WriteFileAtomically(env, "/d/v1", ""), Status::Ok());
  ASSERT_EQ(UpdateCheckpointState(env, "/d", {"/d/v1", {}, {}, 0}), Status::Ok());
  EXPECT_EQ(*ReadFileToString(env, "/d/checkpoint"),
            "model_checkpoint_path: \"/d/v1\"\nall_model_checkpoint_paths: \"/d/v1\"\n");
  EXPECT_EQ(*LatestCheckpoint(env, "/d"), "/d/v1");
  // A folder that was moved: the stored paths do not exist, but the files are in the folder.
  ASSERT_EQ((*BundleWriter::Open(env, "/new/p-2"))->Finish(), Status::Ok());
  ASSERT_EQ(UpdateCheckpointState(env, "/new", {"/old/p-2", {"/old/p-1"}, {}, 0}), Status::Ok());
  EXPECT_EQ(*LatestCheckpoint(env, "/new"), "/new/p-2");
  ASSERT_EQ(UpdateCheckpointState(env, "/new", {"/old/p-3", {}, {}, 0}), Status::Ok());
  EXPECT_EQ(*LatestCheckpoint(env, "/new"), std::nullopt);
  // Relative paths of a relative folder.
  ASSERT_EQ(UpdateCheckpointState(env, "run/logs", {"run/logs/p-3", {"run/old/p-1", "/abs/p-2"}, {}, 0}),
            Status::Ok());
  EXPECT_EQ(*ReadFileToString(env, "run/logs/checkpoint"),
            "model_checkpoint_path: \"p-3\"\nall_model_checkpoint_paths: \"../old/p-1\"\n"
            "all_model_checkpoint_paths: \"/abs/p-2\"\nall_model_checkpoint_paths: \"p-3\"\n");
  EXPECT_EQ((*ReadCheckpointState(env, "run/logs"))->model_checkpoint_path, "run/logs/p-3");
  ASSERT_EQ(WriteFileAtomically(env, "/d/checkpoint", "garbage"), Status::Ok());
  EXPECT_THAT(LatestCheckpoint(env, "/d").status().ToString(), HasSubstr("(in /d/checkpoint)"));
  EXPECT_FALSE(UpdateCheckpointState(env, "/d", {"", {}, {}, 0}).ok());
  EXPECT_FALSE(UpdateCheckpointState(env, "/d", {"x", {"x"}, {1, 2}, 0}).ok());
  EXPECT_THAT(UpdateCheckpointState(env, "/d", {"/d/checkpoint", {}, {}, 0}, {.save_relative_paths = true})
                  .ToString(),
              HasSubstr("conflicts with path used for checkpoint state"));
}

}  // namespace
}  // namespace millrace::io
