// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them: few digits, a fitting unit, a dash for what is not known.
#pragma once

#include <string>

namespace ennead::harness {

std::string duration(double ns);                        ///< "412 ms"
std::string milliseconds(double ns);                    ///< "412", "4.12", "0.0412": always in ms, three digits
std::string bytes(double count);                        ///< "403 MB"
std::string flops(double count);                        ///< "51.6 G"
std::string flop_rate(double per_s);                    ///< "261 GFLOP/s"
std::string percent(double share);                      ///< "87 %"; one digit more below 10 %
std::string small(double value);                        ///< "2.4e-06"
std::string significant(double value, int digits = 3);  ///< "0.412", "41.2", "412"

}  // namespace ennead::harness
