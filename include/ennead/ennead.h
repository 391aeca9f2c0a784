// SPDX-License-Identifier: Apache-2.0
// All of ennead's public interface.
#pragma once

#include "ennead/attention.h"  // IWYU pragma: export
#include "ennead/flex.h"       // IWYU pragma: export
#include "ennead/ops.h"        // IWYU pragma: export
#include "ennead/tape.h"       // IWYU pragma: export
#include "ennead/trace.h"      // IWYU pragma: export
#include "ennead/variants.h"   // IWYU pragma: export
#include "ennead/version.h"    // IWYU pragma: export
