package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		heap, container, want int64
	}{
		{0, 0, 0},
		{1 << 30, 0, 1 << 30},
		{0, 1000 << 20, 800 << 20},
		{8 << 30, 1000 << 20, 800 << 20},
		{100 << 20, 1000 << 20, 100 << 20},
		{1 << 20, 0, least},
	} {
		if got, _ := choose(c.heap, c.container); got != c.want {
			t.Errorf("choose(%d, %d) = %d, want %d", c.heap, c.container, got, c.want)
		}
	}
}

func TestContainer(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing there", nil, 0},
		{"version 2 in a container", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		{"version 2 without a limit", map[string]string{"proc/self/cgroup": "0::/user.slice\n", "sys/fs/cgroup/user.slice/memory.max": "max\n"}, 0},
		{"version 2, the limit is above", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "4096\n"}, 4096},
		{"version 1", map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/x\n5:memory:/docker/abc\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20},
		{"version 1 without a limit", map[string]string{"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"nonsense", map[string]string{"proc/self/cgroup": "what\n0::/\n", "sys/fs/cgroup/memory.max": "-5"}, 0},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := container(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
