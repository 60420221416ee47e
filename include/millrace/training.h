// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The whole training library; programs may also include its parts. docs/training.md describes the models,
// docs/training-sessions.md the sessions that run them.
#include "millrace/clipping.h"           // IWYU pragma: export
#include "millrace/data.h"               // IWYU pragma: export
#include "millrace/hooks.h"              // IWYU pragma: export
#include "millrace/initializers.h"       // IWYU pragma: export
#include "millrace/layers.h"             // IWYU pragma: export
#include "millrace/losses.h"             // IWYU pragma: export
#include "millrace/metrics.h"            // IWYU pragma: export
#include "millrace/monitored_session.h"  // IWYU pragma: export
#include "millrace/moving_averages.h"    // IWYU pragma: export
#include "millrace/optimizers.h"         // IWYU pragma: export
#include "millrace/queue_input.h"        // IWYU pragma: export
#include "millrace/recurrent.h"          // IWYU pragma: export
#include "millrace/replicas.h"           // IWYU pragma: export
#include "millrace/saved_model.h"        // IWYU pragma: export
#include "millrace/saver.h"              // IWYU pragma: export
#include "millrace/schedules.h"          // IWYU pragma: export
#include "millrace/summary.h"            // IWYU pragma: export
#include "millrace/supervisor.h"         // IWYU pragma: export
#include "millrace/variables.h"          // IWYU pragma: export
