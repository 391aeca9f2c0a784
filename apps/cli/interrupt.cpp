// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <csignal>

namespace ennead::cli {
namespace {

// A signal handler may touch nothing but such a variable.
volatile std::sig_atomic_t interrupted = 0;

void note(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  interrupted = 0;
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

InterruptFlag::~InterruptFlag() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptFlag::raised() { return interrupted != 0; }

}  // namespace ennead::cli
