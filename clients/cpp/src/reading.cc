#include "reading.h"

#include <algorithm>
#include <random>

namespace statekeep::internal {
namespace {

using std::chrono::milliseconds;

// Each try waits twice as long as the one before it.
constexpr milliseconds kFirstPause(50);
constexpr milliseconds kLongestPause(2'500);
constexpr int kTriesBeforeAnyMessage = 5;

std::optional<milliseconds> AskedFor(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& failure) {
    return failure.retry_delay();
  }
}

// Up to twice as long, or everyone who lost the same server would come back at once.
milliseconds Spread(milliseconds pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return milliseconds(static_cast<milliseconds::rep>(static_cast<double>(pause.count()) *
                                                     std::uniform_real_distribution<>(1, 2)(random)));
}

}  // namespace

void Patience::Progress() {
  began_ = true;
  tries_ = 0;
}

milliseconds Patience::Pause(const std::exception_ptr& error) {
  const auto now = Clock::now();
  if (tries_ == 0) lost_at_ = now;
  ++tries_;
  const auto left = limit_ - std::chrono::duration_cast<milliseconds>(now - lost_at_);
  if (left.count() <= 0 || (!began_ && tries_ >= kTriesBeforeAnyMessage)) std::rethrow_exception(error);
  return std::min(Spread(AskedFor(error).value_or(Own())), left);
}

milliseconds Patience::Own() const {
  // The power is bounded, or it would overflow in a long outage.
  return std::min(kFirstPause * (1 << std::min(tries_ - 1, 10)), kLongestPause);
}

}  // namespace statekeep::internal
