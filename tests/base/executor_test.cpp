// SPDX-License-Identifier: Apache-2.0
#include "ennead/executor.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <thread>
#include <vector>

#include "ennead/context.h"
#include "support/expect.h"

namespace ennead {
namespace {

const int kThreads[] = {1, 2, 3, 8};

// Mutants: the last index left out; an index handed out twice; run() returns before all are done.
TEST(Executor, RunsEachIndexOnce) {
  for (const int threads : kThreads) {
    const auto pool = make_thread_pool(threads);
    EXPECT_EQ(pool->num_threads(), threads);
    for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
      pool->run(n, [&](std::int64_t index, int worker) {
        EXPECT_TRUE(worker >= 0 && worker < threads);
        ++calls[static_cast<std::size_t>(index)];
      });
      for (const auto& count : calls) EXPECT_EQ(count, 1);
    }
  }
  EXPECT_EQ(make_serial_executor()->num_threads(), 1);
}

// Scratch memory is picked by worker number. Mutant: two threads get the same number.
TEST(Executor, NoTwoRunningTasksShareAWorker) {
  const auto pool = make_thread_pool(8);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> running(8);
    std::atomic<int> shared = 0;
    pool->run(64, [&](std::int64_t, int worker) {
      auto& mine = running[static_cast<std::size_t>(worker)];
      if (mine.fetch_add(1) != 0) ++shared;
      std::this_thread::yield();
      mine.fetch_sub(1);
    });
    ASSERT_EQ(shared, 0);
  }
}

// Work is ordered longest first, so indices must be begun in order.
TEST(Executor, SerialRunsInOrder) {
  std::vector<std::int64_t> order;
  make_serial_executor()->run(5, [&](std::int64_t index, int) { order.push_back(index); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

// Many short runs one after another: a worker that is late for one must not take part in the next
// with the old task. Run under the thread sanitizer too. Mutant: busy_ not waited for.
TEST(Executor, ManyShortRuns) {
  const auto pool = make_thread_pool(4);
  std::int64_t expected = 0;
  std::atomic<std::int64_t> sum = 0;
  for (std::int64_t round = 0; round < 5000; ++round) {
    const std::int64_t n = round % 7;
    pool->run(n, [&, round](std::int64_t index, int) { sum += round * 10 + index; });
    for (std::int64_t index = 0; index < n; ++index) expected += round * 10 + index;
    ASSERT_EQ(sum, expected);
  }
}

// One pool lent to several threads: their runs follow one another.
TEST(Executor, SeveralThreadsMayCallRun) {
  const auto pool = make_thread_pool(3);
  std::atomic<int> at_work = 0, overlaps = 0;
  std::atomic<std::int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 200; ++round) {
        pool->run(5, [&](std::int64_t index, int) {
          // Tasks of one caller at a time: whoever is at work is either nobody or this caller.
          const int before = at_work.exchange(caller + 1);
          if (before != 0 && before != caller + 1) ++overlaps;
          sum += index;
          std::this_thread::yield();
          at_work = 0;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(sum, 4 * 200 * (0 + 1 + 2 + 3 + 4));
}

// Results must be visible to the caller without any lock of its own.
TEST(Executor, ResultsAreVisibleAfterRun) {
  const auto pool = make_thread_pool(8);
  for (int round = 0; round < 500; ++round) {
    std::vector<int> plain(100, -1);
    pool->run(100, [&](std::int64_t index, int) { plain[static_cast<std::size_t>(index)] = static_cast<int>(index); });
    for (int i = 0; i < 100; ++i) ASSERT_EQ(plain[static_cast<std::size_t>(i)], i);
  }
}

TEST(Executor, RefusesNoThreads) {
  EXPECT_TRUE(test::refuses([] { make_thread_pool(0); }, {"at least 1", "0"}));
  EXPECT_TRUE(test::refuses([] { Context({.threads = -3}); }, {"-3"}));
}

// The caller's own threads: whatever an Executor does, a Context uses it.
TEST(Executor, CallersOwn) {
  class Counting final : public Executor {
   public:
    int num_threads() const noexcept override { return 1; }
    void run(std::int64_t n, Task task) override {
      ++runs;
      for (std::int64_t index = n; index-- > 0;) task(index, 0);
    }
    int runs = 0;
  };
  const auto mine = std::make_shared<Counting>();
  Context::Options options;
  options.executor = mine;
  const Context context(options);
  EXPECT_EQ(&context.executor(), mine.get());
  context.executor().run(3, [](std::int64_t, int) {});
  EXPECT_EQ(mine->runs, 1);
}

// A pool that counts only the workers beside the caller says 0. Mutants: no check; one that lets 0 pass.
TEST(Executor, RefusesCallersThatSayTheyHaveNoThreads) {
  class Saying final : public Executor {
   public:
    explicit Saying(int threads) : threads_(threads) {}
    int num_threads() const noexcept override { return threads_; }
    void run(std::int64_t n, Task task) override {
      for (std::int64_t index = 0; index < n; ++index) task(index, 0);
    }

   private:
    int threads_;
  };
  const auto context = [](int threads) {
    Context::Options options;
    options.executor = std::make_shared<Saying>(threads);
    return Context(options);
  };
  EXPECT_TRUE(test::refuses([&] { context(0); }, {"executor", "num_threads()", "1 or more", "got 0"}));
  EXPECT_TRUE(test::refuses([&] { context(-1); }, {"num_threads()", "got -1"}));
  EXPECT_EQ(context(1).executor().num_threads(), 1);
}

// A sanitizer's own memory does not fit the limit. gcc and new clang define a macro, other clang knows a feature.
#if defined(__has_feature)
#define ENNEAD_HAS_FEATURE(feature) __has_feature(feature)
#else
#define ENNEAD_HAS_FEATURE(feature) 0
#endif
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !ENNEAD_HAS_FEATURE(address_sanitizer) && !ENNEAD_HAS_FEATURE(thread_sanitizer)
// Mutant: threads that did start are left joinable when the next one does not, which ends the process.
TEST(Executor, ThreadsTheSystemHasNot) {
  const int child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = std::size_t{1} << 30;  // stacks of 8 MiB: some fit, 10,000 do not
    setrlimit(RLIMIT_AS, &limit);
    try {
      make_thread_pool(10000);
    } catch (const Error& error) {
      _exit(std::string(error.what()).find("expected 10000 from the system") == std::string::npos ? 2 : 0);
    }
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

}  // namespace
}  // namespace ennead
