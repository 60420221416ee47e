// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Tensors that are kept in a session between Runs, by handle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/resource_handle.h"
#include "tests/session/def_builder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kCpu0[] = "/job:localhost/replica:0/task:0/device:CPU:0";

// "text" and "resource" are handles to x + x; "value" is the tensor of the handle fed to "handle".
class SessionTensorTest : public ::testing::Test {
 protected:
  SessionTensorTest() {
    g_.Placeholder("x");
    g_.Float("twice", "Add", {"x", "x"});
    g_.Float("text", "GetSessionHandle", {"twice"});
    g_.Float("resource", "GetSessionHandleV2", {"twice"});
    g_.Placeholder("handle", tensorflow::DT_STRING);
    g_.Node("value", "GetSessionTensor", {"handle"}, {{"dtype", DataType::kFloat}});
    g_.Node("ints", "GetSessionTensor", {"handle"}, {{"dtype", DataType::kInt32}});
    g_.Add("delete", "DeleteSessionTensor", {"handle"});
    session_ = SessionWith(g_);
  }
  static Tensor Text(const std::string& handle) { return Tensor::Scalar(handle); }
  std::string Keep(float x) {
    std::vector<Tensor> out;
    const Status status = session_->Run({{"x", Tensor::Scalar(x)}}, {"text"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? out[0].scalar<std::string>() : "";
  }
  std::string Get(const std::string& handle, const std::string& fetch = "value") {
    std::vector<Tensor> out;
    const Status status = session_->Run({{"handle", Text(handle)}}, {fetch}, {}, &out);
    EXPECT_TRUE(status.ok() || errors::IsInvalidArgument(status)) << status;
    return status.ok() ? StrCat(out[0].scalar<float>()) : std::string(status.message());
  }

  DefBuilder g_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTensorTest, AHandleHasNodeNumberAndDevice) {
  const std::string first = Keep(1);
  EXPECT_EQ(first, StrCat("text;0;", kCpu0));
  EXPECT_EQ(Keep(2), StrCat("text;1;", kCpu0));
  EXPECT_EQ(Get(first), "2");
}

TEST_F(SessionTensorTest, ATensorStaysUntilItIsDeleted) {
  const std::string a = Keep(1);
  const std::string b = Keep(2);
  EXPECT_EQ(Get(a), "2");
  EXPECT_EQ(Get(a), "2");
  EXPECT_TRUE(session_->Run({{"handle", Text(a)}}, {}, {"delete"}, nullptr).ok());
  EXPECT_THAT(Get(a), HasSubstr(StrCat("The tensor with handle '", a, "' is not in the session store.")));
  const Status again = session_->Run({{"handle", Text(a)}}, {}, {"delete"}, nullptr);
  EXPECT_TRUE(errors::IsInvalidArgument(again));
  EXPECT_THAT(std::string(again.message()), HasSubstr("is not in the session store."));
  EXPECT_EQ(Get(b), "4");
}

TEST_F(SessionTensorTest, UnknownHandlesAndWrongTypesAreRefused) {
  EXPECT_THAT(Get("no;such;thing"),
              HasSubstr("The tensor with handle 'no;such;thing' is not in the session"));
  EXPECT_THAT(Get(Keep(1), "ints"), HasSubstr("is float, not int32"));
  std::vector<Tensor> out;
  const Status vector =
      session_->Run({{"handle", Tensor::Vector<std::string>({"a", "b"})}}, {"value"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(vector)) << vector;
}

// A client without the handle could never release the tensor.
TEST_F(SessionTensorTest, WhatIsNotFetchedIsNotKept) {
  ASSERT_TRUE(session_->Run({{"x", Tensor::Scalar(1.0f)}}, {}, {"text"}, nullptr).ok());
  EXPECT_THAT(Get(StrCat("text;0;", kCpu0)), HasSubstr("is not in the session store."));
}

TEST_F(SessionTensorTest, AResourceHandleIsFedForTheTensor) {
  std::vector<Tensor> out;
  ASSERT_TRUE(session_->Run({{"x", Tensor::Scalar(3.0f)}}, {"resource:0"}, {}, &out).ok());
  const Tensor handle = out[0];
  EXPECT_EQ(handle.scalar<ResourceHandle>().container, "TensorHandle");
  EXPECT_EQ(handle.scalar<ResourceHandle>().name, StrCat("resource;0;", kCpu0));
  EXPECT_EQ(handle.scalar<ResourceHandle>().device, kCpu0);
  ASSERT_TRUE(session_->Run({{"x", handle}}, {"twice"}, {}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 12);
  // The string form refers to the same store.
  EXPECT_EQ(Get(handle.scalar<ResourceHandle>().name), "6");
}

TEST_F(SessionTensorTest, OtherResourcesAreNotFed) {
  Tensor handle(DataType::kResource, TensorShape());
  handle.scalar<ResourceHandle>().name = "v";
  std::vector<Tensor> out;
  const Status other = session_->Run({{"x", handle}}, {"twice"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(other)) << other;
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("Perhaps a resource tensor was being provided as a feed?"));
  handle.scalar<ResourceHandle>().container = "TensorHandle";
  const Status unknown = session_->Run({{"x", handle}}, {"twice"}, {}, &out);
  EXPECT_TRUE(errors::IsInvalidArgument(unknown)) << unknown;
  EXPECT_EQ(unknown.message(), "The tensor with handle 'v' is not in the session store.");
}

TEST_F(SessionTensorTest, ATensorOfTheWrongTypeIsRefusedAndOneOfAnyShapeTaken) {
  g_.Placeholder("i", tensorflow::DT_INT32);
  g_.ShapedPlaceholder("pair", {2});
  session_ = SessionWith(g_);
  std::vector<Tensor> out;
  ASSERT_TRUE(session_->Run({{"x", Tensor::Scalar(3.0f)}}, {"resource"}, {}, &out).ok());
  const Tensor handle = out[0];
  EXPECT_TRUE(errors::IsInvalidArgument(session_->Run({{"i", handle}}, {"i"}, {}, &out)));
  ASSERT_TRUE(session_->Run({{"pair", handle}}, {"pair"}, {}, &out).ok());
  EXPECT_EQ(out[0].rank(), 0);
}

TEST_F(SessionTensorTest, SessionsDoNotShareThem) {
  const std::string handle = Keep(1);
  session_ = SessionWith(g_);
  EXPECT_THAT(Get(handle), HasSubstr("is not in the session store."));
}

TEST_F(SessionTensorTest, TheSessionHoldsTheMemoryAndNothingElseDoes) {
  Tensor big(DataType::kFloat, TensorShape({1000}));
  std::fill_n(big.data<float>(), 1000, 1.0f);
  g_.Placeholder("raw");
  g_.Float("keep", "GetSessionHandle", {"raw"});
  session_ = SessionWith(g_);
  EXPECT_TRUE(big.OwnsBufferAlone());
  std::vector<Tensor> out;
  ASSERT_TRUE(session_->Run({{"raw", big}}, {"keep"}, {}, &out).ok());
  EXPECT_FALSE(big.OwnsBufferAlone());
  ASSERT_TRUE(session_->Run({{"handle", out[0]}}, {}, {"delete"}, nullptr).ok());
  EXPECT_TRUE(big.OwnsBufferAlone());
  ASSERT_TRUE(session_->Run({{"raw", big}}, {"keep"}, {}, &out).ok());
  session_.reset();
  EXPECT_TRUE(big.OwnsBufferAlone());
}

TEST_F(SessionTensorTest, PartialRunsKeepAndTakeThem) {
  const auto run = session_->PRunSetup({"x", "handle"}, {"text", "twice", "value"}, {});
  ASSERT_TRUE(run.ok()) << run.status();
  std::vector<Tensor> out;
  ASSERT_TRUE(session_->PRun(*run, {{"x", Tensor::Scalar(5.0f)}}, {"text"}, &out).ok());
  // Available before the run is over.
  EXPECT_EQ(Get(out[0].scalar<std::string>()), "10");
  ASSERT_TRUE(session_->PRun(*run, {{"handle", out[0]}}, {"twice", "value"}, &out).ok());
  EXPECT_EQ(out[1].scalar<float>(), 10);
  ASSERT_TRUE(session_->Run({{"x", Tensor::Scalar(3.0f)}}, {"resource"}, {}, &out).ok());
  const auto fed = session_->PRunSetup({"x"}, {"twice"}, {});
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_TRUE(session_->PRun(*fed, {{"x", out[0]}}, {"twice"}, &out).ok());
  EXPECT_EQ(out[0].scalar<float>(), 12);
}

TEST_F(SessionTensorTest, AnotherDeviceMayTakeIt) {
  g_.Node("there", "GetSessionTensor", {"handle"}, {{"dtype", DataType::kFloat}})->set_device("/cpu:1");
  SessionOptions options;
  options.device_count["CPU"] = 2;
  session_ = SessionWith(g_, options);
  EXPECT_EQ(Get(Keep(4), "there"), "8");
}

}  // namespace
}  // namespace millrace
