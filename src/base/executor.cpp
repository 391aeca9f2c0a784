// SPDX-License-Identifier: Apache-2.0
// The only file that knows threads and locks.
#include "ennead/executor.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/hardware_threads.h"
#include "ennead/error.h"

namespace ennead {
namespace {

class SerialExecutor final : public Executor {
 public:
  int num_threads() const noexcept override { return 1; }
  void run(std::int64_t n, Task task) override {
    for (std::int64_t index = 0; index < n; ++index) task(index, 0);
  }
};

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int threads) {
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int worker = 1; worker < threads; ++worker) {
      try {
        workers_.emplace_back([this, worker] { serve(worker); });
      } catch (const std::system_error&) {
        stop();
        raise(sentence("threads: expected ", threads, " from the system, got ", worker));
      }
    }
  }

  ~ThreadPool() override { stop(); }

  int num_threads() const noexcept override { return static_cast<int>(workers_.size()) + 1; }

  void run(std::int64_t n, Task task) override {
    if (n <= 0) return;
    // Runs from several threads follow one another: worker numbers are handed out per run.
    const std::lock_guard one_run(run_mutex_);
    if (n == 1 || workers_.empty()) {
      for (std::int64_t index = 0; index < n; ++index) task(index, 0);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      count_ = n;
      next_.store(0, std::memory_order_relaxed);
      busy_ = static_cast<int>(workers_.size());
      ++generation_;
    }
    wake_.notify_all();
    work(task, 0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    task_ = nullptr;
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void work(const Task& task, int worker) {
    for (;;) {
      const std::int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      task(index, worker);
    }
  }

  void serve(int worker) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      const Task task = *task_;
      lock.unlock();
      work(task, worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex run_mutex_, mutex_;
  std::condition_variable wake_, done_;
  const Task* task_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::uint64_t generation_ = 0;
  int busy_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

int base::hardware_threads() { return static_cast<int>(std::thread::hardware_concurrency()); }

std::shared_ptr<Executor> make_serial_executor() { return std::make_shared<SerialExecutor>(); }

std::shared_ptr<Executor> make_thread_pool(int threads) {
  if (threads < 1) raise(sentence("threads: expected at least 1, got ", threads));
  if (threads == 1) return make_serial_executor();
  return std::make_shared<ThreadPool>(threads);
}

}  // namespace ennead
