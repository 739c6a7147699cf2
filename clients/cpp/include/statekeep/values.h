// Values and scopes: what goes into every call.
#pragma once

#include <string>
#include <string_view>

#include "statekeep/v1/memory.pb.h"
#include "statekeep/v1/value.pb.h"

namespace statekeep {

/// A value, kept byte for byte: `json()`, `text()` or `data()`, as `kind_case()` says, and `content_type()`.
using v1::Value;
/// Where a key lives: a name under a type. One name under two types is two scopes.
using v1::Scope;

/// One JSON text (RFC 8259). It travels as text, so no number loses a digit; the server refuses what is no JSON.
Value Json(std::string text, std::string content_type = {});
/// Plain text, in UTF-8.
Value Text(std::string text, std::string content_type = {});
/// Bytes.
Value Data(std::string bytes, std::string content_type = {});

/// A scope shared by many runs.
Scope NamespaceScope(std::string name);
/// A scope that belongs to one flow.
Scope FlowScope(std::string name);
/// A scope that belongs to one execution of a flow.
Scope ExecutionScope(std::string name);

}  // namespace statekeep
