// SPDX-License-Identifier: Apache-2.0
#include "harness/trace_lines.h"

#include <algorithm>
#include <string_view>

namespace ennead::harness {
namespace {

std::string place(const std::source_location& where) {
  const std::string_view path = where.file_name();
  const std::size_t slash = path.find_last_of("/\\");
  return sentence(slash == std::string_view::npos ? path : path.substr(slash + 1), ":", where.line());
}

/// Matrices whose last two sizes are T x T, in units of one such matrix for each head of each sequence.
double passes_over_square(const TraceEvent& event, const Shape& shape) {
  const double whole = static_cast<double>(shape.batch) * static_cast<double>(shape.num_heads) *
                       static_cast<double>(shape.num_tokens) * static_cast<double>(shape.num_tokens);
  double passes = 0;
  for (const TraceOperand& operand : event.operands) {
    const int rank = operand.sizes.rank();
    if (rank < 2 || operand.sizes[rank - 1] != shape.num_tokens || operand.sizes[rank - 2] != shape.num_tokens)
      continue;
    passes += static_cast<double>(operand.sizes.product()) / whole;
  }
  return passes;
}

}  // namespace

std::vector<TraceLine> gather(const Trace& trace, const Shape& shape) {
  std::vector<TraceLine> lines;
  for (const TraceEvent& event : trace.events) {
    const std::string where = place(event.where);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const TraceLine& each) { return each.op == event.op && each.where == where; });
    if (line == lines.end()) {
      lines.emplace_back();
      line = lines.end() - 1;
      line->op = event.op;
      line->where = where;
    }
    ++line->calls;
    line->useful_flops += event.useful_flops;
    line->executed_flops += event.executed_flops;
    line->bytes_read += static_cast<double>(event.bytes_read);
    line->bytes_written += static_cast<double>(event.bytes_written);
    line->passes += passes_over_square(event, shape);
    line->nanoseconds += event.nanoseconds;
  }
  return lines;
}

TraceLine total(const std::vector<TraceLine>& lines) {
  TraceLine sum;
  for (const TraceLine& line : lines) {
    sum.calls += line.calls;
    sum.useful_flops += line.useful_flops;
    sum.executed_flops += line.executed_flops;
    sum.bytes_read += line.bytes_read;
    sum.bytes_written += line.bytes_written;
    sum.passes += line.passes;
    sum.nanoseconds += line.nanoseconds;
  }
  return sum;
}

}  // namespace ennead::harness
