package vfs

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holder tries the lock the way a Java broker does, says what came of it, and
// keeps it until its standard input ends.
const holder = `
import java.io.*;
import java.nio.channels.*;

public class Holder {
    public static void main(String[] args) throws Exception {
        RandomAccessFile file = new RandomAccessFile(args[0], "rw");
        FileLock lock = file.getChannel().tryLock(0, 1, false);
        System.out.println(lock == null ? "refused" : "locked");
        System.out.flush();
        while (System.in.read() >= 0) { }
    }
}
`

// TestLockAgainstJava starts a real Java program: it and Lock must exclude
// each other in both orders.
func TestLockAgainstJava(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a Java compiler and a JVM twice")
	}
	javac, err := exec.LookPath("javac")
	if err != nil {
		t.Skip("no javac on the path: the lock is not tried against Java")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("no java on the path: the lock is not tried against Java")
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "Holder.java")
	if err := os.WriteFile(src, []byte(holder), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(javac, "-d", dir, src).CombinedOutput(); err != nil {
		t.Skipf("javac does not work: %v\n%s", err, out)
	}
	name := filepath.Join(dir, "lock")
	start := func() (answer string, stop func()) {
		cmd := exec.Command(java, "-Xmx64m", "-Xshare:auto", "-cp", dir, "Holder", name)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		return strings.TrimSpace(line), func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}

	l, err := OS{}.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	// The trap: this would drop a POSIX lock. It must be refused, and Java
	// must still see the lock.
	if f, err := (OS{}).Open(name, os.O_RDONLY); err == nil {
		f.Close()
		t.Error("the locked file could be opened")
	}
	answer, stop := start()
	if answer != "refused" {
		t.Errorf("we hold the lock, Java: %q", answer)
	}
	stop()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	answer, stop = start()
	if answer != "locked" {
		t.Errorf("the lock is free, Java: %q", answer)
	}
	if l, err := (OS{}).Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("Java holds the lock, Lock: %v", err)
		if err == nil {
			l.Close()
		}
	} else if !strings.Contains(err.Error(), "by process ") {
		t.Errorf("the error must name the holder: %v", err)
	}
	stop()
	l, err = OS{}.Lock(name)
	if err != nil {
		t.Fatalf("Java is gone: %v", err)
	}
	l.Close()
}
