// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "millrace/client_session.h"
#include "millrace/variables.h"

namespace millrace {

inline std::vector<float> Floats(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.num_elements()};
}

// A session with initialised variables; errors become failures of the test.
class ReadySession {
 public:
  explicit ReadySession(const Scope& scope)
      : init_(GlobalVariablesInitializer(scope)), local_(LocalVariablesInitializer(scope)), session_(scope) {
    Run({init_, local_});
  }

  void Run(const std::vector<Operation>& operations, const ClientSession::Feeds& feeds = {}) {
    const Status status = session_.Run(feeds, {}, operations, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }
  // The requested number of tensors, empty ones after an error.
  std::vector<Tensor> Fetch(const std::vector<Output>& fetches, const ClientSession::Feeds& feeds = {}) {
    std::vector<Tensor> out;
    const Status status = session_.Run(feeds, fetches, &out);
    EXPECT_TRUE(status.ok()) << status;
    out.resize(fetches.size());
    return out;
  }
  std::vector<float> Values(const Output& fetch, const ClientSession::Feeds& feeds = {}) {
    return Floats(Fetch({fetch}, feeds)[0]);
  }
  float Value(const Output& fetch, const ClientSession::Feeds& feeds = {}) {
    const std::vector<float> values = Values(fetch, feeds);
    EXPECT_EQ(values.size(), 1u);
    return values.empty() ? -1 : values[0];
  }
  const ClientSession& session() const { return session_; }

 private:
  Operation init_;
  Operation local_;
  ClientSession session_;
};

}  // namespace millrace
