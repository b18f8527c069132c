package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/gantrymq/gantry/store/vfs"
)

// explain makes one friendly sentence of an error where a user is likely to see it; several joined errors are listed.
func explain(command string, err error) string {
	var list []string
	for _, e := range split(err) {
		list = append(list, sentence(e))
	}
	if len(list) == 1 {
		return command + ": " + list[0]
	}
	return command + ":\n  " + strings.Join(list, "\n  ")
}

// split undoes errors.Join, at any depth above the first error that is not joined.
func split(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || strings.Count(err.Error(), "\n") == 0 { // fmt.Errorf with several %w is one sentence
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, split(e)...)
	}
	return list
}

func sentence(err error) string {
	var op *net.OpError
	listening := errors.As(err, &op) && op.Op == "listen"
	var unresolved *net.DNSError
	switch {
	case listening && errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("%s is in use by another process; stop that, or listen elsewhere (--set listenPort=PORT, in standalone also --namesrv-listen HOST:PORT)", op.Addr)
	case listening && errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("this machine has no address %s; see --bind", op.Addr)
	case listening && errors.As(err, &unresolved):
		return fmt.Sprintf("there is no host %q to listen on; see --bind", unresolved.Name)
	case listening && errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("listening on %s is not permitted; take a port above 1023", op.Addr)
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Sprintf("another broker, of Gantry or of RocketMQ, has the store open; stop it, or choose another folder with --store (%v)", err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Sprintf("the disk is full: %v", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("not permitted: %v", err)
	}
	return err.Error()
}
