package mqadmin

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/gantryserver"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// play lists commands of mqadmin and what each has to print. Commands of one step run at the same time; BROKER is its
// address.
var play = [][]struct{ command, want string }{
	{
		{"updateTopic -c DefaultCluster -t T1 -r 4 -w 2", `create topic to BROKER success\.`},
		{"updateTopic -b BROKER -t T2 -r 2 -w 2 -a +message.type=FIFO", `create topic to BROKER success\.`},
		{"updateSubGroup -c DefaultCluster -g G1 -r 3", `create subscription group to BROKER success\.`},
	}, {
		{"sendMessage -t T1 -i 1 -b broker-a -p hello", `broker-a +1 +SEND_OK`},
	}, {
		{"topicStatus -t T1", `(?s)broker-a +0 +0 +0 .*broker-a +1 +0 +1 +20.*broker-a +3 +0 +0 `},
		{"topicList -c", `(?s)DefaultCluster +T1 .*DefaultCluster +T2 `},
		{"getConsumerConfig -g G1", `retryMaxTimes +=  3\n`},
		{"consumerProgress", `#Group +#Count +#Version`},
		{"brokerStatus -b BROKER", `(?s)brokerVersionDesc +: V5_5_0.*msgPutTotalTodayNow +: 1\n`},
		{"brokerConsumeStats -b BROKER", `Diff Total: 0`},
		{"statsAll -t T1", `(?s)#Accumulation.*T1 +0 +[0-9.]+ +[0-9]+ +NO_CONSUMER`},
	}, {
		{"updateTopicPerm -b BROKER -t T1 -p 4", `update topic perm from 6 to 4 in BROKER success`},
		{"deleteTopic -c DefaultCluster -t T2", `(?s)delete topic \[T2\] from cluster \[DefaultCluster\] success.*from NameServer success`},
		{"deleteSubGroup -c DefaultCluster -g G1 -r true", `delete subscription group \[G1\] from broker \[BROKER\] in cluster \[DefaultCluster\] success`},
	}, {
		{"topicRoute -t T1", `(?s)"perm":4,\s*"readQueueNums":4,.*"writeQueueNums":2`},
		{"topicRoute -t T2", `No topic route info`},
	},
}

func TestCommands(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := toolchain.Java(); err != nil {
		t.Fatal(err)
	}
	ns, err := gantryserver.StartNamesrv(ctx, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Kill()
	b, err := gantryserver.StartBroker(ctx, t.TempDir(), map[string]string{"namesrvAddr": ns.Namesrv})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()

	var lines []string
	for _, step := range play {
		var commands []string
		for _, c := range step {
			commands = append(commands, strings.ReplaceAll(c.command, "BROKER", b.Broker))
		}
		lines = append(lines, strings.Join(commands, ";"))
	}
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, "java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.home="+home,
		"-cp", toolchain.Jars("server-5.5.0"), filepath.Join(toolchain.Root(), "compat", "mqadmin", "Commands.java"), ns.Namesrv)
	cmd.Dir, cmd.Env = home, append(cmd.Environ(), "ROCKETMQ_HOME="+home)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, complaints.String())
	}
	// What each command said lies between its line and the next one's.
	said := map[string]string{}
	for _, part := range strings.Split("\n"+string(out), "\n$ ")[1:] {
		command, text, _ := strings.Cut(part, "\n")
		said[command] = text + "\n"
	}
	for _, step := range play {
		for _, c := range step {
			command := strings.ReplaceAll(c.command, "BROKER", b.Broker)
			want := strings.ReplaceAll(c.want, "BROKER", regexp.QuoteMeta(b.Broker))
			if text := said[command]; !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s: want %s in\n%s", command, want, text)
			}
		}
	}
}
