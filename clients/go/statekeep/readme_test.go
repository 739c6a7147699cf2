package statekeep_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"statekeep.dev/go/internal/servertest"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{servertest.Module(t)}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheReadmeShowsTheExample(t *testing.T) {
	example := read(t, "examples", "quickstart", "main.go")
	if !strings.Contains(read(t, "README.md"), "```go\n"+example+"```") {
		t.Error("README.md does not show examples/quickstart/main.go as it is")
	}
}

func TestTheRepositorysReadmeShowsAPartOfTheExample(t *testing.T) {
	_, after, found := strings.Cut(read(t, "..", "..", "README.md"), "```go\n")
	block, _, _ := strings.Cut(after, "```")
	if !found {
		t.Fatal("the repository's README.md shows no Go")
	}
	example := read(t, "examples", "quickstart", "main.go")
	for line := range strings.Lines(block) {
		if !strings.Contains(example, strings.TrimSpace(line)) {
			t.Errorf("the example has no line %q", line)
		}
	}
}

func TestTheExampleRuns(t *testing.T) {
	server := servertest.Start(t)
	command := exec.Command("go", "run", "./examples/quickstart")
	command.Dir = servertest.Module(t)
	command.Env = append(os.Environ(), "STATEKEEP_ADDRESS="+server.Address)
	output, err := command.CombinedOutput()
	if right := "{\"first\": \"Ada\"}\n1 message hello\n"; err != nil || string(output) != right {
		t.Errorf("it printed %q: %v", output, err)
	}
}
