// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensorflow/c/c_api.h"

namespace millrace::python {

// Prepares for Ctrl-C. To be called with the GIL, from the main thread.
void StartInterrupts();

// While it lives, Ctrl-C ends the steps of a session, if this is the main thread. Costs nothing
// noticeable.
class InterruptibleStep {
 public:
  explicit InterruptibleStep(TF_Session* session);
  InterruptibleStep(const InterruptibleStep&) = delete;
  InterruptibleStep& operator=(const InterruptibleStep&) = delete;
  ~InterruptibleStep();
  bool interrupted() const;

 private:
  bool active_ = false;
};

}  // namespace millrace::python
