// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The instruction set that the vectorised code uses.
#pragma once

namespace millrace::cpu {

enum class Isa { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

// The best level that this processor and operating system support.
Isa DetectedIsa();

// The level in use: the detected one, lowered by MILLRACE_CPU_ISA=baseline|avx2|avx512 (read once, at first
// use; bf16.h has the further value avx512_bf16, which does not lower it). It alone chooses among the units
// of code that are compiled per level.
Isa ActiveIsa();

// Sets the level for the tests of this process; a level above the detected one is lowered to it.
void SetActiveIsaForTest(Isa isa);

}  // namespace millrace::cpu
