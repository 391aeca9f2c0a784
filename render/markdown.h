// SPDX-License-Identifier: Apache-2.0
// A result as Markdown, and parts of a document that are kept up to date by a tool.
#pragma once

#include <string>

#include "harness/result.h"
#include "render/published.h"

namespace ennead::render {

/// The shape card, a table of the bars, and the winner.
std::string markdown_race(const harness::Result& result, const Published& published);

/// `document` with what stands between <!-- name:begin --> and <!-- name:end --> replaced by
/// `content`. Throws Error when the markers are not there, each once and in this order.
std::string replace_part(const std::string& document, const std::string& name, const std::string& content);

}  // namespace ennead::render
