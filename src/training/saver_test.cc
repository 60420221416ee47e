// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cc/scope_state.h"
#include "graph/graph.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "millrace/checkpoint_reader.h"
#include "millrace/ops.h"
#include "millrace/optimizers.h"
#include "training/saved_model_testing.h"

namespace millrace {
namespace {

using saved_model_testing::NewFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<float> Floats(const Tensor& tensor) {
  const auto flat = tensor.flat<float>();
  return {flat.begin(), flat.end()};
}

// Variables a, of 2, and b, of 1, in a session.
struct Model {
  explicit Model(float begin = 1)
      : a(scope.WithOpName("a"), Literal({begin, begin + 1})),
        b(scope.WithOpName("b"), Literal({begin + 2})) {}

  void Initialize() { Check(session.Run({}, {}, {GlobalVariablesInitializer(scope)}, nullptr)); }
  std::vector<float> Values() {
    std::vector<Tensor> values;
    const Status status = session.Run({a.value(), b.value()}, &values);
    if (!status.ok()) {
      ADD_FAILURE() << status;
      return {};
    }
    std::vector<float> all = Floats(values[0]);
    for (const float value : Floats(values[1])) all.push_back(value);
    return all;
  }
  static void Check(const Status& status) { EXPECT_TRUE(status.ok()) << status; }

  Scope scope = Scope::NewRootScope();
  GraphVariable a, b;
  ClientSession session{scope};
};

std::vector<std::string> NamesBelow(const Scope& scope, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Node* node : scope.graph().OpNodes()) {
    if (node->name().starts_with(prefix)) names.push_back(node->name());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(SaverTest, NodesHaveTheNamesOfTensorFlow) {
  Model model;
  const Saver saver(model.scope);
  ASSERT_TRUE(model.scope.ok()) << model.scope.status();
  EXPECT_THAT(NamesBelow(model.scope, "save"),
              ElementsAre("save/Assign", "save/Assign_1", "save/Const", "save/RestoreV2",
                          "save/RestoreV2/shape_and_slices", "save/RestoreV2/tensor_names",
                          "save/RestoreV2_1", "save/RestoreV2_1/shape_and_slices",
                          "save/RestoreV2_1/tensor_names", "save/SaveV2", "save/SaveV2/shape_and_slices",
                          "save/SaveV2/tensor_names", "save/control_dependency", "save/restore_all"));
  EXPECT_EQ(saver.def(), (SaverDef{"save/Const:0", "save/control_dependency:0", "save/restore_all", 5, false,
                                   10000, CheckpointFormat::kV2}));
  const Node* const assign = model.scope.graph().FindNode("save/Assign_1");
  EXPECT_THAT(*assign->Attr<std::vector<std::string>>("_class"), ElementsAre("loc:@b"));
  EXPECT_EQ((*assign->InputEdge(0))->src->name(), "b");
  EXPECT_EQ((*assign->InputEdge(1))->src->name(), "save/RestoreV2_1");
  const Saver second(model.scope);
  EXPECT_EQ(second.def().restore_op_name, "save_1/restore_all");
}

TEST(SaverTest, WhatIsSavedIsRestored) {
  const std::string dir = NewFolder();
  Model first(1);
  first.Initialize();
  Saver saver(first.scope);
  const auto path = saver.Save(first.session, dir + "/model", {.global_step = 7});
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, dir + "/model-7");
  for (const char* file : {"checkpoint", "model-7.index", "model-7.data-00000-of-00001", "model-7.meta"}) {
    EXPECT_TRUE(std::filesystem::exists(dir + "/" + file)) << file;
  }
  EXPECT_EQ(LatestCheckpoint(dir), *path);
  EXPECT_TRUE(CheckpointExists(*path));
  EXPECT_FALSE(CheckpointExists(dir + "/model"));

  Model second(50);
  const Saver other(second.scope);
  const Status restored = other.Restore(second.session, *path);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_THAT(second.Values(), ElementsAre(1, 2, 3));
}

TEST(CheckpointReaderTest, ReadsBothFormatsWithoutAGraph) {
  const std::string dir = NewFolder();
  for (const CheckpointFormat format : {CheckpointFormat::kV1, CheckpointFormat::kV2}) {
    Model model(1);
    model.Initialize();
    Saver saver(model.scope, {.write_version = format});
    const auto path = saver.Save(model.session, dir + "/model");
    ASSERT_TRUE(path.ok()) << path.status();
    const auto reader = CheckpointReader::Open(*path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->variables().size(), 2u);
    for (const auto& [name, variable] : (*reader)->variables()) {
      const StatusOr<Tensor> value = (*reader)->GetTensor(name);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(value->dtype(), variable.dtype);
      EXPECT_EQ(value->shape(), variable.shape);
      EXPECT_TRUE((*reader)->HasTensor(name));
      EXPECT_THAT((*reader)->DebugString(), HasSubstr(name + " (DT_FLOAT) "));
    }
    EXPECT_FALSE((*reader)->HasTensor("nix"));
    EXPECT_TRUE(errors::IsNotFound((*reader)->GetTensor("nix").status()));
    std::ofstream(format == CheckpointFormat::kV1 ? *path : *path + ".index") << "rubbish";
    EXPECT_TRUE(errors::IsDataLoss(CheckpointReader::Open(*path).status()));
  }
  EXPECT_TRUE(errors::IsNotFound(CheckpointReader::Open(dir + "/none").status()));
}

TEST(SaverTest, EveryFormRestoresWhatItSaved) {
  for (const CheckpointFormat format : {CheckpointFormat::kV1, CheckpointFormat::kV2}) {
    for (const bool sharded : {false, true}) {
      for (const bool reshape : {false, true}) {
        const std::string dir = NewFolder();
        Model model(5);
        model.Initialize();
        Saver saver(model.scope, {.reshape = reshape,
                                  .sharded = sharded,
                                  .name = "keep",
                                  .restore_sequentially = reshape,
                                  .write_version = format});
        const auto path = saver.Save(model.session, dir + "/m");
        ASSERT_TRUE(path.ok()) << path.status();
        Model other(0);
        const Saver restorer(other.scope, {.reshape = reshape, .sharded = sharded, .write_version = format});
        const Status restored = restorer.Restore(other.session, *path);
        ASSERT_TRUE(restored.ok()) << restored;
        EXPECT_THAT(other.Values(), ElementsAre(5, 6, 7));
        EXPECT_TRUE(std::filesystem::exists(dir + "/m.meta"));
      }
    }
  }
}

TEST(SaverTest, ShardsAreMadeForEachDevice) {
  const std::string dir = NewFolder();
  const Scope scope = Scope::NewRootScope();
  const GraphVariable a(scope.WithDevice("/cpu:0").WithOpName("a"), Literal({1.f}));
  const GraphVariable b(scope.WithDevice("/cpu:1").WithOpName("b"), Literal({2.f}));
  SessionOptions options;
  options.device_count["CPU"] = 2;
  const ClientSession session(scope, options);
  ASSERT_TRUE(session.Run({}, {}, {GlobalVariablesInitializer(scope)}, nullptr).ok());
  Saver saver(scope, {.sharded = true});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(saver.def().save_tensor_name, "save/Identity:0");
  for (const char* name :
       {"save/num_shards", "save/StringJoin", "save/StringJoin/inputs_1", "save/ShardedFilename_1",
        "save/ShardedFilename_1/shard", "save/SaveV2_1", "save/control_dependency_1",
        "save/MergeV2Checkpoints", "save/MergeV2Checkpoints/checkpoint_prefixes", "save/restore_shard",
        "save/restore_shard_1", "save/restore_all", "save/restore_all/NoOp", "save/restore_all/NoOp_1"}) {
    EXPECT_NE(scope.graph().FindNode(name), nullptr) << name;
  }
  const auto path = saver.Save(session, dir + "/m");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_TRUE(std::filesystem::exists(dir + "/m.data-00001-of-00002"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 5);  // no temporary folder remains
  ASSERT_TRUE(saver.Restore(session, *path).ok());
}

TEST(SaverTest, PartsOfAVariableAreSavedUnderItsName) {
  const std::string dir = NewFolder();
  const Scope scope = Scope::NewRootScope();
  const GraphVariable top(scope.WithOpName("w/part_0"), Literal({{1.f, 2.f}}));
  const GraphVariable rest(scope.WithOpName("w/part_1"), Literal({{3.f, 4.f}, {5.f, 6.f}}));
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {GlobalVariablesInitializer(scope)}, nullptr).ok());
  const SaveSliceInfo first{"w", {3, 2}, {0, 0}, {1, 2}}, second{"w", {3, 2}, {1, 0}, {2, 2}};
  EXPECT_EQ(second.Spec(), "3 2 1,2:0,2");
  Saver saver(scope, {{"w", top.ref(), first}, {"w", rest.ref(), second}}, {});
  const auto path = saver.Save(session, dir + "/m");
  ASSERT_TRUE(path.ok()) << path.status();
  auto reader = io::CheckpointReader::Open(Env::Posix(), *path);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(Floats(*(*reader)->GetTensor("w")), ElementsAre(1, 2, 3, 4, 5, 6));
  // A graph in which the variable is not partitioned restores it, too.
  const Scope whole = Scope::NewRootScope();
  const GraphVariable w(whole.WithOpName("w"), Literal({{0.f, 0.f}, {0.f, 0.f}, {0.f, 0.f}}));
  const ClientSession other(whole);
  const Saver restorer(whole);
  ASSERT_TRUE(restorer.Restore(other, *path).ok());
  std::vector<Tensor> value;
  ASSERT_TRUE(other.Run({w.value()}, &value).ok());
  EXPECT_THAT(Floats(value[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(SaverTest, ResourceVariablesAreSavedByTheirHandles) {
  const std::string dir = NewFolder();
  const Scope scope = Scope::NewRootScope();
  const Output handle = ops::VarHandleOp(scope.WithOpName("r"), DataType::kFloat, PartialShape({2}),
                                         ops::VarHandleOp::SharedName("r"));
  const Operation init = ops::AssignVariableOp(scope, handle, {8.f, 9.f});
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok());
  Saver saver(scope, {{"r", handle}}, {});
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto path = saver.Save(session, dir + "/m");
  ASSERT_TRUE(path.ok()) << path.status();
  const Output zero = ops::Const(scope, {0.f, 0.f});
  ASSERT_TRUE(session.Run({}, {}, {ops::AssignVariableOp(scope, handle, zero)}, nullptr).ok());
  ASSERT_TRUE(saver.Restore(session, *path).ok());
  std::vector<Tensor> value;
  ASSERT_TRUE(session.Run({ops::ReadVariableOp(scope, handle, DataType::kFloat)}, &value).ok());
  EXPECT_THAT(Floats(value[0]), ElementsAre(8, 9));
}

TEST(SaverTest, OldCheckpointsGo) {
  const std::string dir = NewFolder();
  Model model;
  model.Initialize();
  Saver saver(model.scope, {.max_to_keep = 2});
  for (int step = 1; step <= 4; ++step)
    ASSERT_TRUE(saver.Save(model.session, dir + "/m", {.global_step = step}).ok());
  EXPECT_THAT(saver.last_checkpoints(), ElementsAre(dir + "/m-3", dir + "/m-4"));
  for (const char* file : {"m-2.index", "m-2.meta", "m-2.data-00000-of-00001"}) {
    EXPECT_FALSE(std::filesystem::exists(dir + "/" + file)) << file;
  }
  EXPECT_TRUE(CheckpointExists(dir + "/m-3"));
  EXPECT_EQ(LatestCheckpoint(dir), dir + "/m-4");
  // A saver of a later run takes over those that still exist.
  Saver later(model.scope, {.max_to_keep = 2});
  later.RecoverLastCheckpoints({dir + "/m-1", dir + "/m-3", dir + "/m-4"});
  EXPECT_THAT(later.last_checkpoints(), ElementsAre(dir + "/m-3", dir + "/m-4"));
  ASSERT_TRUE(later.Save(model.session, dir + "/m", {.global_step = 5}).ok());
  EXPECT_FALSE(CheckpointExists(dir + "/m-3"));
}

// The values written in the background are those at the call of Save, whatever the following steps do.
TEST(SaverTest, StepsContinueWhileACheckpointIsWritten) {
  constexpr int64_t kSize = 1 << 20;
  for (const bool resource : {false, true}) {
    const std::string dir = NewFolder();
    const Scope scope = Scope::NewRootScope();
    const Output ones = ops::Fill(scope, {static_cast<int32_t>(kSize)}, 1.f);
    std::vector<GraphVariable> variables;
    for (const char* name : {"a", "b", "c"}) {
      variables.emplace_back(scope.WithOpName(name), ones, GraphVariable::Options{.resource = resource});
    }
    std::vector<Operation> updates;
    updates.reserve(variables.size());
    for (const GraphVariable& v : variables) updates.emplace_back(v.AssignAdd(scope, ones));
    const Operation step = ops::NoOp(scope.WithControlDependencies(updates));
    Saver saver(scope, {.max_to_keep = 2});
    const Operation init = GlobalVariablesInitializer(scope);
    ASSERT_TRUE(scope.ok()) << scope.status();
    const ClientSession session(scope);
    ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok());
    for (int64_t i = 1; i <= 3; ++i) {
      const auto path = saver.Save(session, dir + "/m", {.global_step = i, .write_behind = true});
      ASSERT_TRUE(path.ok()) << path.status();
      for (int k = 0; k < 5; ++k) ASSERT_TRUE(session.Run({}, {}, {step}, nullptr).ok());
    }
    const Status finished = saver.Finish();
    ASSERT_TRUE(finished.ok()) << finished;
    EXPECT_EQ(LatestCheckpoint(dir), dir + "/m-3");
    EXPECT_FALSE(CheckpointExists(dir + "/m-1"));
    for (const int64_t i : {2, 3}) {
      const ClientSession later(scope);
      const Status restored = saver.Restore(later, StrCat(dir, "/m-", i));
      ASSERT_TRUE(restored.ok()) << restored;
      for (const GraphVariable& v : variables) {
        std::vector<Tensor> value;
        ASSERT_TRUE(later.Run({v.value()}, &value).ok());
        const auto flat = std::as_const(value[0]).flat<float>();
        const auto wanted = static_cast<float>(1 + 5 * (i - 1));
        EXPECT_TRUE(std::ranges::all_of(flat, [&](float x) { return x == wanted; })) << flat[0];
      }
    }
  }
}

// Optimizers write new values beside those that are being saved, in the memory of earlier checkpoints; a step
// that changes some rows copies. Both leave all results bitwise unchanged.
TEST(SaverTest, TrainingWithCheckpointsWrittenBehindIsThatWithoutThem) {
  constexpr int32_t kRows = 5000, kColumns = 101;
  std::vector<std::vector<float>> ends, saved;
  for (const bool saves : {false, true}) {
    const std::string dir = NewFolder();
    const Scope scope = Scope::NewRootScope();
    const auto number = [&](float x) { return ops::Fill(scope, {kRows, kColumns}, x); };
    const GraphVariable dense(scope.WithOpName("dense"), number(1), {.resource = true});
    const GraphVariable rows(scope.WithOpName("rows"), number(2), {.resource = true});
    const GraphVariable old_kind(scope.WithOpName("old"), number(3), {.resource = false});
    const Output gradient = ops::Mul(scope, dense.value(), 0.5f);
    const Operation adam =
        AdamOptimizer(0.1f).ApplyGradients(scope, {{gradient, dense}, {gradient, old_kind}});
    const Operation some = ops::ResourceScatterAdd(scope, rows.ref(), ops::Const(scope, {7, 4999}),
                                                   ops::Fill(scope, {2, kColumns}, 1.f));
    const Operation step = ops::NoOp(scope.WithControlDependencies({adam, some}));
    Saver saver(scope, {.max_to_keep = 10});
    const Operation init = GlobalVariablesInitializer(scope);
    ASSERT_TRUE(scope.ok()) << scope.status();
    const ClientSession session(scope);
    ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok());
    const auto values = [&](const ClientSession& from) {
      std::vector<Tensor> tensors;
      EXPECT_TRUE(from.Run({dense.value(), rows.value(), old_kind.value()}, &tensors).ok());
      std::vector<float> all;
      for (const Tensor& t : tensors) all.insert(all.end(), t.flat<float>().begin(), t.flat<float>().end());
      return all;
    };
    for (int64_t i = 1; i <= 4; ++i) {
      if (saves) {
        saved.push_back(values(session));
        ASSERT_TRUE(saver.Save(session, dir + "/m", {.global_step = i, .write_behind = true}).ok());
      }
      for (int k = 0; k < 2; ++k) ASSERT_TRUE(session.Run({}, {}, {step}, nullptr).ok());
    }
    ASSERT_TRUE(saver.Finish().ok());
    ends.push_back(values(session));
    for (size_t i = 0; saves && i < saved.size(); ++i) {
      const ClientSession later(scope);
      ASSERT_TRUE(saver.Restore(later, StrCat(dir, "/m-", i + 1)).ok());
      EXPECT_TRUE(values(later) == saved[i]) << i;
    }
  }
  EXPECT_TRUE(ends[0] == ends[1]);
}

TEST(SaverTest, AnErrorOfABackgroundWriteIsReportedLater) {
  Model model;
  model.Initialize();
  Saver saver(model.scope);
  const std::string dir = NewFolder();
  const Saver::SaveOptions options{.write_meta_graph = false, .write_behind = true};
  saved_model_testing::WriteText(dir + "/file", "no folder");
  ASSERT_TRUE(saver.Save(model.session, dir + "/file/m", options).ok());
  EXPECT_FALSE(saver.Finish().ok());
  EXPECT_THAT(saver.last_checkpoints(), IsEmpty());
  EXPECT_TRUE(saver.Finish().ok());
  ASSERT_TRUE(saver.Save(model.session, dir + "/m", options).ok());
  EXPECT_TRUE(saver.Finish().ok());
  EXPECT_EQ(LatestCheckpoint(dir), dir + "/m");
}

TEST(SaverTest, PartsOfATensorAreWrittenBehindAsOne) {
  const std::string dir = NewFolder();
  const Scope scope = Scope::NewRootScope();
  const PartitionedVariable w =
      GetPartitionedVariable(scope, "w", {6}, {.initial_value = {}, .partitioner = FixedSizePartitioner(3)});
  Saver saver(scope, {.sharded = true});
  const Operation init = GlobalVariablesInitializer(scope);
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({}, {}, {init}, nullptr).ok());
  std::vector<Tensor> before, after;
  ASSERT_TRUE(session.Run({w.value()}, &before).ok());
  ASSERT_TRUE(saver.Save(session, dir + "/m", {.write_behind = true}).ok());
  const Status finished = saver.Finish();
  ASSERT_TRUE(finished.ok()) << finished;
  const ClientSession later(scope);
  ASSERT_TRUE(saver.Restore(later, dir + "/m").ok());
  ASSERT_TRUE(later.Run({w.value()}, &after).ok());
  EXPECT_EQ(Floats(before[0]), Floats(after[0]));
}

TEST(SaverTest, OneCheckpointInSomeHoursIsKept) {
  const std::string dir = NewFolder();
  Model model;
  model.Initialize();
  double now = 1000;
  Saver saver(model.scope, {.max_to_keep = 1, .keep_checkpoint_every_n_hours = 2});
  saver.set_clock_for_test([&] { return now; });
  for (int step = 1; step <= 8; ++step) {
    ASSERT_TRUE(saver.Save(model.session, dir + "/m", {.global_step = step, .write_meta_graph = false}).ok());
    now += 3600;
  }
  std::string kept;
  for (int step = 1; step <= 8; ++step) {
    if (CheckpointExists(dir + "/m-" + std::to_string(step))) kept += std::to_string(step) + " ";
  }
  EXPECT_EQ(kept, "4 6 8 ");  // the first after two hours, the first after four, the newest
}

TEST(SaverTest, MaxToKeepOfZeroKeepsAll) {
  const std::string dir = NewFolder();
  Model model;
  model.Initialize();
  Saver saver(model.scope, {.max_to_keep = 0, .pad_step_number = true});
  for (int step = 1; step <= 7; ++step)
    ASSERT_TRUE(saver.Save(model.session, dir + "/m", {.global_step = step}).ok());
  EXPECT_TRUE(CheckpointExists(dir + "/m-00000001"));
  EXPECT_THAT(saver.last_checkpoints(), IsEmpty());
}

TEST(SaverTest, RelativePathsOutliveAMove) {
  const std::string dir = NewFolder("before"), to = NewFolder("after");
  Model model;
  model.Initialize();
  Saver saver(model.scope, {.save_relative_paths = true});
  ASSERT_TRUE(saver.Save(model.session, dir + "/m").ok());
  std::filesystem::remove_all(to);
  std::filesystem::rename(dir, to);
  EXPECT_EQ(LatestCheckpoint(to), to + "/m");
}

TEST(SaverTest, MistakesAreNamed) {
  const std::string dir = NewFolder();
  Model model;
  Saver saver(model.scope);
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  EXPECT_EQ(message(saver.Save(model.session, dir + "/m", {.latest_filename = "a/b"})),
            "'latest_filename' must not contain path components");
  EXPECT_EQ(message(saver.Save(model.session, dir + "/checkpoint")),
            "'latest_filename' collides with 'save_path': 'checkpoint' and '" + dir + "/checkpoint'");
  EXPECT_THAT(message(saver.Save(model.session, dir + "/m")),
              HasSubstr("Attempting to use uninitialized value a"));
  EXPECT_EQ(saver.Restore(model.session, dir + "/no").message(),
            "The passed save_path is not a valid checkpoint: " + dir + "/no");

  const Scope empty = Scope::NewRootScope();
  Saver nothing(empty, {.allow_empty = true});
  EXPECT_TRUE(empty.ok());
  const ClientSession session(empty);
  EXPECT_EQ(*nothing.Save(session, dir + "/empty"), "");
  EXPECT_TRUE(std::filesystem::exists(dir + "/empty.meta"));
  EXPECT_TRUE(nothing.Restore(session, dir + "/empty").ok());
  const Saver refused(empty);
  EXPECT_EQ(empty.status().message(), "No variables to save");

  const Model twice;
  const Saver same(twice.scope, {{"x", twice.a.ref()}, {"x", twice.b.ref()}}, {});
  EXPECT_EQ(twice.scope.status().message(), "At least two variables have the same name: x");
}

TEST(SaverTest, AVariableThatTheCheckpointLacksIsExplained) {
  const std::string dir = NewFolder();
  Model model;
  model.Initialize();
  Saver saver(model.scope, {{"a", model.a.ref()}}, {});
  const auto path = saver.Save(model.session, dir + "/m");
  ASSERT_TRUE(path.ok()) << path.status();
  const Saver all(model.scope);
  const Status status = all.Restore(model.session, *path);
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_THAT(
      std::string(status.message()),
      testing::AllOf(testing::StartsWith(
                         "Restoring from checkpoint failed. This is most likely due to a Variable name or "
                         "other graph key that is missing from the checkpoint. Please ensure that you have "
                         "not altered the graph expected based on the checkpoint. Original error:\n\n"),
                     HasSubstr("Key b not found in checkpoint")));
  const Saver other(model.scope, {{"a", model.b.ref()}}, {});
  EXPECT_THAT(std::string(other.Restore(model.session, *path).message()),
              HasSubstr("due to a mismatch between the current graph and the graph from the checkpoint"));
}

TEST(SaverTest, MetaGraphsOfShardsAreNamedAfterTheWhole) {
  EXPECT_EQ(MetaGraphFilename("d/m-7"), "d/m-7.meta");
  EXPECT_EQ(MetaGraphFilename("d/m-7-00001-of-00002"), "d/m-7.meta");
  EXPECT_EQ(MetaGraphFilename(std::string("d/m-7-?????") + "-of-00002", "x"), "d/m-7.x");
  EXPECT_EQ(MetaGraphFilename("a-of-5"), "a-of-5.meta");
}

}  // namespace
}  // namespace millrace
