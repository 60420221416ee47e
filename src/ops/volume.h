// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"
#include "op/op_registry.h"

namespace millrace {

// Families beside those of register.h: pooling and convolution of volumes; recorded sound; recurrent cells
// and the sequences that come out of them; quantised inference.
Status RegisterAudioOps(OpRegistry& registry);
Status RegisterMatrixOps(OpRegistry& registry);
Status RegisterQuantizedOps(OpRegistry& registry);
Status RegisterRecurrentOps(OpRegistry& registry);
Status RegisterSpectralOps(OpRegistry& registry);
Status RegisterVolumeOps(OpRegistry& registry);

}  // namespace millrace
