// Command cases runs the language-neutral cases of tests/clients/cases through this client: the README there says how.
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"statekeep.dev/go/statekeep"
)

const language = "go"

// unmet is what this client cannot express, and why.
var unmet = map[string]string{
	"batch_parts":    "a batch has one scope and one request id",
	"purge_selector": "Purge takes one key, PurgeAll none",
}

// counts is how a run went.
type counts struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
}

// result is the last line that a runner prints.
type result struct {
	Language string `json:"language"`
	counts
	Skipped [][2]string       `json:"skipped"`
	Read    map[string]counts `json:"read,omitempty"`
}

func main() {
	r := result{Language: language, Skipped: [][2]string{}}
	if err := run(&r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		r.Failed++
	}
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers alone
	}
	fmt.Println(string(line))
	if r.Failed > 0 {
		os.Exit(1)
	}
}

func run(r *result) error {
	address, folder := os.Getenv("STATEKEEP_ADDRESS"), os.Getenv("STATEKEEP_CASES")
	if address == "" || folder == "" {
		return fmt.Errorf("STATEKEEP_ADDRESS and STATEKEEP_CASES must say where the server and the cases are")
	}
	oddities, err := readOddities(folder)
	if err != nil {
		return err
	}
	connect := func() (*statekeep.Client, error) { return statekeep.NewClient(address) }
	client, err := connect()
	if err != nil {
		return err
	}
	defer client.Close()
	way, languages, _ := strings.Cut(os.Getenv("STATEKEEP_CROSS"), ":")
	switch way {
	case "":
		return runCases(r, client, connect, folder, oddities)
	case "write":
		return crossing{client, os.Getenv("STATEKEEP_RUN"), oddities}.writeAll(r, languages)
	case "read":
		return crossing{client, os.Getenv("STATEKEEP_RUN"), oddities}.readAll(r, strings.Split(languages, ","))
	}
	return fmt.Errorf("STATEKEEP_CROSS is %q, and must be write:LANGUAGE or read:LANGUAGE,…", way)
}

func runCases(
	r *result, client *statekeep.Client, connect func() (*statekeep.Client, error), folder string, oddities []oddity,
) error {
	all, err := readCases(folder, oddities)
	if err != nil {
		return err
	}
	name := strings.ToLower(rand.Text()[:8])
	for i, c := range all {
		if !strings.Contains(c.id, os.Getenv("STATEKEEP_ONLY")) {
			continue
		}
		why, err := runCase(c, fmt.Sprintf("%s-%s-%d", language, name, i), client, connect)
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.id, err)
			r.Failed++
		case why != "":
			r.Skipped = append(r.Skipped, [2]string{c.id, why})
		default:
			r.Passed++
		}
	}
	if r.Passed+r.Failed+len(r.Skipped) == 0 {
		return fmt.Errorf("there is no case in %s whose id contains %q", folder, os.Getenv("STATEKEEP_ONLY"))
	}
	return nil
}
