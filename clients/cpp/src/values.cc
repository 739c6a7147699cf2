#include "statekeep/values.h"

#include <utility>

namespace statekeep {
namespace {

Scope ScopeOf(v1::ScopeType type, std::string name) {
  Scope scope;
  scope.set_type(type);
  scope.set_name(std::move(name));
  return scope;
}

}  // namespace

Value Json(std::string text, std::string content_type) {
  Value value;
  value.set_json(std::move(text));
  value.set_content_type(std::move(content_type));
  return value;
}

Value Text(std::string text, std::string content_type) {
  Value value;
  value.set_text(std::move(text));
  value.set_content_type(std::move(content_type));
  return value;
}

Value Data(std::string bytes, std::string content_type) {
  Value value;
  value.set_data(std::move(bytes));
  value.set_content_type(std::move(content_type));
  return value;
}

Scope NamespaceScope(std::string name) { return ScopeOf(v1::SCOPE_TYPE_NAMESPACE, std::move(name)); }
Scope FlowScope(std::string name) { return ScopeOf(v1::SCOPE_TYPE_FLOW, std::move(name)); }
Scope ExecutionScope(std::string name) { return ScopeOf(v1::SCOPE_TYPE_EXECUTION, std::move(name)); }

}  // namespace statekeep
