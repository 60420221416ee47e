// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Behaviour of kernels that rows can't test: sharing of buffers, references, transfers, feeds and fetches.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

constexpr char kDevice[] = "/job:localhost/replica:0/task:0/device:CPU:0";

RefPtr<Variable> MakeVariable(Tensor value) {
  auto variable = MakeRef<Variable>(value.dtype());
  variable->is_initialized = true;
  variable->tensor() = std::move(value);
  return variable;
}

TEST(ElementwiseTest, ASoleInputIsWorkedOnInPlace) {
  for (const char* op : {"Neg", "Exp"}) {
    Tensor x = Tensor::Vector<float>({1, 2});
    const void* data = x.raw_data();
    KernelRunner runner(op);
    runner.OwnedInput(std::move(x));
    auto out = runner.RunOne();
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->raw_data(), data) << op;
  }
}

TEST(ElementwiseTest, EitherSoleArgumentServes) {
  for (const bool first : {true, false}) {
    Tensor own = Tensor::Vector<float>({1, 2});
    const Tensor held = Tensor::Vector<float>({10, 20});
    const void* data = own.raw_data();
    KernelRunner runner("Sub");
    if (first) runner.OwnedInput(std::move(own));
    runner.Input(held);
    if (!first) runner.OwnedInput(std::move(own));
    auto out = runner.RunOne();
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->raw_data(), data);
    ExpectTensorEqual(Tensor::Vector<float>(first ? std::vector<float>{-9, -18} : std::vector<float>{9, 18}),
                      *out);
    ExpectTensorEqual(Tensor::Vector<float>({10, 20}), held);
  }
}

TEST(ElementwiseTest, ABroadcastArgumentIsNotOverwritten) {
  KernelRunner runner("Add");
  runner.OwnedInput(Tensor::From<float>({1, 2}, TensorShape({2, 1})))
      .OwnedInput(Tensor::Vector<float>({10, 20}));
  auto out = runner.RunOne();
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensorEqual(Tensor::From<float>({11, 21, 12, 22}, TensorShape({2, 2})), *out);
}

TEST(ViewTest, ReshapesAndRowsShareTheBuffer) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 4}, TensorShape({2, 2}));
  KernelRunner reshape("Reshape");
  auto flat = reshape.Input(x).Input(Tensor::Vector<int32_t>({4})).RunOne();
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_TRUE(flat->SharesBufferWith(x));
  KernelRunner slice("Slice");
  auto row =
      slice.Input(x).Input(Tensor::Vector<int32_t>({1, 0})).Input(Tensor::Vector<int32_t>({1, 2})).RunOne();
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_TRUE(row->SharesBufferWith(x));
}

TEST(ListConverterTest, InputsComeOutAsTheyAre) {
  const std::vector<DataType> types(2, DataType::kFloat);
  for (const char* op : {"_ListToArray", "_ArrayToList"}) {
    KernelRunner runner(op);
    const std::string list = op[1] == 'L' ? "Tin" : "out_types";
    runner.Attr(list, types).Attr("T", DataType::kFloat).Attr("N", 2);
    auto out = runner.Input(Tensor::Scalar(1.f)).Input(Tensor::Scalar(2.f)).Run();
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectTensorEqual(Tensor::Scalar(2.f), (*out)[1]);
    KernelRunner wrong(op);
    wrong.Attr(list, std::vector{DataType::kInt32}).Attr("T", DataType::kFloat).Attr("N", 1);
    const Tensor x = op[1] == 'L' ? Tensor::Scalar(int32_t{1}) : Tensor::Scalar(1.f);
    EXPECT_TRUE(errors::IsInvalidArgument(wrong.Input(x).Run().status()));
  }
}

TEST(PlaceholderTest, UnfedItNamesItselfAndWhatItWants) {
  KernelRunner shaped("Placeholder");
  EXPECT_EQ(shaped.Name("x").Attr("dtype", DataType::kFloat).Attr("shape", PartialShape({2})).Run().status(),
            errors::InvalidArgument(
                "You must feed a value for placeholder tensor 'x' with dtype float and shape [2]"));
  KernelRunner open("Placeholder");
  EXPECT_EQ(open.Name("y").Attr("dtype", DataType::kInt32).Run().status(),
            errors::InvalidArgument("You must feed a value for placeholder tensor 'y' with dtype int32"));
  KernelRunner v2("PlaceholderV2");
  EXPECT_EQ(v2.Name("z").Attr("dtype", DataType::kString).Attr("shape", PartialShape({-1, 3})).Run().status(),
            errors::InvalidArgument(
                "You must feed a value for placeholder tensor 'z' with dtype string and shape [?,3]"));
}

TEST(VariableTest, KernelsOfOneNameShareAVariable) {
  ResourceManager resources{std::string(KernelRunner::kDeviceName)};
  Tensor* seen = nullptr;
  for (const char* op : {"VariableV2", "VariableV2", "Variable"}) {
    KernelRunner runner(op);
    runner.Attr("dtype", DataType::kFloat).Attr("shape", PartialShape({2})).Attr("shared_name", "w");
    auto out = runner.Resources(&resources).Run();
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ(runner.outputs()[0].kind, TensorValue::Kind::kRef);
    EXPECT_FALSE((*out)[0].IsInitialized());
    EXPECT_EQ((*out)[0].shape(), TensorShape({2}));
    EXPECT_TRUE(seen == nullptr || seen == runner.outputs()[0].ref);
    seen = runner.outputs()[0].ref;
  }
}

TEST(VariableTest, AClearedContainerGivesAFreshVariable) {
  KernelRunner runner("VariableV2");
  runner.Attr("dtype", DataType::kFloat).Attr("shape", PartialShape({1})).Attr("container", "box");
  ASSERT_TRUE(runner.Run().ok());
  *runner.outputs()[0].ref = Tensor::Vector<float>({7});
  auto again = runner.Run();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)[0].IsInitialized());
  runner.resources().Cleanup("box");
  auto fresh = runner.Run();
  ASSERT_TRUE(fresh.ok());
  EXPECT_FALSE((*fresh)[0].IsInitialized());
}

TEST(VariableTest, AnotherTypeUnderTheSameNameIsRefused) {
  ResourceManager resources{std::string(KernelRunner::kDeviceName)};
  for (const DataType dtype : {DataType::kFloat, DataType::kInt32}) {
    KernelRunner runner("VariableV2");
    runner.Attr("dtype", dtype)
        .Attr("shape", PartialShape({1}))
        .Attr("shared_name", "w")
        .Resources(&resources);
    EXPECT_EQ(runner.Run().ok(), dtype == DataType::kFloat);
  }
}

TEST(AssignTest, TakesOverAValueWithoutOtherReferences) {
  auto variable = MakeVariable(Tensor::Vector<float>({0, 0}));
  Tensor value = Tensor::Vector<float>({1, 2});
  const void* data = value.raw_data();
  KernelRunner runner("Assign");
  ASSERT_TRUE(runner.RefInput(*variable).OwnedInput(std::move(value)).Run().ok());
  EXPECT_EQ(variable->tensor().raw_data(), data);
}

TEST(AssignTest, CopiesAReferencedValue) {
  auto variable = MakeVariable(Tensor::Vector<float>({0, 0}));
  Tensor value = Tensor::Vector<float>({1, 2});
  KernelRunner runner("Assign");
  ASSERT_TRUE(runner.RefInput(*variable).Input(value).Run().ok());
  value.data<float>()[0] = 9;
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), variable->tensor());
}

TEST(AssignTest, AViewOfTheVariableItselfIsCopied) {
  auto variable = MakeVariable(Tensor::Vector<float>({1, 2, 3, 4}));
  KernelRunner runner("Assign");
  runner.Attr("validate_shape", false).RefInput(*variable).Input(variable->tensor().Slice(2, 4));
  ASSERT_TRUE(runner.Run().ok());
  ExpectTensorEqual(Tensor::Vector<float>({3, 4}), variable->tensor());
}

// A value that was read before an update does not change: in-place ops, on references and on resources.
TEST(UpdateTest, AReadValueOfAVariableDoesNotChange) {
  const Tensor one = Tensor::Vector<float>({1, 1});
  const Tensor index = Tensor::Vector<int32_t>({0, 1});
  const std::map<std::string, std::vector<Tensor>> ops = {
      {"AssignAdd", {one}},
      {"AssignSub", {one}},
      {"ScatterAdd", {index, one}},
      {"ScatterUpdate", {index, one}},
      {"ApplyGradientDescent", {Tensor::Scalar(1.0f), one}},
      {"AssignAddVariableOp", {one}},
      {"ResourceScatterAdd", {index, one}},
      {"ResourceApplyGradientDescent", {Tensor::Scalar(1.0f), one}},
  };
  for (const auto& [op, inputs] : ops) {
    auto variable = MakeVariable(Tensor::Vector<float>({5, 6}));
    const Tensor read = variable->tensor();
    KernelRunner runner(op);
    if (op.find("Resource") == 0 || op == "AssignAddVariableOp") {
      ASSERT_TRUE(runner.resources().Create<Variable>("", "v", variable).ok());
      runner.Input(Tensor::Scalar(runner.resources().MakeHandle<Variable>("", "v")));
    } else {
      runner.RefInput(*variable);
    }
    for (const Tensor& t : inputs) runner.Input(t);
    const auto out = runner.Run();
    ASSERT_TRUE(out.ok()) << op << ": " << out.status();
    ExpectTensorEqual(Tensor::Vector<float>({5, 6}), read);
    EXPECT_FALSE(TensorsEqual(read, variable->tensor())) << op;
  }
}

TEST(UpdateTest, ASoleVariableIsUpdatedInPlace) {
  auto variable = MakeVariable(Tensor::Vector<float>({5, 6}));
  const void* data = variable->tensor().raw_data();
  KernelRunner runner("AssignAdd");
  ASSERT_TRUE(runner.RefInput(*variable).Input(Tensor::Vector<float>({1, 1})).Run().ok());
  EXPECT_EQ(variable->tensor().raw_data(), data);
}

TEST(UpdateTest, OneVariableInTwoPlacesIsRefused) {
  auto variable = MakeVariable(Tensor::Vector<float>({5}));
  KernelRunner runner("ApplyMomentum");
  runner.RefInput(*variable)
      .RefInput(*variable)
      .Input(Tensor::Scalar(1.0f))
      .Input(Tensor::Vector<float>({1}));
  EXPECT_TRUE(errors::IsInvalidArgument(runner.Input(Tensor::Scalar(1.0f)).Run().status()));
}

TEST(ResourceVariableTest, HandleReadsWhatWasAssignedUntilItIsDestroyed) {
  ResourceManager resources{std::string(KernelRunner::kDeviceName)};
  KernelRunner make("VarHandleOp");
  make.Attr("dtype", DataType::kFloat)
      .Attr("shape", PartialShape({2}))
      .Attr("shared_name", "w")
      .Resources(&resources);
  auto handle = make.RunOne();
  ASSERT_TRUE(handle.ok()) << handle.status();
  const auto read = [&] {
    KernelRunner runner("ReadVariableOp");
    return runner.Attr("dtype", DataType::kFloat).Resources(&resources).Input(*handle).RunOne();
  };
  EXPECT_TRUE(errors::IsFailedPrecondition(read().status()));
  EXPECT_NE(read().status().message().find("Error while reading resource variable w from Container: "
                                           "localhost. This could mean that the variable "
                                           "was uninitialized. Not found: Container localhost does not "
                                           "exist. (Could not find resource: localhost/w)"),
            std::string::npos)
      << read().status();
  KernelRunner assign("AssignVariableOp");
  ASSERT_TRUE(assign.Attr("dtype", DataType::kFloat)
                  .Resources(&resources)
                  .Input(*handle)
                  .Input(Tensor::Vector<float>({1, 2}))
                  .Run()
                  .ok());
  auto value = read();
  ASSERT_TRUE(value.ok()) << value.status();
  ExpectTensorEqual(Tensor::Vector<float>({1, 2}), *value);
  for (const bool ignore : {false, true, false}) {
    KernelRunner destroy("DestroyResourceOp");
    destroy.Attr("ignore_lookup_error", ignore).Resources(&resources).Input(*handle);
    const Status status = destroy.Run().status();
    if (resources.LookupHandle<Variable>(handle->scalar<ResourceHandle>()).ok() || ignore) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  KernelRunner destroy("DestroyResourceOp");
  EXPECT_TRUE(errors::IsNotFound(
      destroy.Attr("ignore_lookup_error", false).Resources(&resources).Input(*handle).Run().status()));
}

TEST(CallFrameTest, ArgsAreReadAndRetsWrittenBySlot) {
  const Tensor feed = Tensor::Scalar(7.0f);
  const Tensor* args[] = {&feed};
  Tensor rets[2];
  CallFrame frame{.args = args, .rets = rets};
  KernelRunner arg("_Arg");
  auto value = arg.Attr("T", DataType::kFloat).Attr("index", 0).Frame(&frame).RunOne();
  ASSERT_TRUE(value.ok()) << value.status();
  ExpectTensorEqual(feed, *value);
  KernelRunner retval("_Retval");
  ASSERT_TRUE(retval.Attr("index", 1).Frame(&frame).Input(Tensor::Scalar(3.0f)).Run().ok());
  ExpectTensorEqual(Tensor::Scalar(3.0f), rets[1]);
}

TEST(CallFrameTest, WrongSlotsAndTypesAreRefused) {
  const Tensor feed = Tensor::Scalar(7.0f);
  const Tensor* args[] = {&feed};
  CallFrame frame{.args = args, .rets = {}};
  KernelRunner type("_Arg");
  EXPECT_EQ(type.Attr("T", DataType::kInt32).Attr("index", 0).Frame(&frame).Run().status(),
            errors::InvalidArgument("Type mismatch: actual float vs. expect int32"));
  KernelRunner arg("_Arg");
  EXPECT_TRUE(errors::IsInvalidArgument(
      arg.Attr("T", DataType::kFloat).Attr("index", 1).Frame(&frame).Run().status()));
  KernelRunner ret("_Retval");
  EXPECT_TRUE(errors::IsInvalidArgument(ret.Attr("index", 0).Frame(&frame).Input(feed).Run().status()));
  KernelRunner none("_Retval");
  EXPECT_TRUE(errors::IsInternal(none.Attr("index", 0).Input(feed).Run().status()));
}

// Stores sent tensors; a receiver must come later.
class TableRendezvous : public Rendezvous {
 public:
  Status Send(const Key& key, Tensor tensor, bool is_dead) override {
    sent[key.text] = {std::move(tensor), is_dead};
    return Status();
  }
  void RecvAsync(const Key& key, RecvDone done) override {
    const auto found = sent.find(key.text);
    if (found == sent.end()) return done(errors::Aborted("nothing sent"), Tensor(), false);
    done(Status(), found->second.first, found->second.second);
  }
  void StartAbort(const Status&) override {}
  std::map<std::string, std::pair<Tensor, bool>> sent;
};

KernelRunner& WithTransferAttrs(KernelRunner& runner, DataType dtype, bool sends = false) {
  return runner.Attr(sends ? "T" : "tensor_type", dtype)
      .Attr("tensor_name", "edge_1_x")
      .Attr("send_device", kDevice)
      .Attr("send_device_incarnation", int64_t{255})
      .Attr("recv_device", kDevice);
}

TEST(TransferTest, WhatIsSentIsReceivedUnderTensorFlowsKey) {
  auto rendezvous = MakeRef<TableRendezvous>();
  KernelRunner send("_Send");
  ASSERT_TRUE(WithTransferAttrs(send, DataType::kFloat, true)
                  .WithRendezvous(rendezvous.get())
                  .Input(Tensor::Scalar(5.0f))
                  .Run()
                  .ok());
  EXPECT_EQ(rendezvous->sent.begin()->first,
            std::string(kDevice) + ";00000000000000ff;" + kDevice + ";edge_1_x;0:0");
  KernelRunner receive("_Recv");
  auto got = WithTransferAttrs(receive, DataType::kFloat).WithRendezvous(rendezvous.get()).RunOne();
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectTensorEqual(Tensor::Scalar(5.0f), *got);
  KernelRunner other("_Recv");
  EXPECT_TRUE(errors::IsInternal(
      WithTransferAttrs(other, DataType::kInt32).WithRendezvous(rendezvous.get()).Run().status()));
}

TEST(TransferTest, ErrorsOfTheRendezvousAreReturned) {
  auto rendezvous = MakeRef<TableRendezvous>();
  KernelRunner receive("_Recv");
  EXPECT_EQ(WithTransferAttrs(receive, DataType::kFloat).WithRendezvous(rendezvous.get()).Run().status(),
            errors::Aborted("nothing sent"));
  KernelRunner alone("_Recv");
  EXPECT_EQ(WithTransferAttrs(alone, DataType::kFloat).Run().status(),
            errors::Internal("Op kernel context needs to provide a rendezvous."));
}

}  // namespace
}  // namespace millrace
