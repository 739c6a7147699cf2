package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A tree is JSON as it was read: map[string]any, []any, string, json.Number, bool or nil.
type object = map[string]any

// oddity is a value that is easily damaged on its way.
type oddity struct {
	name  string
	value any
}

// testCase is a sequence of steps under a name.
type testCase struct {
	id     string
	needs  []any
	steps  []any
	oddity any // the value whose turn it is, or nil
}

func readTree(path string) (any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tree, nil
}

func readOddities(folder string) ([]oddity, error) {
	tree, err := readTree(filepath.Join(folder, "oddities.json"))
	if err != nil {
		return nil, err
	}
	var oddities []oddity
	for _, item := range tree.([]any) {
		one := item.(object)
		value, err := replaced(one["value"], replacements{})
		if err != nil {
			return nil, err
		}
		oddities = append(oddities, oddity{one["name"].(string), value})
	}
	return oddities, nil
}

func readCases(folder string, oddities []oddity) ([]testCase, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []testCase
	for _, path := range paths {
		if filepath.Base(path) == "oddities.json" {
			continue
		}
		tree, err := readTree(path)
		if err != nil {
			return nil, err
		}
		file := tree.(object)
		for _, item := range file["cases"].([]any) {
			all = append(all, casesOf(file["name"].(string), item.(object), oddities)...)
		}
	}
	return all, nil
}

func casesOf(file string, one object, oddities []oddity) []testCase {
	needs, _ := one["needs"].([]any)
	c := testCase{id: file + "/" + one["name"].(string), needs: needs, steps: one["steps"].([]any)}
	if one["each"] != "oddity" {
		return []testCase{c}
	}
	var each []testCase
	for _, odd := range oddities {
		each = append(each, testCase{c.id + "/" + odd.name, c.needs, c.steps, odd.value})
	}
	return each
}

// replacements is what stands for the members that begin with $, and for $run.
type replacements struct {
	run    string
	saved  map[string]any
	oddity any
}

func replaced(tree any, by replacements) (any, error) {
	switch tree := tree.(type) {
	case string:
		return strings.ReplaceAll(tree, "$run", by.run), nil
	case []any:
		list := make([]any, len(tree))
		for i, item := range tree {
			var err error
			if list[i], err = replaced(item, by); err != nil {
				return nil, err
			}
		}
		return list, nil
	case object:
		if special, found, err := by.special(tree); found || err != nil {
			return special, err
		}
		all := object{}
		for name, item := range tree {
			var err error
			if all[name], err = replaced(item, by); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return tree, nil
}

func (by replacements) special(tree object) (any, bool, error) {
	if text, ok := tree["$repeat"].(string); ok {
		times, err := integer(tree["times"])
		return strings.Repeat(text, int(times)), true, err
	}
	if _, ok := tree["$oddity"]; ok {
		return by.oddity, true, nil
	}
	name, ok := tree["$saved"].(string)
	if !ok {
		return nil, false, nil
	}
	saved, ok := by.saved[name]
	if !ok {
		return nil, true, fmt.Errorf("nothing was saved as %q", name)
	}
	plus, ok := tree["plus"]
	if !ok {
		return saved, true, nil
	}
	number, err := integer(saved)
	if err != nil {
		return nil, true, err
	}
	more, err := integer(plus)
	return json.Number(strconv.FormatInt(number+more, 10)), true, err
}

// integer is a whole number, given as one or as a string of its digits.
func integer(tree any) (int64, error) {
	digits, ok := digitsOf(tree)
	if !ok {
		return 0, fmt.Errorf("%v is no whole number", tree)
	}
	return strconv.ParseInt(digits, 10, 64)
}

func digitsOf(tree any) (string, bool) {
	switch tree := tree.(type) {
	case json.Number:
		return tree.String(), true
	case string:
		return tree, true
	}
	return "", false
}

// at is the part of a tree at a path of field names and places in lists.
func at(tree any, path string) (any, error) {
	for _, part := range strings.Split(path, ".") {
		switch parent := tree.(type) {
		case object:
			tree = parent[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(parent) {
				return nil, fmt.Errorf("there is no %q of %q", part, path)
			}
			tree = parent[i]
		}
	}
	if tree == nil {
		return nil, fmt.Errorf("there is nothing at %q", path)
	}
	return tree, nil
}
