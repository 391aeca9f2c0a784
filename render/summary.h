// SPDX-License-Identifier: Apache-2.0
// What a result says once it is read: who is fastest, and the words around the numbers. Shared by
// every renderer, so that terminal, picture and table cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/result.h"

namespace ennead::render {

/// Indices of the fastest bar and of all whose ratio intervals overlap its own: joint winners. None
/// where there are no intervals.
std::vector<std::size_t> winners(const harness::Result& result);
/// "1 round", "2 rounds"
std::string plural(std::int64_t count, const char* what);
double longest_median(const harness::Result& result);

/// "[8, 1024, 768]": what every variant returns.
std::string output_shape(const harness::Shape& shape);
/// "forward pass of x [8, 1024, 768], 12 heads of 64, causal, float32"
std::string work_line(const harness::WorkRecord& work);
/// "AMD EPYC 9B45, avx512, 2 threads"
std::string machine_line(const harness::MachineRecord& machine);
/// "all ten return [8, 1024, 768]; largest difference between any two 2.1e-06"
std::string shape_card(const harness::Result& result);
/// "fastest: 10 fused_module, 3.1 times as fast as 1 stacked_heads", or the joint winners, or that there
/// is none; and whether there were rounds enough to be sure.
std::string winner_line(const harness::Result& result);
/// The same text as the start of a sentence.
std::string capitalized(std::string text);
/// "0.409, 0.415"; nothing where there is no interval.
std::string interval_text(const harness::Bar& bar, const harness::Result& result, const char* between);
/// "0.412 [0.409, 0.415]"; the base itself is "1". Without an interval the ratio alone.
std::string ratio_text(const harness::Bar& bar, const harness::Result& result);

}  // namespace ennead::render
