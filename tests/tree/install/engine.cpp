// SPDX-License-Identifier: Apache-2.0
#include "ennead/ennead.h"

// A library of the consumer, with ennead behind its interface.
std::size_t engine_variants() { return ennead::variants().size(); }
