// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/graph_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "millrace/client_session.h"
#include "millrace/ops.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// y = x * x + 3 in the text form.
constexpr const char* kSquare = R"(
  node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
  node { name: "three" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 3 } } } }
  node { name: "xx" op: "Mul" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
  node { name: "y" op: "Add" input: "xx" input: "three" attr { key: "T" value { type: DT_FLOAT } } }
)";

float SquareOf(Session& session, float x) {
  std::vector<Tensor> outputs;
  const Status status = session.Run({{"x", Tensor::Scalar(x)}}, {"y:0"}, {}, &outputs);
  EXPECT_TRUE(status.ok()) << status;
  return outputs.empty() ? -1 : outputs[0].scalar<float>();
}

std::string TempFile(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / ("graph_def_test_" + name)).string();
}

TEST(GraphDefTest, GraphsAreImportedFromTextAndFromBytes) {
  const Scope scope = Scope::NewRootScope();
  ImportGraphDefOptions options;
  options.return_outputs = {"y:0", "x"};
  options.return_operations = {"xx"};
  const auto imported = ImportGraphDef(scope, kSquare, options);
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->outputs.size(), 2u);
  EXPECT_EQ(Scope::NameOf(imported->operations[0]), "xx");
  const Output doubled = ops::Mul(scope, imported->outputs[0], 2.f);
  std::vector<Tensor> outputs;
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({{imported->outputs[1], 2.f}}, {doubled}, &outputs).ok());
  EXPECT_EQ(outputs[0].scalar<float>(), 14);

  const auto bytes = SerializeGraphDef(scope);
  ASSERT_TRUE(bytes.ok());
  const Scope copy = Scope::NewRootScope();
  ASSERT_TRUE(ImportGraphDef(copy, *bytes).ok());
  EXPECT_EQ(*SerializeGraphDef(copy), *bytes);
}

TEST(GraphDefTest, PrefixesMapsAndControlDependenciesApply) {
  const Scope scope = Scope::NewRootScope();
  const Output five = ops::Const(scope.WithOpName("five"), 5.f);
  ImportGraphDefOptions options;
  options.prefix = "twice";
  options.input_map = {{"x:0", five}};
  options.control_dependencies = {Operation(five)};
  options.return_outputs = {"y"};
  const auto imported = ImportGraphDef(scope, kSquare, options);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Scope::NameOf(imported->outputs[0]), "twice/y");
  std::vector<Tensor> outputs;
  const ClientSession session(scope);
  ASSERT_TRUE(session.Run({imported->outputs[0]}, &outputs).ok());
  EXPECT_EQ(outputs[0].scalar<float>(), 28);

  EXPECT_EQ(ImportGraphDef(scope, kSquare, options).status().code(), ErrorCode::kAlreadyExists);
  options.uniquify_names = true;
  const auto again = ImportGraphDef(scope, kSquare, options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Scope::NameOf(again->outputs[0]), "twice/y_1");
}

TEST(GraphDefTest, ErrorsLeaveTheGraphAsItWas) {
  const Scope scope = Scope::NewRootScope();
  const Scope other = Scope::NewRootScope();
  const Output foreign = ops::Const(other, 1.f);
  const std::string before = *SerializeGraphDef(scope);
  const auto fails = [&](std::string_view bytes, const ImportGraphDefOptions& options, const char* text) {
    const Status status = ImportGraphDef(scope, bytes, options).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(*SerializeGraphDef(scope), before);
    EXPECT_TRUE(scope.ok());
  };
  fails("\x01\x02 no graph", {}, "Invalid GraphDef");
  fails("node { name: 'n' op: 'NoSuchOp' }", {}, "NoSuchOp");
  fails("node { name: 'n' op: 'Neg' input: 'missing' }", {}, "missing");
  fails(kSquare, {.return_outputs = {"z"}}, "no node 'z'");
  fails(kSquare, {.return_outputs = {"y:1"}}, "has no output 1");
  fails(kSquare, {.return_operations = {"z"}}, "no node 'z'");
  fails(kSquare, {.input_map = {{"x", foreign}}}, "not of the scope's graph");
  fails(kSquare, {.input_map = {{"x", Output()}}}, "not of the scope's graph");
  fails(kSquare, {.control_dependencies = {Operation()}}, "not of the scope's graph");
  // After these failures an import still works.
  EXPECT_TRUE(ImportGraphDef(scope, kSquare).ok());
}

TEST(GraphDefTest, ShapesAreCheckedUnlessAskedNotTo) {
  constexpr const char* kBad = R"(
    node { name: "a" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape { dim { size: 2 } dim { size: 3 } } } } }
    node { name: "m" op: "MatMul" input: "a" input: "a" attr { key: "T" value { type: DT_FLOAT } } })";
  EXPECT_EQ(ImportGraphDef(Scope::NewRootScope(), kBad).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(ImportGraphDef(Scope::NewRootScope(), kBad, {.validate_shapes = false}).ok());
}

TEST(GraphDefTest, FilesOfBothFormsAreLoaded) {
  const std::string text = TempFile("square.pbtxt");
  std::ofstream(text) << kSquare;
  const auto session = LoadSession(text);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(SquareOf(**session, 3), 12);

  const Scope scope = Scope::NewRootScope();
  ASSERT_TRUE(LoadGraph(scope, text).ok());
  const std::string binary = TempFile("square.pb");
  ASSERT_TRUE(SaveGraph(scope, binary).ok());
  const auto second = LoadSession(binary);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(SquareOf(**second, 4), 19);

  EXPECT_EQ(LoadSession(TempFile("missing.pb")).status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(LoadGraph(scope, TempFile("missing.pb")).status().code(), ErrorCode::kNotFound);
  std::remove(text.c_str());
  std::remove(binary.c_str());
}

TEST(GraphDefTest, SessionsTakeGraphsInBytes) {
  auto session = NewSession({});
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(CreateSessionGraph(**session, "\xff\xff").code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(CreateSessionGraph(**session, kSquare).ok());
  EXPECT_EQ(CreateSessionGraph(**session, kSquare).code(), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(ExtendSessionGraph(**session, R"(
    node { name: "z" op: "Neg" input: "y" attr { key: "T" value { type: DT_FLOAT } } })")
                  .ok());
  std::vector<Tensor> outputs;
  ASSERT_TRUE((*session)->Run({{"x", Tensor::Scalar(1.f)}}, {"z"}, {}, &outputs).ok());
  EXPECT_EQ(outputs[0].scalar<float>(), -4);
}

TEST(GraphDefTest, NodesAndTensorsAreFoundByName) {
  const Scope scope = Scope::NewRootScope();
  ASSERT_TRUE(ImportGraphDef(scope, kSquare).ok());
  EXPECT_EQ(Scope::NameOf(*FindOutput(scope, "y:0")), "y");
  EXPECT_EQ(Scope::NameOf(*FindOperation(scope, "xx")), "xx");
  EXPECT_EQ(FindOutput(scope, "y:1").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(FindOutput(scope, "nothing").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(FindOutput(scope, "").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(FindOperation(scope, "y:0").status().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace millrace
