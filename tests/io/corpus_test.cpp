// SPDX-License-Identifier: Apache-2.0
// The fuzzers' seeds and finds, replayed: see fuzz/README.md.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/file_properties.h"
#include "support/files.h"
#include "support/source_dir.h"

namespace ennead::test {
namespace {

void replay(const char* format, std::string (*problem_of)(const std::string&, const std::string&)) {
  const TempDir dir;
  int count = 0;
  const std::filesystem::path corpus = std::filesystem::path(source_dir()) / "fuzz" / "corpus" / format;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    EXPECT_EQ(problem_of(entry.path().string(), dir / "scratch"), "") << entry.path();
    ++count;
  }
  EXPECT_GE(count, 20) << "expected the seeds of " << corpus;
}

// Mutants: any read past what was checked (under the sanitizers), any exception that is no refusal.
TEST(Corpus, EveryNpyFileIsReadOrRefused) { replay("npy", npy_problem); }
TEST(Corpus, EverySafetensorsFileIsReadOrRefused) { replay("safetensors", safetensors_problem); }

}  // namespace
}  // namespace ennead::test
