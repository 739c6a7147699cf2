// Package servertest runs Statekeep servers for tests, each a process of its own.
package servertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"statekeep.dev/go/statekeep"
)

const (
	startWithin = 60 * time.Second
	endWithin   = 20 * time.Second
)

// Server is a running server.
type Server struct {
	Address string

	t       testing.TB
	command *exec.Cmd
	stderr  bytes.Buffer
	ended   chan struct{}
	end     sync.Once
}

// Start runs a server on a free port of loopback, with further flags, until the test's end.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", flags...)
}

// StartAt is Start on an address: "HOST:PORT" or "unix:PATH".
func StartAt(t testing.TB, address string, flags ...string) *Server {
	t.Helper()
	words := append(command(t), "serve", "--listen", address)
	s := &Server{t: t, command: exec.Command(words[0], append(words[1:], flags...)...), ended: make(chan struct{})}
	s.command.Env = environment()
	s.command.Stderr = &s.stderr
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatalf("the server did not start: %v (STATEKEEP_COMMAND names another)", err)
	}
	t.Cleanup(s.Kill)
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for first := true; lines.Scan(); first = false {
			if first {
				ready <- lines.Text()
			}
		}
		close(ready)
		_ = s.command.Wait()
		close(s.ended)
	}()
	s.Address = s.listening(ready)
	return s
}

func (s *Server) listening(ready <-chan string) string {
	s.t.Helper()
	var line struct{ Listen []string }
	select {
	case text := <-ready:
		if err := json.Unmarshal([]byte(text), &line); err == nil && len(line.Listen) > 0 {
			return line.Listen[0]
		}
		s.Kill()
		s.t.Fatalf("the server did not come up: %q %s", text, s.stderr.String())
	case <-time.After(startWithin):
		s.Kill()
		s.t.Fatalf("the server was not ready after %s", startWithin)
	}
	return ""
}

// Connect makes a client of the server, which is closed at the test's end.
func (s *Server) Connect(options ...statekeep.Option) *statekeep.Client {
	s.t.Helper()
	return Connect(s.t, s.Address, options...)
}

// Connect makes a client of the server at an address, which is closed at the test's end.
func Connect(t testing.TB, address string, options ...statekeep.Option) *statekeep.Client {
	t.Helper()
	client, err := statekeep.NewClient(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Kill ends the server as kill -9 does.
func (s *Server) Kill() { s.stop(syscall.SIGKILL) }

// Terminate asks the server to end, and returns at once.
func (s *Server) Terminate() {
	s.t.Helper()
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) stop(signal syscall.Signal) {
	s.end.Do(func() {
		_ = s.command.Process.Signal(signal)
		select {
		case <-s.ended:
		case <-time.After(endWithin):
			s.t.Errorf("the server was not gone after %s", endWithin)
		}
	})
}

// HasSQLite tells whether the server can keep its records in a file.
func HasSQLite(t testing.TB) bool {
	t.Helper()
	words := append(command(t), "serve", "--help")
	help, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", words, err, help)
	}
	return strings.Contains(string(help), "sqlite")
}

// command is what starts a server: STATEKEEP_COMMAND, or that of the repository's environment.
func command(t testing.TB) []string {
	t.Helper()
	if words := strings.Fields(os.Getenv("STATEKEEP_COMMAND")); len(words) > 0 {
		return words
	}
	return []string{filepath.Join(Module(t), "..", "..", ".venv", "bin", "statekeep")}
}

// Module is the folder of this module, clients/go.
func Module(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		folder = filepath.Dir(folder)
	}
	t.Fatal("there is no go.mod above the test")
	return ""
}

// environment is that of the test, without what would set a server up.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "STATEKEEP_") {
			kept = append(kept, variable)
		}
	}
	return kept
}
