// Walks the pages of a list.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "statekeep/range.h"

namespace statekeep::internal {

template <class Item, class Request>
class Paging final : public Source<Item> {
 public:
  // Fetches a page: appends its items, and returns the next page's token.
  using Fetch = std::function<std::string(const Request&, std::deque<Item>&)>;

  Paging(Request request, Fetch fetch) : request_(std::move(request)), fetch_(std::move(fetch)) {}

  std::optional<Item> Next() override {
    while (items_.empty()) {
      if (ended_) return std::nullopt;
      request_.set_page_token(fetch_(request_, items_));
      ended_ = request_.page_token().empty();
    }
    std::optional<Item> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

 private:
  Request request_;
  Fetch fetch_;
  std::deque<Item> items_;
  bool ended_ = false;
};

// The pages of a list call; `items` gives the repeated field of an answer.
template <class Item, class Connection, class Stub, class Request, class Response, class Options>
Pages<Item> PagesOf(std::shared_ptr<Connection> connection, const std::unique_ptr<Stub>& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), Request request,
                    const Options& options, google::protobuf::RepeatedPtrField<Item>* (Response::*items)()) {
  request.set_page_size(options.page_size);
  auto fetch = [connection, &stub, method, items, call = options.call](const Request& page, std::deque<Item>& into) {
    Response response = connection->Call(stub, method, page, call);
    auto* found = (response.*items)();
    into.insert(into.end(), std::make_move_iterator(found->begin()), std::make_move_iterator(found->end()));
    return response.next_page_token();
  };
  return Pages<Item>(std::make_unique<Paging<Item, Request>>(std::move(request), std::move(fetch)));
}

}  // namespace statekeep::internal
