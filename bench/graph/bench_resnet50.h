// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace::bench {

// Registers the cases resnet50*; their list is at the head of bench_graph.cc.
void RegisterResnet50();

}  // namespace millrace::bench
