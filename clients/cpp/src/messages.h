// Small pieces of messages: durations, times, optional fields and lists.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/repeated_ptr_field.h>
#include <google/protobuf/timestamp.pb.h>

#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace statekeep::internal {

inline google::protobuf::Duration DurationOf(std::chrono::nanoseconds span) {
  google::protobuf::Duration duration;
  duration.set_seconds(span.count() / 1'000'000'000);
  duration.set_nanos(static_cast<std::int32_t>(span.count() % 1'000'000'000));
  return duration;
}

inline google::protobuf::Timestamp TimestampOf(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch());
  const std::chrono::nanoseconds rest = time.time_since_epoch() - seconds;
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(seconds.count());
  timestamp.set_nanos(static_cast<std::int32_t>(rest.count()));
  return timestamp;
}

template <class Item>
std::vector<Item> Taken(google::protobuf::RepeatedPtrField<Item>* items) {
  return {std::make_move_iterator(items->begin()), std::make_move_iterator(items->end())};
}

// A message's part, where it is there: `has` is asked before `take`, which would make the part.
template <class Message, class Item>
std::optional<Item> TakenIf(Message& message, bool (Message::*has)() const, Item* (Message::*take)()) {
  if (!(message.*has)()) return std::nullopt;
  return std::move(*(message.*take)());
}

}  // namespace statekeep::internal
