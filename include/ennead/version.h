// SPDX-License-Identifier: Apache-2.0
// The version, as SemVer; the build reads it from here.
#pragma once

#define ENNEAD_VERSION_MAJOR 0
#define ENNEAD_VERSION_MINOR 1
#define ENNEAD_VERSION_PATCH 0
#define ENNEAD_VERSION "0.1.0"
