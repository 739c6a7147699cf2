// What the client hands out one after the other: pages of a list, and streams. Both are input ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

namespace statekeep {

namespace internal {

// Where items come from. Next throws statekeep::Error, and may be called again after the end.
template <class Item>
class Source {
 public:
  virtual ~Source() = default;
  virtual std::optional<Item> Next() = 0;
};

// A source with a place that can be resumed from. Cancel may be called from any thread.
template <class Item>
class StreamSource : public Source<Item> {
 public:
  virtual void Cancel() = 0;
  virtual std::int64_t revision() const = 0;
  virtual bool caught_up() const = 0;
};

}  // namespace internal

/// A single pass over items that come from the server as they are asked for. Movable, while no iterator is in use.
template <class Item>
class InputRange {
 public:
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Item;
    using difference_type = std::ptrdiff_t;

    Item& operator*() const { return *range_->current_; }
    Item* operator->() const { return &*range_->current_; }
    /// Waits for the next item. Throws statekeep::Error where the read fails.
    iterator& operator++() {
      range_->current_ = range_->Next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !range_->current_; }

   private:
    friend InputRange;
    explicit iterator(InputRange* range) : range_(range) {}
    InputRange* range_;
  };

  /// Waits for the first item not yet handed out.
  iterator begin() {
    if (!current_) current_ = Next();
    return iterator(this);
  }
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Waits for the next item, and takes it; empty at the end. Throws statekeep::Error where the read fails.
  std::optional<Item> Next() { return source_->Next(); }

 protected:
  explicit InputRange(std::unique_ptr<internal::Source<Item>> source) : source_(std::move(source)) {}
  internal::Source<Item>& source() const { return *source_; }

 private:
  std::unique_ptr<internal::Source<Item>> source_;
  std::optional<Item> current_;
};

/// The items of all pages of a list, each page fetched when the one before is used up.
template <class Item>
class Pages : public InputRange<Item> {
 public:
  explicit Pages(std::unique_ptr<internal::Source<Item>> source) : InputRange<Item>(std::move(source)) {}
};

/// A stream that makes a lost connection again, and goes on without a gap or a repeat. Destroying it ends the call.
template <class Item>
class Stream : public InputRange<Item> {
 public:
  explicit Stream(std::unique_ptr<internal::StreamSource<Item>> source) : InputRange<Item>(std::move(source)) {}

  /// Everything up to this revision was handed out: a later read can go on after it.
  std::int64_t revision() const { return stream().revision(); }
  /// Whether all that was there when the read began was handed out.
  bool caught_up() const { return stream().caught_up(); }
  /// Ends the stream from any thread: whoever waits for an item reaches the end.
  void Cancel() { stream().Cancel(); }

 private:
  internal::StreamSource<Item>& stream() const { return static_cast<internal::StreamSource<Item>&>(this->source()); }
};

}  // namespace statekeep
