// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_view.h"
#include "graph/graph.h"
#include "millrace/session.h"
#include "millrace/status.h"

namespace millrace {

// Whether a callable's feed_devices and fetch_devices name CPUs of the session, all of which use host memory,
// as values do. The errors are TensorFlow's.
Status CheckCallableDevices(const Graph& graph, const DeviceView& devices, const CallableOptions& options);

}  // namespace millrace
