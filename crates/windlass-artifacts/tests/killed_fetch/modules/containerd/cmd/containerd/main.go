// A stand-in for containerd: it makes the directories of its root, listens, and ends when it is asked to.
package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func must(err error) {
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

func main() {
	flags := map[string]string{}
	for i := 1; i+1 < len(os.Args); i += 2 {
		flags[os.Args[i]] = os.Args[i+1]
	}
	if flags["--address"] == "" {
		println("containerd 2.2.9")
		return
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	for _, plugin := range []string{"content.v1.content", "metadata.v1.bolt", "runtime.v2.task"} {
		must(os.MkdirAll(filepath.Join(flags["--root"], "io.containerd."+plugin), 0o755))
	}
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(err)
	must(syscall.Bind(socket, &syscall.SockaddrUnix{Name: flags["--address"]}))
	must(syscall.Listen(socket, 16))
	<-stop
}
