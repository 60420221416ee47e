// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace {

class ReadyQueue;
class StepTraces;

// Services of a step for the function calls within it. Lives until the step is done.
struct StepHost {
  ReadyQueue* queue = nullptr;   // of the thread that runs the step; null: it has none that takes work
  StepTraces* traces = nullptr;  // null: not traced
};

}  // namespace millrace
