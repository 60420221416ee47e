// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/denied_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "distributed/security.h"
#include "graph/testing.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Status Check(const std::vector<std::string>& denied, const char* graph) {
  const auto ops = DeniedOps::Parse(denied);
  EXPECT_TRUE(ops.ok()) << ops.status();
  return ops.ok() ? ops->Check(GraphDefFromText(graph)) : ops.status();
}

TEST(DeniedOpsTest, NodesAreNamed) {
  constexpr char kGraph[] = R"(node { name: "n" op: "NoOp" } node { name: "r" op: "ReadFile" input: "f" })";
  EXPECT_EQ(Check({}, kGraph), Status());
  EXPECT_EQ(Check({"callback", "WriteFile"}, kGraph), Status());
  for (const char* denied : {"file_access", "ReadFile"}) {
    const Status status = Check({"network", denied}, kGraph);
    EXPECT_TRUE(errors::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Op type ReadFile is denied"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("node r has it"));
  }
}

TEST(DeniedOpsTest, FunctionsAndOpsCalledAsFunctions) {
  const Status inside = Check({"callback"}, R"(library { function { signature { name: "F" }
      node_def { name: "p" op: "PyFunc" } } })");
  EXPECT_TRUE(errors::IsPermissionDenied(inside)) << inside;
  EXPECT_THAT(std::string(inside.message()), HasSubstr("node p of function F"));
  EXPECT_TRUE(errors::IsPermissionDenied(Check({"ReadFile"}, R"(node { name: "c" op: "PartitionedCall"
      attr { key: "f" value { func { name: "ReadFile" } } } })")));
  EXPECT_TRUE(errors::IsPermissionDenied(Check({"ReadFile"}, R"(node { name: "c" op: "Case"
      attr { key: "branches" value { list { func { name: "G" } func { name: "ReadFile" } } } } })")));
}

TEST(DeniedOpsTest, UnknownNamesAreErrors) {
  const auto unknown = DeniedOps::Parse({"file-access"});
  EXPECT_TRUE(errors::IsNotFound(unknown.status())) << unknown.status();
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("file-access"));
}

// Detects new ops with file names that are missing in the list.
TEST(DeniedOpsTest, OpsWithFileNamesTouchFiles) {
  const auto denied = DeniedOps::Parse({"file_access"});
  ASSERT_TRUE(denied.ok()) << denied.status();
  // They combine names, or their names are not those of files.
  const std::set<std::string> harmless = {"ShardedFilename", "ShardedFilespec"};
  int seen = 0;
  for (const OpRegistration* op : OpRegistry::Global().All()) {
    bool names_file = false;
    const auto look = [&](const std::string& name) {
      for (const char* part :
           {"filename", "file_pattern", "_file", "ckpt_path", "logdir", "descriptor_source", "debug_urls"})
        names_file = names_file || name.find(part) != std::string::npos;
    };
    for (const ArgDef& input : op->def.inputs) look(input.name);
    for (const AttrDef& attr : op->def.attrs) look(attr.name);
    if (!names_file || harmless.contains(op->def.name)) continue;
    ++seen;
    EXPECT_TRUE(denied->Has(op->def.name)) << op->def.name;
  }
  EXPECT_GT(seen, 10);
}

std::string Write(const std::string& name, const std::string& text) {
  std::string path = StrCat(::testing::TempDir(), "denied_ops_test_", ::getpid(), "_", name);
  std::ofstream(path) << text;
  return path;
}

TEST(SecurityTest, TokensAndCertificatesAreChecked) {
  const std::string pem = Write("pem", "-----BEGIN CERTIFICATE-----\n");
  EXPECT_EQ(LoadSecurity({.token_file = Write("token", "0123456789abcdef\n")})->token, "0123456789abcdef");
  EXPECT_FALSE(LoadSecurity({.ca_file = pem})->authenticates());
  EXPECT_TRUE(LoadSecurity({.ca_file = pem})->encrypts());
  EXPECT_TRUE(LoadSecurity({.ca_file = pem, .certificate_file = pem, .key_file = pem})->authenticates());
  for (const char* text :
       {"", "short", "0123456789abcdef 0123456789abcdef", "0123456789abcdef\n0123456789"}) {
    const auto loaded = LoadSecurity({.token_file = Write("token", text)});
    EXPECT_TRUE(errors::IsInvalidArgument(loaded.status())) << loaded.status();
  }
  EXPECT_TRUE(errors::IsInvalidArgument(LoadSecurity({.certificate_file = pem}).status()));
  EXPECT_TRUE(errors::IsInvalidArgument(LoadSecurity({.ca_file = Write("no_pem", "x")}).status()));
  EXPECT_TRUE(errors::IsNotFound(LoadSecurity({.token_file = "/nowhere"}).status()));
}

TEST(SecurityTest, SecretsAreComparedWhole) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("abc", ""));
}

}  // namespace
}  // namespace millrace
