// A stand-in for ctr: it asks whether its containerd is there, and imports an archive by copying it to containerd's root.
package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func must(err error) {
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) < 6 {
		println("ctr 2.2.9")
		return
	}
	address, words := os.Args[2], strings.Join(os.Args[5:], " ")
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(err)
	must(syscall.Connect(socket, &syscall.SockaddrUnix{Name: address}))
	switch archive := os.Args[len(os.Args)-1]; {
	case strings.HasPrefix(words, "images import "):
		content, err := os.ReadFile(archive)
		must(err)
		store := filepath.Join(filepath.Dir(address), "../preload/io.containerd.content.v1.content")
		must(os.WriteFile(filepath.Join(store, filepath.Base(archive)), content, 0o644))
	case strings.HasPrefix(words, "images list"):
		os.Stdout.WriteString("example.org/a:1\n")
	}
}
