// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/function_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/function_def_builder.h"
#include "graph/graph_import.h"
#include "graph/testing.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

const AttrMap kFloat = {{"T", DataType::kFloat}};
const AttrMap kT = {{"T", "$T"}};

FunctionBuilder Twice() {
  return FunctionBuilder("Twice")
      .Arg("x: T")
      .Ret("y: T")
      .Attr("T: {float, int32}")
      .Node("sum", "Add", {"x", "x:0"}, kT)
      .Return("y", "sum:z");
}

// Adds the functions to a library the way an import does: the first error.
Status ImportFunctions(const std::vector<FunctionBuilder>& functions, Graph* graph) {
  tensorflow::GraphDef def;
  for (const FunctionBuilder& f : functions)
    MR_RETURN_IF_ERROR(f.Build(def.mutable_library()->add_function()));
  return ImportGraphDef(def, ImportOptions(), graph);
}

void ExpectRefused(const FunctionBuilder& function, const std::string& text) {
  Graph graph(TestOps());
  const Status status = ImportFunctions({function}, &graph);
  EXPECT_FALSE(status.ok()) << "expected: " << text;
  EXPECT_THAT(status.message(), HasSubstr(text));
  EXPECT_TRUE(graph.functions().empty());
}

class FunctionBodyTest : public ::testing::Test {
 protected:
  void Add(const std::vector<FunctionBuilder>& functions) {
    const Status status = ImportFunctions(functions, &graph_);
    ASSERT_TRUE(status.ok()) << status;
  }
  StatusOr<FunctionBody> Instantiate(const std::string& name, AttrMap attrs) {
    return InstantiateFunction(graph_.functions(), TestOps(),
                               {name, std::make_shared<const AttrMap>(std::move(attrs))});
  }
  std::string Text(const std::string& name, AttrMap attrs) {
    auto body = Instantiate(name, std::move(attrs));
    return body.ok() ? GraphText(*body->graph) : body.status().message();
  }
  Graph graph_{TestOps()};
};

TEST_F(FunctionBodyTest, AttributesAreBoundAtInstantiation) {
  Add({Twice()});
  auto body = Instantiate("Twice", {{"T", DataType::kInt32}});
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->arg_types, std::vector{DataType::kInt32});
  EXPECT_EQ(body->ret_types, std::vector{DataType::kInt32});
  EXPECT_EQ(GraphText(*body->graph), "x = _Arg()\nsum = Add(x, x)\ny_RetVal = _Retval(sum)\n");
  EXPECT_EQ(body->args[0]->name(), "x");
  EXPECT_EQ(body->rets[0]->name(), "y_RetVal");
}

TEST_F(FunctionBodyTest, UnboundAndForbiddenAttributesAreErrors) {
  Add({Twice()});
  EXPECT_THAT(Text("Twice", {}), HasSubstr("Attr T is not found from Op<name=Twice"));
  EXPECT_THAT(Text("Twice", {{"T", DataType::kString}}),
              HasSubstr("Value for attr 'T' of string is not in the list of allowed values: float, int32"));
  EXPECT_THAT(Text("Twice", {{"T", 3}}),
              HasSubstr("AttrValue had value with type 'int' when 'type' expected"));
  EXPECT_EQ(Text("Nope", {}), "Function Nope is not defined.");
}

TEST_F(FunctionBodyTest, ListArgumentsAreSpreadOut) {
  Add({FunctionBuilder("Lists")
           .Arg("xs: N * float")
           .Arg("ys: L")
           .Ret("all: N * float")
           .Ret("one: int32")
           .Attr("N: int >= 1")
           .Attr("L: list(type)")
           .Node("pack", "Pack", {"xs"}, {{"N", "$N"}, {"T", DataType::kFloat}})
           .Node("neg", "Neg", {"ys:1", "^ys", "^pack"}, {{"T", DataType::kInt32}})
           .Return("all", "xs")
           .Return("one", "neg:y")});
  EXPECT_EQ(Text("Lists", {{"N", 2}, {"L", std::vector{DataType::kFloat, DataType::kInt32}}}),
            "xs_0 = _Arg()\nxs_1 = _Arg()\nys_0 = _Arg()\nys_1 = _Arg()\npack = Pack(xs_0, xs_1)\n"
            "neg = Neg(ys_1, ^pack, ^ys_0)\nall_RetVal_0 = _Retval(xs_0)\nall_RetVal_1 = _Retval(xs_1)\n"
            "one_RetVal = _Retval(neg)\n");
}

TEST_F(FunctionBodyTest, FunctionsMayCallThemselvesAndLaterOnes) {
  Add({FunctionBuilder("Ping").Arg("x: float").Ret("y: float").Node("c", "Pong", {"x"}).Return("y", "c:y"),
       FunctionBuilder("Pong").Arg("x: float").Ret("y: float").Node("c", "Ping", {"x"}).Return("y", "c:y")});
  EXPECT_EQ(Text("Ping", {}), "x = _Arg()\nc = Pong(x)\ny_RetVal = _Retval(c)\n");
}

TEST_F(FunctionBodyTest, ControlReturnsAreKept) {
  Add({FunctionBuilder("F").Arg("x: float").Node("n", "NoOp", {"^x"}).ControlReturn("c", "n")});
  auto body = Instantiate("F", {});
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_EQ(body->control_rets.size(), 1u);
  EXPECT_EQ(body->control_rets[0]->name(), "n");
}

TEST_F(FunctionBodyTest, LibrarySurvivesExportAndImport) {
  Add({Twice().NoInline(),
       FunctionBuilder("F").Arg("x: float").Node("n", "NoOp", {"^x"}).ControlReturn("c", "n")});
  tensorflow::GraphDef exported;
  ExportGraphDef(graph_, &exported);
  Graph copy(TestOps());
  ASSERT_TRUE(ImportGraphDef(exported, ImportOptions(), &copy).ok());
  tensorflow::GraphDef again;
  ExportGraphDef(copy, &again);
  EXPECT_EQ(exported.library().SerializeAsString().size(), again.library().SerializeAsString().size());
  EXPECT_EQ(copy.functions().Names(), (std::vector<std::string>{"F", "Twice"}));
  EXPECT_TRUE(copy.functions().Merge(graph_.functions()).ok()) << "the same definitions";
}

TEST(FunctionValidationTest, BadBodiesAreRefusedAtImport) {
  const auto f = [] { return FunctionBuilder("F").Arg("x: float").Ret("y: float"); };
  ExpectRefused(f().Node("n", "NoSuchOp", {"x"}).Return("y", "n:y"), "Op type not registered 'NoSuchOp'");
  ExpectRefused(f().Node("n", "Neg", {"z"}, kFloat).Return("y", "n:y"), "input z is not found: {{node n}}");
  ExpectRefused(f().Node("n", "Neg", {"n2:z"}, kFloat).Return("y", "n:y"), "input n2:z is not found");
  ExpectRefused(f().Node("n", "Neg", {"x"}, {{"T", DataType::kInt32}}).Return("y", "n:y"),
                "input x[0] expected type int32 != float, the type of x[0]");
  ExpectRefused(f().Node("n", "Neg", {"x"}, kFloat), "Return y missing.");
  ExpectRefused(f().Node("n", "Neg", {"x"}, kFloat).Return("y", "n:nope"),
                "Return y -> n:nope is not found.");
  ExpectRefused(f().Node("n", "Neg", {"x"}, kFloat).Return("y", "n"), "Return y -> n is not found.");
  ExpectRefused(f().Node("n", "Neg", {"x", "^gone"}, kFloat).Return("y", "n:y"),
                "input[1] == '^gone', is not found.");
  ExpectRefused(f().Node("n", "Neg", {"^x", "x"}, kFloat).Return("y", "n:y"),
                "Expected input[1] == 'x' to be a control input.");
  ExpectRefused(f().Node("n", "Neg", {}, kFloat).Return("y", "n:y"),
                "Attempt to access beyond input size: 0");
  ExpectRefused(f().Node("n", "Neg", {"x", "x"}, kFloat).Return("y", "n:y"),
                "Expected input[1] == 'x' to be a control input.");
  ExpectRefused(f().Node("n", "Neg", {"x"}, {{"T", "$T"}}).Return("y", "n:y"),
                "Failed to bind all placeholders in");
  ExpectRefused(f().Node("n", "Const").Return("y", "n:output"), "NodeDef missing attr");
  ExpectRefused(f().Node("n", "Neg", {"x"}, kFloat).Node("n", "Neg", {"x"}, kFloat).Return("y", "n:y"),
                "Node 'n' is not unique");
  ExpectRefused(f().Node("x", "Neg", {"x"}, kFloat).Return("y", "x"), "Node 'x' is not unique");
  ExpectRefused(f().Node("n", "_Retval", {"x"}, {{"T", DataType::kFloat}, {"index", 0}}).Return("y", "x"),
                "op type '_Retval' is internal");
  ExpectRefused(f().Return("y", "x").ControlReturn("c", "gone"), "Control return c -> gone is not found.");
  ExpectRefused(f().Node("a", "Neg", {"b:y"}, kFloat).Node("b", "Neg", {"a:y"}, kFloat).Return("y", "b:y"),
                "contains a cycle with 2 nodes, including: a");
  ExpectRefused(FunctionBuilder("F").Arg("x: float").Ret("y: int32").Return("y", "x"),
                "Invalid ret types y : int32 vs. float");
  ExpectRefused(FunctionBuilder("F").Arg("x: Ref(float)"), "argument 'x' is a reference");
}

TEST(FunctionValidationTest, PolymorphicBodiesAreCheckedForTheirStructure) {
  ExpectRefused(Twice().Return("y", "gone:z"), "Return y -> gone:z is not found.");
  ExpectRefused(Twice().Node("n", "NoSuchOp"), "Op type not registered 'NoSuchOp'");
}

TEST(FunctionValidationTest, LongListsAreNotCopiedWithoutBound) {
  FunctionBuilder f("F");
  f.Attr("L: list(int) = [1, 2]");
  for (int i = 0; i < 300; ++i) f.Node(StrCat("n", i), "NoOp", {}, {{"_list", "$L"}});
  Graph graph(TestOps());
  ASSERT_TRUE(ImportFunctions({f}, &graph).ok());
  const AttrMap attrs{{"L", std::vector<int64_t>(100'000, 7)}};
  const auto body =
      InstantiateFunction(graph.functions(), TestOps(), {"F", std::make_shared<const AttrMap>(attrs)});
  EXPECT_TRUE(errors::IsResourceExhausted(body.status())) << body.status();
}

TEST(FunctionValidationTest, OpsKeepTheirNames) {
  ExpectRefused(FunctionBuilder("Neg").Arg("x: float").Ret("y: float").Return("y", "x"),
                "Cannot add function 'Neg' because an op with the same name already exists.");
}

TEST(FunctionValidationTest, ErrorsNameTheFunction) {
  ExpectRefused(FunctionBuilder("MyFunction").Ret("y: float"), "in function 'MyFunction'");
}

TEST(FunctionBuilderTest, ErrorsOfTheLanguageAreReturned) {
  tensorflow::GraphDef def;
  const Status status = FunctionBuilder("F").Arg("x T").Build(def.mutable_library()->add_function());
  EXPECT_TRUE(errors::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("in function 'F'"));
}

}  // namespace
}  // namespace millrace
