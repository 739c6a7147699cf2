package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// difference tells where what came is not what is right; "" where it is.
func difference(right, got any, path string) string {
	switch right := right.(type) {
	case object:
		return objectDifference(right, got, path)
	case []any:
		return listDifference(right, got, path)
	case json.Number, string:
		if digits, ok := digitsOf(got); ok && digits == text(right) {
			return ""
		}
	default: // nil and booleans
		if right == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, and should be %s", path, shown(got), shown(right))
}

func text(tree any) string {
	digits, _ := digitsOf(tree)
	return digits
}

func objectDifference(right object, got any, path string) string {
	if _, ok := right["$any"]; ok {
		if got == nil {
			return path + " is not there"
		}
		return ""
	}
	if count, ok := right["$count"]; ok {
		list, ok := got.([]any)
		if number, err := integer(count); err != nil || !ok || int64(len(list)) != number {
			return fmt.Sprintf("%s has %d elements, and should have %v", path, len(list), count)
		}
		return ""
	}
	if some, ok := right["$has"].([]any); ok {
		return missing(some, got, path)
	}
	members, ok := got.(object)
	if !ok {
		return fmt.Sprintf("%s is %s, and should be an object", path, shown(got))
	}
	for name, item := range right {
		if problem := difference(item, members[name], path+"."+name); problem != "" {
			return problem
		}
	}
	return ""
}

func listDifference(right []any, got any, path string) string {
	list, ok := got.([]any)
	if !ok || len(list) != len(right) {
		return fmt.Sprintf("%s is %s, and should have %d elements: %s", path, shown(got), len(right), shown(right))
	}
	for i, item := range right {
		if problem := difference(item, list[i], fmt.Sprintf("%s[%d]", path, i)); problem != "" {
			return problem
		}
	}
	return ""
}

// missing tells which element a list does not have, after those before it.
func missing(some []any, got any, path string) string {
	list, ok := got.([]any)
	if !ok {
		return path + " is no list"
	}
	for _, item := range list {
		if len(some) > 0 && difference(some[0], item, path) == "" {
			some = some[1:]
		}
	}
	if len(some) > 0 {
		return fmt.Sprintf("%s is %s, and should have %s", path, shown(got), shown(some[0]))
	}
	return ""
}

func shown(tree any) string {
	text, err := json.Marshal(tree)
	if err != nil {
		return err.Error()
	}
	if len(text) > 300 {
		return strings.ToValidUTF8(string(text[:300]), "") + "…"
	}
	return string(text)
}
