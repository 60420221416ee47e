// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/session/def_builder.h"

namespace millrace {

// A graph whose session is created by the first use, with options that may be set until then.
class StateTest : public ::testing::Test {
 protected:
  Session& session() {
    if (session_ == nullptr) session_ = SessionWith(graph_, options_);
    return *session_;
  }
  Status Do(const std::string& target, const Session::Feeds& feeds = {}) {
    return session().Run(feeds, {}, {target}, nullptr);
  }
  Status DoFor(int64_t timeout_ms, const std::string& target, const Session::Feeds& feeds = {}) {
    RunOptions options;
    options.timeout_in_ms = timeout_ms;
    return session().Run(options, feeds, {}, {target}, nullptr, nullptr);
  }
  StatusOr<std::vector<Tensor>> Get(const std::vector<std::string>& fetches,
                                    const Session::Feeds& feeds = {}) {
    std::vector<Tensor> out;
    MR_RETURN_IF_ERROR(session().Run(feeds, fetches, {}, &out));
    return out;
  }
  // The only fetch; an empty tensor, and a failure of the test, if there is none.
  Tensor GetOne(const std::string& fetch, const Session::Feeds& feeds = {}) {
    auto out = Get({fetch}, feeds);
    EXPECT_TRUE(out.ok()) << fetch << ": " << out.status();
    return out.ok() ? std::move((*out)[0]) : Tensor();
  }
  int32_t Count(const std::string& fetch) {
    const auto out = Get({fetch});
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? (*out)[0].scalar<int32_t>() : -1;
  }

  DefBuilder graph_;
  SessionOptions options_;
  std::unique_ptr<Session> session_;
};

}  // namespace millrace
